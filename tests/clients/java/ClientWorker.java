import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Properties;

/** Apache Kafka's Java client as a worker process; `main` has the kinds there are. */
public final class ClientWorker {
    private ClientWorker() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode config = new ObjectMapper().readTree(arguments[1]);
        switch (arguments[0]) {
            case "member" -> GroupMember.host(config);
            case "ledger" -> LedgerMember.run(config);
            case "produce" -> Codecs.produce(config);
            case "read" -> Codecs.read(config);
            case "walk" -> new ConsumerWalk(config).run();
            case "admin" -> new AdminWalk(config).run();
            case "transactions" -> new TransactionWalk(config).run();
            case "secured" -> SecuredWalk.run(config);
            case "tools" -> Tools.run();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static Properties properties(JsonNode config, String... namesAndValues) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", config.get("bootstrap").asText());
        for (int i = 0; i < namesAndValues.length; i += 2) {
            properties.put(namesAndValues[i], namesAndValues[i + 1]);
        }
        return properties;
    }

    /** Settings for a consumer that reads strings in the group of `config`. */
    static Properties consumerProperties(JsonNode config) {
        return properties(config,
            "group.id", config.get("group").asText(),
            "session.timeout.ms", config.path("session_timeout_ms").asText("6000"),
            "heartbeat.interval.ms", "500",
            "metadata.max.age.ms", config.path("metadata_max_age_ms").asText("300000"),
            "max.poll.interval.ms", config.path("max_poll_interval_ms").asText("300000"),
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "fetch.max.wait.ms", "100",
            "key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer",
            "value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    }
}
