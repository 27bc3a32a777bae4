import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What an old Java client does with a broker, step by step; each prints one line, "name TAB outcome". It is compiled
 * against the oldest of them, so it calls nothing that came later.
 */
public final class OldWalk {
    private static final int RECORDS = 20;
    private static final long DEADLINE_MS = 60_000;

    private final String bootstrap;
    private final String topic;
    private final String group;
    private final List<TopicPartition> both;

    private OldWalk(String bootstrap, String topic, String group) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.group = group;
        both = Arrays.asList(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
    }

    public static void main(String[] arguments) throws Exception {
        new OldWalk(arguments[0], arguments[1], arguments[2]).run();
    }

    private void run() throws Exception {
        step("create topics", this::createTopics);
        for (String codec : List.of("none", "gzip", "snappy", "lz4")) {
            step("produce " + codec, () -> produce(codec));
        }
        step("produce too much", this::produceTooMuch);
        step("produce in transactions", this::produceInTransactions);
        try (KafkaConsumer<String, String> consumer = consumer(group, "10000")) {
            step("positions", () -> new TreeMap<>(names(consumer.beginningOffsets(both))) + " "
                + names(consumer.endOffsets(both)));
            step("offset for a time", () -> consumer.offsetsForTimes(Map.of(both.get(0), 0L)).get(both.get(0)).offset());
            step("subscribe and poll", () -> {
                consumer.subscribe(Collections.singletonList(topic));
                return read(consumer, 4 * RECORDS + RECORDS);
            });
            step("commit", () -> {
                consumer.commitSync(Map.of(both.get(0), new OffsetAndMetadata(7, "noted")));
                OffsetAndMetadata found = consumer.committed(both.get(0));
                return found.offset() + " " + found.metadata() + " " + consumer.committed(both.get(1));
            });
            step("commit too long a note", () -> {
                consumer.commitSync(Map.of(both.get(0), new OffsetAndMetadata(8, "n".repeat(5000))));
                return "taken";
            });
            step("seek", () -> {
                consumer.seek(both.get(1), 5);
                return first(consumer, both.get(1));
            });
            step("share with a second member", () -> share(consumer));
        }
        step("session out of range", () -> {
            try (KafkaConsumer<String, String> consumer = consumer(group + "-short", "100")) {
                consumer.subscribe(Collections.singletonList(topic));
                return read(consumer, 1);
            }
        });
        step("no such topic", () -> {
            try (KafkaConsumer<String, String> consumer = consumer(group + "-none", "10000")) {
                return consumer.partitionsFor(topic + "-none");
            }
        });
    }

    private static void step(String name, Callable<Object> action) {
        String outcome;
        try {
            outcome = String.valueOf(action.call());
        } catch (ExecutionException error) {
            outcome = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            outcome = error.getClass().getSimpleName();
        }
        System.out.println(name + "\t" + outcome);
    }

    private Object createTopics() throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (AdminClient admin = AdminClient.create(properties)) {
            admin.createTopics(Collections.singletonList(new NewTopic(topic, 2, (short) 1))).all().get();
            boolean isListed = waitFor(() -> admin.listTopics().names().get().contains(topic));
            int partitions = admin.describeTopics(Collections.singletonList(topic)).all().get().get(topic).partitions().size();
            return isListed + " " + partitions + " " + admin.describeCluster().nodes().get().size();
        }
    }

    private Object produce(String codec) throws Exception {
        Properties properties = producerProperties();
        properties.put("compression.type", codec);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            long last = -1;
            for (int number = 0; number < RECORDS; number++) {
                last = producer.send(new ProducerRecord<>(topic, number % 2, "key", "value " + number)).get().offset();
            }
            return last;
        }
    }

    private Object produceTooMuch() throws Exception {
        Properties properties = producerProperties();
        properties.put("max.request.size", 10_000_000);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            return producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get().offset();
        }
    }

    private Object produceInTransactions() throws Exception {
        Properties properties = producerProperties();
        properties.put("transactional.id", group);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            for (int number = 0; number < RECORDS; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, number % 2, "key", "value " + number));
                producer.sendOffsetsToTransaction(Map.of(both.get(0), new OffsetAndMetadata(number)), group + "-tx");
                producer.commitTransaction();
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "key", "aborted")).get();
            producer.abortTransaction();
        }
        try (KafkaConsumer<String, String> consumer = consumer(group + "-tx", "10000")) {
            return consumer.committed(both.get(0)).offset();
        }
    }

    private Properties producerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("acks", "all");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return properties;
    }

    private KafkaConsumer<String, String> consumer(String groupId, String sessionTimeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", groupId);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", "read_committed");
        properties.put("session.timeout.ms", sessionTimeoutMs);
        properties.put("heartbeat.interval.ms", "50");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return new KafkaConsumer<>(properties);
    }

    /** The values read from each partition, how many; aborted ones would be among them. */
    private Object read(KafkaConsumer<String, String> consumer, int count) throws Exception {
        Map<Integer, List<String>> values = new TreeMap<>();
        waitFor(() -> {
            for (ConsumerRecord<String, String> record : poll(consumer)) {
                values.computeIfAbsent(record.partition(), unused -> new ArrayList<>()).add(record.value());
            }
            return values.values().stream().mapToInt(List::size).sum() >= count;
        });
        Map<Integer, String> summary = new TreeMap<>();
        values.forEach((partition, all) -> summary.put(partition, all.size() + " " + new TreeSet<>(all)));
        return summary;
    }

    private Object first(KafkaConsumer<String, String> consumer, TopicPartition partition) throws Exception {
        List<Long> offsets = new ArrayList<>();
        waitFor(() -> {
            for (ConsumerRecord<String, String> record : poll(consumer).records(partition)) {
                offsets.add(record.offset());
            }
            return !offsets.isEmpty();
        });
        return offsets.get(0);
    }

    private Object share(KafkaConsumer<String, String> consumer) throws Exception {
        boolean[] mayLeave = {false};
        boolean[] hasShare = {false};
        Thread thread = new Thread(() -> {
            try (KafkaConsumer<String, String> second = consumer(group, "10000")) {
                second.subscribe(Collections.singletonList(topic));
                while (!mayLeave[0]) {
                    poll(second);
                    hasShare[0] = second.assignment().size() == 1;
                }
            }
        });
        thread.start();
        boolean isShared = waitFor(() -> {
            poll(consumer);
            return hasShare[0] && consumer.assignment().size() == 1;
        });
        mayLeave[0] = true;
        boolean isBack = waitFor(() -> {
            poll(consumer);
            return consumer.assignment().size() == 2;
        });
        thread.join();
        return isShared + " " + isBack;
    }

    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        return consumer.poll(100);
    }

    private static Map<String, Long> names(Map<TopicPartition, Long> offsets) {
        Map<String, Long> named = new TreeMap<>();
        offsets.forEach((where, offset) -> named.put(String.valueOf(where.partition()), offset));
        return named;
    }

    private static boolean waitFor(Callable<Boolean> condition) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (System.currentTimeMillis() < deadline) {
            if (condition.call()) {
                return true;
            }
        }
        return false;
    }
}
