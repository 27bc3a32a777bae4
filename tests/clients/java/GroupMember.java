import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads its share of the topics, reports every record before it commits it, until asked to stop.
 *
 * <p>What it reports is that of workers/diary.py, and so are the config's "members", "waits" and "holds".
 */
final class GroupMember implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final KafkaConsumer<String, String> consumer;
    private final TreeSet<String> owned = new TreeSet<>();
    private final int number;
    private final Semaphore go;
    private boolean uncommitted;
    private boolean holds;

    private GroupMember(JsonNode config, int number, Semaphore go) {
        this.number = number;
        this.go = go;
        holds = config.path("holds").asBoolean();
        consumer = subscribed(config, this);
    }

    /** A consumer with the settings and the subscription of `config`. */
    static KafkaConsumer<String, String> subscribed(JsonNode config, ConsumerRebalanceListener listener) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties(config));
        if (config.has("pattern")) {
            consumer.subscribe(new SubscriptionPattern(config.get("pattern").asText()), listener);
        } else {
            List<String> topics = new ArrayList<>();
            config.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, listener);
        }
        return consumer;
    }

    private static Properties properties(JsonNode config) {
        Properties properties = ClientWorker.consumerProperties(config);
        properties.put("client.id", config.path("client_id").asText("java"));
        boolean isNew = config.path("protocol").asText().equals("consumer");
        if (isNew) {
            // The broker says how long a session is and how often a heartbeat comes (KIP-848).
            properties.remove("session.timeout.ms");
            properties.remove("heartbeat.interval.ms");
            properties.put("group.protocol", "consumer");
        }
        if (isNew && config.has("assignor")) {
            properties.put("group.remote.assignor", config.get("assignor").asText());
        } else if (config.has("assignor")) {
            properties.put("partition.assignment.strategy", ASSIGNORS.get(config.get("assignor").asText()));
        }
        if (config.has("instance_id")) {
            properties.put("group.instance.id", config.get("instance_id").asText());
        }
        return properties;
    }

    /** Runs the members, each on a thread of its own, until stdin ends. What one of them throws ends the process. */
    static void host(JsonNode config) throws Exception {
        Semaphore go = new Semaphore(0);
        AtomicBoolean stop = Reporting.stopRequested(go);
        List<GroupMember> members = new ArrayList<>();
        for (int number = 0; number < config.path("members").asInt(1); number++) {
            members.add(new GroupMember(config, number, go));
        }
        if (config.path("waits").asBoolean()) {
            Reporting.report("waiting");
            go.acquire();
        }
        ExecutorService threads = Executors.newFixedThreadPool(members.size());
        CompletionService<Void> running = new ExecutorCompletionService<>(threads);
        members.forEach(member -> running.submit(() -> member.run(stop), null));
        try {
            for (int ended = 0; ended < members.size(); ended++) {
                running.take().get();
            }
        } finally {
            stop.set(true);
            threads.shutdown();
        }
    }

    private void run(AtomicBoolean stop) {
        while (!stop.get()) {
            List<String> values = new ArrayList<>();
            consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            if (!values.isEmpty()) {
                uncommitted = true;
                report("records", Map.of("values", values));
                holdIfAsked();
            }
            commit();
        }
        consumer.close();
        report("closed", Map.of());
    }

    private void report(String event, Map<String, ?> fields) {
        Map<String, Object> all = new HashMap<>(fields);
        all.put("member", number);
        Reporting.report(event, all);
    }

    /** Stands still, once, between reading records and committing them, until a line comes on stdin. */
    private void holdIfAsked() {
        if (holds) {
            holds = false;
            report("holding", Map.of());
            go.acquireUninterruptibly();
        }
    }

    private void commit() {
        if (!uncommitted) {
            return;
        }
        try {
            consumer.commitSync();
            uncommitted = false;
        } catch (KafkaException error) {
            report("commit_refused", Map.of("error", error.getClass().getSimpleName(), "said", String.valueOf(error.getMessage())));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.add(partition.toString()));
        report("owns", Map.of("partitions", owned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.remove(partition.toString()));
        report("owns", Map.of("partitions", owned));
    }
}
