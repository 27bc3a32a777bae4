import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/** Kafka's own command line tools, one for each line of stdin (a JSON list: class, arguments), all in one process. */
final class Tools {
    private static final ByteArrayOutputStream SAID = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream COMPLAINED = new ByteArrayOutputStream();
    private static Integer status;

    private Tools() {}

    /** Thrown where a tool would end its process. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    static void run() throws Exception {
        Exit.setExitProcedure((code, message) -> {
            status = status == null ? code : status;  // A tool may take what is thrown for an error, and end again.
            throw new Ended();
        });
        // Scala's Console keeps the streams that are there when it is first used, so these stay for all tools.
        PrintStream out = System.out;
        PrintStream said = new PrintStream(SAID, true, StandardCharsets.UTF_8);
        System.setErr(new PrintStream(COMPLAINED, true, StandardCharsets.UTF_8));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = new ObjectMapper().readValue(line, String[].class);
            System.setOut(said);
            play(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.setOut(out);
            Reporting.report("said", Map.of("text", taken(SAID), "error", taken(COMPLAINED), "status", status));
        }
    }

    private static void play(String main, String[] arguments) throws ReflectiveOperationException {
        status = null;
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (status == null) {
                thrown.getCause().printStackTrace();
                status = 1;
            }
        }
        if (status == null) status = 0;
    }

    private static String taken(ByteArrayOutputStream stream) {
        String text = stream.toString(StandardCharsets.UTF_8);
        stream.reset();
        return text;
    }
}
