import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** The Java clients over secured listeners: the outcome of each cell; the Python side is workers/secured.py. */
final class SecuredWalk {
    private static final String SERVED = "served";
    private static final String NOTHING = "nothing";
    private static final int THREADS = 8;
    private static final int LATE = 3;
    private static final long COMMIT_EVERY_MS = 200;
    private static final String SECURITY = "org.apache.kafka.common.security.";

    private SecuredWalk() {}

    private record Outcome(String error, String text, Map<String, ?> details) {
        static Outcome served(Map<String, ?> details) {
            return new Outcome(SERVED, "", details);
        }

        static Outcome of(Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return new Outcome(cause.getClass().getSimpleName(), String.valueOf(cause.getMessage()), Map.of());
        }
    }

    private interface Play {
        Outcome run(JsonNode cell) throws Exception;
    }

    static void run(JsonNode config) throws Exception {
        Map<String, Play> plays = Map.of(
            "connects", SecuredWalk::connects,
            "writes", SecuredWalk::writes,
            "reads", SecuredWalk::reads,
            "stays", SecuredWalk::stays);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<?>> playing = new ArrayList<>();
        for (JsonNode cell : config.get("cells")) {
            Play play = plays.get(cell.get("does").asText());
            playing.add(threads.submit(() -> played(play, cell)));
        }
        for (Future<?> each : playing) {
            each.get();
        }
        threads.shutdown();
        Reporting.report("walked");
    }

    private static Void played(Play play, JsonNode cell) throws Exception {
        long begun = System.nanoTime();
        Outcome outcome = play.run(cell);
        Reporting.report("outcome", Map.of(
            "cell", cell.get("name").asText(),
            "took_s", (System.nanoTime() - begun) / 10_000_000 / 100.0,
            "error", outcome.error,
            "text", outcome.text,
            "details", outcome.details));
        return null;
    }

    private static long waitsMs(JsonNode cell) {
        return (long) (cell.get("waits_s").asDouble() * 1000);
    }

    private static boolean has(JsonNode cell, String name) {
        return cell.hasNonNull(name);
    }

    private static Properties properties(JsonNode cell, String... others) {
        Properties properties = ClientWorker.properties(cell, others);
        properties.put("security.protocol", cell.get("protocol").asText());
        properties.put("reconnect.backoff.max.ms", "1000");
        if (cell.get("protocol").asText().endsWith("SSL")) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", cell.get("authority").asText());
        }
        if (has(cell, "certificate")) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.location", cell.get("certificate").asText());
        }
        if (has(cell, "token_url")) {
            token(cell, properties);
        } else if (has(cell, "mechanism")) {
            String mechanism = cell.get("mechanism").asText();
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", SECURITY + module + " required username=\""
                + cell.get("user").asText() + "\" password=\"" + cell.get("password").asText() + "\";");
        }
        return properties;
    }

    private static void token(JsonNode cell, Properties properties) {
        String bearer = SECURITY + "oauthbearer.";
        properties.put("sasl.mechanism", "OAUTHBEARER");
        properties.put("sasl.oauthbearer.token.endpoint.url", cell.get("token_url").asText());
        properties.put("sasl.login.callback.handler.class", bearer + "OAuthBearerLoginCallbackHandler");
        properties.put("sasl.jaas.config",
            bearer + "OAuthBearerLoginModule required clientId=\"client\" clientSecret=\"secret\";");
        properties.put("sasl.login.refresh.min.period.seconds", "0");
        properties.put("sasl.login.refresh.buffer.seconds", "0");
        properties.put("sasl.login.refresh.window.factor", "0.5");  // The next token is there before the session ends.
        properties.put("sasl.login.refresh.window.jitter", "0");
    }

    private static Outcome connects(JsonNode cell) throws Exception {
        Properties properties = properties(cell,
            "default.api.timeout.ms", String.valueOf(waitsMs(cell)), "request.timeout.ms", "60000");
        try (Admin admin = Admin.create(properties)) {
            admin.listTopics().names().get(waitsMs(cell), TimeUnit.MILLISECONDS);
            return Outcome.served(Map.of());
        } catch (ExecutionException error) {
            return Outcome.of(error);
        }
    }

    private static Outcome writes(JsonNode cell) throws Exception {
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        Properties properties = properties(cell,
            "key.serializer", serializer, "value.serializer", serializer, "max.block.ms", String.valueOf(waitsMs(cell)));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>(cell.get("topic").asText(), "x")).get();
            return Outcome.served(Map.of());
        } catch (ExecutionException error) {
            return Outcome.of(error);
        }
    }

    private static KafkaConsumer<String, String> consumer(JsonNode cell) {
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        Properties properties = properties(cell,
            "group.id", cell.get("group").asText(),
            "group.protocol", cell.get("group_protocol").asText(),
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "fetch.max.wait.ms", "100",
            // A busy client logs in too late and loses a connection. With no other broker known it would begin with
            // the bootstrap servers again (KIP-899), know no topics for a moment, and rebalance for that.
            "metadata.recovery.strategy", "none",
            "key.deserializer", deserializer,
            "value.deserializer", deserializer);
        if (cell.get("group_protocol").asText().equals("classic")) {
            properties.put("session.timeout.ms", "10000");
            properties.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(properties);
    }

    /** The first exception that a poll throws, or that the group is joined. */
    private static Outcome reads(JsonNode cell) {
        try (KafkaConsumer<String, String> consumer = consumer(cell)) {
            consumer.subscribe(List.of(cell.get("topic").asText()));
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitsMs(cell));
            while (System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(100));
                if (!consumer.assignment().isEmpty()) {
                    return Outcome.served(Map.of());
                }
            }
            return new Outcome(NOTHING, "", Map.of());
        } catch (KafkaException error) {
            return Outcome.of(error);
        }
    }

    /** A member for several sessions; whether it kept its connections is what the client itself counted. */
    private static Outcome stays(JsonNode cell) throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer(cell)) {
            List<Collection<TopicPartition>> assigned = new ArrayList<>();
            List<String> failures = new ArrayList<>();
            consumer.subscribe(List.of(cell.get("topic").asText()), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    assigned.add(partitions);
                }
            });
            Reporting.eventually("assigned", () -> {
                consumer.poll(Duration.ofMillis(100));
                return !assigned.isEmpty();
            });
            var where = Map.of(new TopicPartition(cell.get("topic").asText(), 0), new OffsetAndMetadata(1));
            consumer.commitSync(where);
            int assignments = assigned.size();
            double opened = metric(consumer, "connection-creation-total");
            long end = System.nanoTime() + (long) (cell.get("lasts_s").asDouble() * 1e9);
            while (System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(COMMIT_EVERY_MS));
                try {
                    consumer.commitSync(where);
                } catch (KafkaException error) {
                    failures.add(error.getClass().getSimpleName());
                }
            }
            opened = metric(consumer, "connection-creation-total") - opened;
            boolean again = metric(consumer, "successful-reauthentication-total") > 1;
            return new Outcome(SERVED, String.join(", ", failures), Map.of(
                "rebalances", assigned.size() - assignments,
                "connections", opened <= LATE ? "kept" : "replaced",
                "logged_in_again", again));
        }
    }

    private static double metric(KafkaConsumer<String, String> consumer, String name) {
        return consumer.metrics().values().stream()
            .filter(metric -> metric.metricName().name().equals(name)
                && metric.metricName().group().endsWith("consumer-metrics"))
            .mapToDouble(metric -> (Double) metric.metricValue())
            .sum();
    }
}
