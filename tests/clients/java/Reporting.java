import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** How a client process talks to the test that started it; the Python side is workers/reporting.py. */
final class Reporting {
    static final long STEP_DEADLINE_S = 60;
    private static final ObjectMapper JSON = new ObjectMapper();

    private Reporting() {}

    interface Step {
        void run() throws Exception;
    }

    static void report(String event) {
        report(event, Map.of());
    }

    static synchronized void report(String event, Map<String, ?> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.putAll(fields);
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
        System.out.flush();
    }

    /** Becomes true when stdin ends; `go` is released for each line of it, and at the end. */
    static AtomicBoolean stopRequested(Semaphore go) {
        AtomicBoolean stop = new AtomicBoolean();
        Thread watcher = new Thread(() -> {
            try {
                int character = System.in.read();
                while (character >= 0) {
                    if (character == '\n') {
                        go.release();
                    }
                    character = System.in.read();
                }
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
            stop.set(true);
            go.release();
        });
        watcher.setDaemon(true);
        watcher.start();
        return stop;
    }

    /** A step of a walk: reported as walked only if it ends without an exception. */
    static void step(String name, Step step) throws Exception {
        step.run();
        report("step", Map.of("step", name));
    }

    static void require(boolean condition, Object what) {
        if (!condition) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static void requireEqual(Object actual, Object expected, String what) {
        require(Objects.equals(actual, expected), what + ": " + actual + ", expected " + expected);
    }

    /** Repeats an attempt, which itself should block a little, until it is true. */
    static void eventually(String what, Callable<Boolean> attempt) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(STEP_DEADLINE_S);
        while (System.nanoTime() < deadline) {
            if (attempt.call()) {
                return;
            }
        }
        throw new AssertionError(what + ": not within " + STEP_DEADLINE_S + " s");
    }

    /** The exception that a future failed with; fails if it did not. */
    static Throwable failure(java.util.concurrent.Future<?> future) throws Exception {
        try {
            future.get(STEP_DEADLINE_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause();
        }
        throw new AssertionError("no exception");
    }
}
