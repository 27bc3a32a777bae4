import java.util.TreeMap;

/** Prints every option of a Kafka broker: name, type, default and range, with tabs between. */
public class BrokerOptions {
    public static void main(String[] arguments) {
        var keys = kafka.server.KafkaConfig$.MODULE$.configDef().configKeys();
        for (var key : new TreeMap<>(keys).values())
            System.out.println(String.join("\t", key.name, key.type.toString(), String.valueOf(key.defaultValue), String.valueOf(key.validator)));
    }
}
