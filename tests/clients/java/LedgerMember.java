import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** A member that keeps books; what it reports, and what it reads on stdin, is that of workers/confluent_ledger.py. */
final class LedgerMember implements ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    private final TreeSet<String> owned = new TreeSet<>();
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

    private LedgerMember(JsonNode config) {
        consumer = GroupMember.subscribed(config, this);
    }

    /** One member after another, until stdin ends. */
    static void run(JsonNode config) throws Exception {
        BlockingQueue<Optional<String>> inbox = new LinkedBlockingQueue<>();
        Thread listener = new Thread(() -> listen(inbox));
        listener.setDaemon(true);
        listener.start();
        for (Optional<String> change = Optional.of("{}"); change.isPresent(); change = inbox.take()) {
            ObjectNode changed = config.deepCopy();
            changed.setAll((ObjectNode) new ObjectMapper().readTree(change.get()));
            new LedgerMember(changed).poll(inbox);
        }
    }

    private static void listen(BlockingQueue<Optional<String>> inbox) {
        try {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                inbox.add(Optional.of(line));
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        inbox.add(Optional.empty());
    }

    private void poll(BlockingQueue<Optional<String>> inbox) {
        while (inbox.isEmpty()) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) {
                take(records);
            }
            commit();
        }
        consumer.close();
        Reporting.report("owns", Map.of("member", 0, "partitions", List.of()));
        Reporting.report("closed");
    }

    private void take(ConsumerRecords<String, String> records) {
        long now = System.nanoTime();
        List<List<Object>> ranges = new ArrayList<>();
        for (TopicPartition partition : records.partitions()) {
            long first = -1;
            long last = -1;
            for (ConsumerRecord<String, String> record : records.records(partition)) {
                if (first >= 0 && record.offset() != last + 1) {
                    ranges.add(List.of(partition.toString(), first, last));
                    first = -1;
                }
                first = first < 0 ? record.offset() : first;
                last = record.offset();
            }
            ranges.add(List.of(partition.toString(), first, last));
            positions.put(partition, new OffsetAndMetadata(last + 1));
        }
        Reporting.report("read", Map.of("at_ns", now, "ranges", ranges));
    }

    private void commit() {
        if (positions.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(positions);
        } catch (KafkaException error) {
            Reporting.report("commit_refused", Map.of("error", error.getClass().getSimpleName()));
            return;
        }
        Map<String, Long> done = new HashMap<>();
        positions.forEach((partition, position) -> done.put(partition.toString(), position.offset()));
        Reporting.report("committed", Map.of("at_ns", System.nanoTime(), "offsets", done));
        positions.clear();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.add(partition.toString()));
        reportOwned();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        positions.keySet().removeAll(partitions);
        partitions.forEach(partition -> owned.remove(partition.toString()));
        reportOwned();
    }

    private void reportOwned() {
        Reporting.report("owns", Map.of("member", 0, "partitions", owned));
    }
}
