import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams counts words with exactly_once_v2: every update of a count goes to the target topic.
 *
 * <p>Arguments: bootstrap, application id, source, target, state directory, and how long a session lasts in ms if
 * not 1500; a transaction may take twice as long. Ends in good order on SIGTERM.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws Exception {
        int sessionMs = arguments.length > 5 ? Integer.parseInt(arguments[5]) : 1500;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "1");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("statestore.cache.max.bytes", "0");  // Every update is written, none is merged with the next.
        settings.put("dsl.store.suppliers.class", "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        settings.put("commit.interval.ms", "500");
        settings.put("consumer.session.timeout.ms", sessionMs);
        settings.put("consumer.heartbeat.interval.ms", "300");
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("producer.transaction.timeout.ms", 2 * sessionMs);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(String::valueOf)
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("{\"event\": \"" + now + "\"}"));
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }
}
