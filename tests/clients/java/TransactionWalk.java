import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions, step by step, each with its outcome asserted. The steps are those of confluent_transactions.py. */
final class TransactionWalk {
    private final JsonNode config;
    private final TopicPartition partition;
    private final TopicPartition source;
    private KafkaProducer<String, String> producer;

    TransactionWalk(JsonNode config) {
        this.config = config;
        partition = new TopicPartition(config.get("topic").asText(), 0);
        source = new TopicPartition(config.get("source").asText(), 0);
        producer = newProducer("", 30_000);
    }

    void run() throws Exception {
        Reporting.step("commit", this::commit);
        Reporting.step("abort", this::abort);
        Reporting.step("offsets", this::offsets);
        Reporting.step("fencing", this::fencing);
        Reporting.step("timeout", this::timeout);
    }

    private void commit() throws Exception {
        long before = end("read_committed");
        write("committed");
        Reporting.requireEqual(end("read_committed"), before, "the last stable offset");
        Reporting.require(end("read_uncommitted") > before, "the log's end");
        producer.commitTransaction();
        Reporting.requireEqual(read("read_committed", 1), List.of("committed"), "records");
    }

    private void abort() throws Exception {
        write("aborted");
        producer.abortTransaction();
        write("after");
        producer.commitTransaction();
        Reporting.requireEqual(read("read_committed", 2), List.of("committed", "after"), "what is committed");
        Reporting.requireEqual(read("read_uncommitted", 3), List.of("committed", "aborted", "after"), "all");
    }

    private void offsets() throws Exception {
        try (KafkaConsumer<String, String> consumer = newConsumer("read_committed")) {
            consumer.subscribe(List.of(source.topic()));
            Reporting.eventually("records of the source", () -> !consumer.poll(Duration.ofMillis(200)).isEmpty());
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(3)), consumer.groupMetadata());
            producer.commitTransaction();
            Reporting.requireEqual(committed(consumer), 3L, "committed offset");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(5)), consumer.groupMetadata());
            producer.abortTransaction();
            Reporting.requireEqual(committed(consumer), 3L, "committed offset after an abort");
        }
    }

    private void fencing() throws Exception {
        write("of the first life");
        KafkaProducer<String, String> second = newProducer("", 30_000);
        KafkaException error = failure();
        Reporting.require(error instanceof ProducerFencedException, error);
        producer = second;
        write("of the second life");
        producer.commitTransaction();
        List<String> values = read("read_committed", 3);
        Reporting.requireEqual(values.get(values.size() - 1), "of the second life", "the last record");
    }

    private void timeout() throws Exception {
        producer = newProducer("-late", 4_000);
        write("late");
        Reporting.eventually("the coordinator aborts what no producer ends",
            () -> end("read_committed") == end("read_uncommitted"));
        failure();
        List<String> values = read("read_committed", 3);
        Reporting.requireEqual(values.get(values.size() - 1), "of the second life", "the last record");
    }

    private KafkaProducer<String, String> newProducer(String suffix, int timeoutMs) {
        Properties properties = ClientWorker.properties(config,
            "transactional.id", config.get("transactional_id").asText() + suffix,
            "transaction.timeout.ms", String.valueOf(timeoutMs),
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> made = new KafkaProducer<>(properties);
        made.initTransactions();
        return made;
    }

    private KafkaConsumer<String, String> newConsumer(String isolation) {
        Properties properties = ClientWorker.consumerProperties(config);
        properties.put("isolation.level", isolation);
        return new KafkaConsumer<>(properties);
    }

    /** A record in a new transaction, delivered, and the transaction left open. */
    private void write(String value) throws Exception {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(partition.topic(), value)).get();
    }

    private KafkaException failure() {
        try {
            producer.commitTransaction();
        } catch (KafkaException error) {
            return error;
        }
        throw new AssertionError("committed, though another life has begun or the time was over");
    }

    private long committed(KafkaConsumer<String, String> consumer) {
        return consumer.committed(Set.of(source)).get(source).offset();
    }

    /** The first `count` records that can be seen. */
    private List<String> read(String isolation, int count) throws Exception {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = newConsumer(isolation)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            Reporting.eventually(count + " records, " + isolation, () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
                return values.size() >= count;
            });
        }
        return values;
    }

    private long end(String isolation) {
        try (KafkaConsumer<String, String> consumer = newConsumer(isolation)) {
            return consumer.endOffsets(List.of(partition)).get(partition);
        }
    }
}
