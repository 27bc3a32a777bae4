import org.apache.kafka.common.protocol.Errors;

/** Prints every error code of the Kafka on the class path, a line each: name, space, number. */
public final class ErrorTable {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println(error.name() + " " + error.code());
        }
    }
}
