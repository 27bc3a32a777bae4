import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/** kafka-consumer-groups, once for each line of stdin (a JSON list of arguments), all in one process. */
final class GroupsTool {
    private GroupsTool() {}

    /** Where the tool would end its process. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final int status;

        private Ended(int status) {
            this.status = status;
        }
    }

    static void run(JsonNode config) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status);
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", config.get("bootstrap").asText()));
            new ObjectMapper().readTree(line).forEach(argument -> arguments.add(argument.asText()));
            PrintStream out = System.out;
            PrintStream err = System.err;
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream complaint = new ByteArrayOutputStream();
            int status = 0;
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complaint, true, StandardCharsets.UTF_8));
            try {
                ConsumerGroupCommand.main(arguments.toArray(new String[0]));
            } catch (Ended ended) {
                status = ended.status;
            } finally {
                System.setOut(out);
                System.setErr(err);
            }
            Reporting.report("said", Map.of(
                "text", said.toString(StandardCharsets.UTF_8),
                "error", complaint.toString(StandardCharsets.UTF_8),
                "status", status));
        }
    }
}
