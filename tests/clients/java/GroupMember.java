import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Reads its share of the topics, reports every record before it commits it, until asked to stop. */
final class GroupMember implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final KafkaConsumer<String, String> consumer;
    private final TreeSet<String> owned = new TreeSet<>();
    private boolean uncommitted;

    GroupMember(JsonNode config) {
        Properties properties = ClientWorker.consumerProperties(config);
        properties.put("client.id", config.path("client_id").asText("java"));
        if (config.has("assignor")) {
            properties.put("partition.assignment.strategy", ASSIGNORS.get(config.get("assignor").asText()));
        }
        if (config.has("instance_id")) {
            properties.put("group.instance.id", config.get("instance_id").asText());
        }
        List<String> topics = new ArrayList<>();
        config.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer = new KafkaConsumer<>(properties);
        consumer.subscribe(topics, this);
    }

    void run() {
        AtomicBoolean stop = Reporting.stopRequested();
        while (!stop.get()) {
            List<String> values = new ArrayList<>();
            consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            if (!values.isEmpty()) {
                Reporting.report("records", Map.of("values", values));
                uncommitted = true;
            }
            commit();
        }
        consumer.close();
        Reporting.report("closed");
    }

    private void commit() {
        if (!uncommitted) {
            return;
        }
        try {
            consumer.commitSync();
            uncommitted = false;
        } catch (KafkaException error) {
            Reporting.report("commit_refused", Map.of("error", error.getClass().getSimpleName()));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.add(partition.toString()));
        Reporting.report("owns", Map.of("partitions", owned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.remove(partition.toString()));
        Reporting.report("owns", Map.of("partitions", owned));
    }
}
