import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** Every call of the Java consumer, each with its outcome asserted. The given topics: see confluent_walk.py. */
final class ConsumerWalk {
    private final JsonNode config;
    private final String topic;
    private final String otherTopic;
    private final long records;
    private final TopicPartition first;
    private final TopicPartition second;
    private final KafkaConsumer<String, String> consumer;

    ConsumerWalk(JsonNode config) {
        this.config = config;
        topic = config.get("topic").asText();
        otherTopic = config.get("other_topic").asText();
        records = config.get("records").asLong();
        first = new TopicPartition(topic, 0);
        second = new TopicPartition(topic, 1);
        consumer = newConsumer();
    }

    void run() throws Exception {
        metadata();
        subscribeAndPoll();
        commit();
        pauseAndResume();
        seek();
        rebalance();
        subscribeByPattern();
        assign();
        wakeupInTheMiddleOfAPoll();
        Reporting.report("walked");
    }

    private KafkaConsumer<String, String> newConsumer() {
        Properties properties = ClientWorker.consumerProperties(config);
        properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        return new KafkaConsumer<>(properties);
    }

    /** Polls until `enough` holds of the offsets seen so far, by partition; returns them. */
    private Map<Integer, List<Long>> take(Predicate<Map<Integer, List<Long>>> enough) throws Exception {
        Map<Integer, List<Long>> seen = new HashMap<>(Map.of(0, new ArrayList<>(), 1, new ArrayList<>()));
        Reporting.eventually("records of " + topic, () -> {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                seen.get(record.partition()).add(record.offset());
            }
            return enough.test(seen);
        });
        return seen;
    }

    private void metadata() throws Exception {
        Reporting.step("list_topics", () -> {
            Set<String> topics = consumer.listTopics().keySet();
            Reporting.require(topics.containsAll(List.of(topic, otherTopic)), topics);
        });
        Reporting.step("partitions_for_topic", () -> {
            Set<Integer> found = consumer.partitionsFor(topic).stream().map(p -> p.partition()).collect(Collectors.toSet());
            Reporting.requireEqual(found, Set.of(0, 1), "partitions");
            List<TopicPartition> both = List.of(first, second);
            Reporting.requireEqual(consumer.endOffsets(both), Map.of(first, records, second, records), "ends");
            Reporting.requireEqual(consumer.beginningOffsets(both), Map.of(first, 0L, second, 0L), "beginnings");
        });
    }

    private void subscribeAndPoll() throws Exception {
        Map<Integer, List<Long>> seen = new TreeMap<>();
        Reporting.step("subscribe_by_list", () -> {
            consumer.subscribe(List.of(topic));
            seen.putAll(take(soFar -> soFar.get(0).size() + soFar.get(1).size() >= 2 * records));
            Reporting.requireEqual(consumer.assignment(), Set.of(first, second), "assignment");
        });
        Reporting.step("poll", () -> {
            List<Long> all = upTo(records);
            Reporting.requireEqual(seen, Map.of(0, all, 1, all), "offsets");
        });
        Reporting.step("position", () -> {
            Reporting.requireEqual(consumer.position(first), records, "position");
            Reporting.requireEqual(consumer.position(second), records, "position");
        });
    }

    private void commit() throws Exception {
        Reporting.step("commit_sync", () ->
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(7, "kept with the offset"))));
        Reporting.step("committed", () -> {
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Set.of(first, second));
            Reporting.requireEqual(found.get(first), new OffsetAndMetadata(7, "kept with the offset"), "committed");
            Reporting.requireEqual(found.get(second), null, "offset never committed");
        });
        Reporting.step("commit_async", () -> {
            List<Object> outcomes = new ArrayList<>();
            consumer.commitAsync((offsets, error) -> outcomes.add(error == null ? offsets : error));
            Reporting.eventually("commit callback", () -> {
                consumer.poll(Duration.ofMillis(50));
                return !outcomes.isEmpty();
            });
            Reporting.require(!(outcomes.get(0) instanceof Exception), outcomes.get(0));
            Reporting.requireEqual(committed(first), records, "committed");
            Reporting.requireEqual(committed(second), records, "committed");
        });
    }

    private long committed(TopicPartition partition) {
        return consumer.committed(Set.of(partition)).get(partition).offset();
    }

    private void pauseAndResume() throws Exception {
        Reporting.step("pause", () -> {
            consumer.pause(List.of(first));
            Reporting.requireEqual(consumer.paused(), Set.of(first), "paused");
            consumer.seekToBeginning(List.of(first, second));
            List<Long> seen = take(soFar -> soFar.get(1).size() >= records).get(0);
            Reporting.requireEqual(seen, List.of(), "records of a paused partition");
        });
        Reporting.step("resume", () -> {
            consumer.resume(List.of(first));
            List<Long> seen = take(soFar -> soFar.get(0).size() >= records).get(0);
            Reporting.requireEqual(seen, upTo(records), "records of a resumed partition");
        });
    }

    private void seek() throws Exception {
        Reporting.step("seek_to_offset", () -> {
            consumer.seek(second, 11);
            Reporting.requireEqual(firstOffset(1), 11L, "offset after seek");
        });
        Reporting.step("seek_to_beginning", () -> {
            consumer.seekToBeginning(List.of(first));
            Reporting.requireEqual(consumer.position(first), 0L, "position after seek to the beginning");
            Reporting.requireEqual(firstOffset(0), 0L, "offset after seek");
        });
        Reporting.step("seek_to_end", () -> {
            consumer.seekToEnd(List.of(first));
            Reporting.requireEqual(consumer.position(first), records, "position after seek to the end");
            writeOne();
            Reporting.requireEqual(firstOffset(0), records, "the first record after the end");
        });
        Reporting.step("seek_to_timestamp", () -> {
            long base = config.get("base_ms").asLong();
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(second, base + 20_500)).get(second);
            Reporting.requireEqual(found.offset(), 21L, "offset for a timestamp");
            Reporting.requireEqual(found.timestamp(), base + 21_000, "its timestamp");
            consumer.seek(second, found.offset());
            Reporting.requireEqual(firstOffset(1), 21L, "offset after seek");
        });
    }

    private long firstOffset(int partition) throws Exception {
        return take(seen -> !seen.get(partition).isEmpty()).get(partition).get(0);
    }

    private void writeOne() throws Exception {
        Properties properties = ClientWorker.properties(config,
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>(topic, 0, null, "new")).get();
        }
    }

    private void rebalance() throws Exception {
        List<Map<TopicPartition, Long>> revocations = new ArrayList<>();
        Reporting.step("listener_commits_on_revocation", () -> {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    Map<TopicPartition, Long> positions =
                        partitions.stream().collect(Collectors.toMap(p -> p, consumer::position));
                    consumer.commitSync(positions.entrySet().stream()
                        .collect(Collectors.toMap(Map.Entry::getKey, e -> new OffsetAndMetadata(e.getValue()))));
                    positions.forEach((p, position) ->
                        Reporting.requireEqual(committed(p), position, p + " committed on revocation"));
                    revocations.add(positions);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
            });
            awaitAssignment(2);
            consumer.seek(first, 30);
            consumer.seek(second, 30);
            take(seen -> !seen.get(0).isEmpty() && !seen.get(1).isEmpty());
            revocations.clear();
            shareWithASecondMember();
            Map<TopicPartition, Long> positions = revocations.get(0);
            Reporting.requireEqual(positions.keySet(), Set.of(first, second), "revoked");
            Reporting.require(positions.values().stream().allMatch(position -> position > 30), positions);
            awaitAssignment(2);
        });
        Reporting.step("unsubscribe", () -> {
            consumer.unsubscribe();
            Reporting.requireEqual(consumer.assignment(), Set.of(), "assignment");
        });
    }

    /** A second consumer joins from another thread until both have one partition, and leaves again. */
    private void shareWithASecondMember() throws Exception {
        CountDownLatch hasJoined = new CountDownLatch(1);
        CountDownLatch mayLeave = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            try (KafkaConsumer<String, String> other = newConsumer()) {
                other.subscribe(List.of(topic));
                while (mayLeave.getCount() > 0) {
                    other.poll(Duration.ofMillis(100));
                    if (other.assignment().size() == 1) {
                        hasJoined.countDown();
                    }
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        Reporting.eventually("both members have one partition", () -> {
            consumer.poll(Duration.ofMillis(100));
            return hasJoined.getCount() == 0 && consumer.assignment().size() == 1;
        });
        mayLeave.countDown();
        Reporting.eventually("the second member left", () -> {
            consumer.poll(Duration.ofMillis(100));
            return !thread.isAlive();
        });
    }

    private void awaitAssignment(int count) throws Exception {
        Reporting.eventually(count + " partitions assigned", () -> {
            consumer.poll(Duration.ofMillis(50));
            return consumer.assignment().size() == count;
        });
    }

    private void subscribeByPattern() throws Exception {
        Reporting.step("subscribe_by_pattern", () -> {
            consumer.subscribe(Pattern.compile(topic + ".*"));
            awaitAssignment(3);
            Set<String> topics = new HashSet<>();
            consumer.assignment().forEach(partition -> topics.add(partition.topic()));
            Reporting.requireEqual(topics, Set.of(topic, otherTopic), "topics of the pattern");
            consumer.unsubscribe();
        });
    }

    private void assign() throws Exception {
        Reporting.step("assign", () -> {
            consumer.assign(List.of(second));
            consumer.seek(second, 40);
            List<Long> seen = take(soFar -> soFar.get(1).size() >= 10).get(1);
            Reporting.requireEqual(seen, LongStream.range(40, 50).boxed().toList(), "offsets of an assigned partition");
            consumer.unsubscribe();
        });
    }

    private void wakeupInTheMiddleOfAPoll() throws Exception {
        Reporting.step("close_in_the_middle_of_a_poll", () -> {
            consumer.subscribe(List.of(otherTopic));
            awaitAssignment(1);
            Thread waker = new Thread(() -> {
                try {
                    Thread.sleep(300); // Nothing comes: the poll is parked by then.
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
                consumer.wakeup();
            });
            waker.start();
            try {
                consumer.poll(Duration.ofSeconds(30));
                throw new AssertionError("the poll was not woken");
            } catch (WakeupException expected) {
                consumer.close();
            }
        });
    }

    private static List<Long> upTo(long end) {
        return LongStream.range(0, end).boxed().toList();
    }
}
