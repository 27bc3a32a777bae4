package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer.TimeoutOperation;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * One group of the real GroupMetadataManager, with its topics and its clock: each line is a step as JSON, with what was
 * written. Steps: a topic is made or grows, expressions are resolved, the clock moves (timers that are due fire).
 */
abstract class PlayedGroup {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String GROUP = "g";
    static final short VERSION = 1;

    final Random random;
    final int maxPartitions;
    final Oracle.Img image = new Oracle.Img();
    final Oracle oracle;
    final Map<String, Long> deadlines = new HashMap<>();
    final Map<String, TimeoutOperation<CoordinatorRecord>> armed = new HashMap<>();
    final boolean withRegex;
    final boolean withClassic;

    /** The last are settings beside, or in place of, those of a history: names and values in turn. */
    PlayedGroup(long seed, int maxPartitions, String... settings) throws Exception {
        this.random = new Random(seed);
        this.maxPartitions = maxPartitions;
        Oracle.now = 1_000_000L;
        String interval = random.nextInt(3) == 0 ? "1000" : "0";
        withRegex = random.nextInt(2) == 0;
        withClassic = random.nextInt(2) == 0;
        String maxSize = random.nextInt(6) == 0 ? "3" : "1000";
        List<String> all = new ArrayList<>(List.of("group.consumer.assignment.interval.ms", interval,
            "group.consumer.max.size", maxSize, "group.consumer.migration.policy", "upgrade"));
        all.addAll(List.of(settings));
        oracle = new Oracle(image, all.toArray(new String[0]));
        ObjectNode line = JSON.createObjectNode();
        line.put("history", seed).put("interval", Integer.parseInt(interval)).put("maxSize", Integer.parseInt(maxSize));
        for (int i = 0; i < settings.length; i += 2) line.put(settings[i], settings[i + 1]);
        System.out.println(line);
    }

    abstract void play();

    /** Makes the history of a seed. */
    interface Maker {
        PlayedGroup make(long seed, int maxPartitions) throws Exception;
    }

    /** Arguments: the first seed, how many, the most partitions of a topic. */
    static void playAll(String[] arguments, Maker maker) throws Exception {
        long first = Long.parseLong(arguments[0]);
        for (long seed = first; seed < first + Long.parseLong(arguments[1]); seed++)
            maker.make(seed, Integer.parseInt(arguments[2])).play();
    }

    // Topics.

    void addTopics() {
        int topics = 1 + random.nextInt(3);
        for (int i = 0; i < topics; i++) addTopic();
    }

    void addTopic() {
        String name = "topic" + random.nextInt(8);
        if (image.m.containsKey(name)) return;
        Uuid id = new Uuid(random.nextLong(), random.nextLong());
        changed(new Oracle.TM(name, id, 1 + random.nextInt(maxPartitions)), true);
    }

    void growTopic() {
        List<Oracle.TM> known = new ArrayList<>(image.m.values());
        Oracle.TM topic = known.get(random.nextInt(known.size()));
        changed(new Oracle.TM(topic.n, topic.id, topic.p + 1 + random.nextInt(3)), false);
    }

    void changed(Oracle.TM topic, boolean created) {
        image.m.put(topic.n, topic);
        image.v++;
        oracle.g.onMetadataUpdate(new CoordinatorMetadataDelta() {
            public Collection<Uuid> createdTopicIds() { return created ? List.of(topic.id) : List.of(); }
            public Collection<Uuid> changedTopicIds() { return List.of(topic.id); }
            public Set<Uuid> deletedTopicIds() { return Set.of(); }
            public CoordinatorMetadataImage image() { return image; }
        }, image);
        ObjectNode line = JSON.createObjectNode();
        line.put("topic", topic.n).put("id", topic.id.toString()).put("partitions", topic.p);
        line.put("version", image.v).put("isNew", created);
        System.out.println(line);
    }

    /** The run that resolves the group's regular expressions comes to its end. */
    void resolve() {
        Runnable task = oracle.tasks.remove(0);
        quietly(task);
        ObjectNode line = JSON.createObjectNode();
        line.put("resolved", image.v);
        line.set("records", told(oracle.async));
        show(line);
    }

    // The clock.

    void advance() {
        long until = Oracle.now + (random.nextInt(4) == 0 ? random.nextInt(50_000) : random.nextInt(3_000));
        while (true) {
            Optional<Map.Entry<String, Long>> due = deadlines.entrySet().stream()
                .filter(each -> each.getValue() <= until)
                .min(Map.Entry.<String, Long>comparingByValue().thenComparing(Map.Entry.comparingByKey()));
            if (due.isEmpty()) break;
            fire(due.get().getKey(), due.get().getValue());
        }
        moveTo(until);
    }

    void moveTo(long ms) {
        if (ms == Oracle.now) return;
        Oracle.now = ms;
        System.out.println(JSON.createObjectNode().put("now", ms));
    }

    void fire(String key, long ms) {
        TimeoutOperation<CoordinatorRecord> operation = due(key, ms);
        ObjectNode line = JSON.createObjectNode();
        line.put("timer", key);
        try {
            line.set("records", records(operation.generateRecords()));
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code()).put("message", error.getMessage());
        }
        show(line);
    }

    /** The clock comes to where this timer is due: it is armed no more. */
    TimeoutOperation<CoordinatorRecord> due(String key, long ms) {
        moveTo(ms);
        TimeoutOperation<CoordinatorRecord> operation = oracle.ops.get(key);
        oracle.timers.remove(key);
        deadlines.remove(key);
        armed.remove(key);
        return operation;
    }

    void noteTimers() {
        oracle.timers.keySet().forEach(key -> {
            if (armed.get(key) != oracle.ops.get(key)) {
                armed.put(key, oracle.ops.get(key));
                deadlines.put(key, Oracle.now + oracle.timers.get(key));
            }
        });
        deadlines.keySet().retainAll(oracle.timers.keySet());
        armed.keySet().retainAll(oracle.timers.keySet());
    }

    boolean hasMembers() {
        try {
            return oracle.g.consumerGroup(GROUP, Long.MAX_VALUE).numMembers() > 0;
        } catch (Throwable none) {
            return false;
        }
    }

    // What is shown.

    /** Show the line of a step that may have armed timers. */
    void show(ObjectNode line) {
        noteTimers();
        System.out.println(line);
    }

    /** The records of a result, replayed where it says so. */
    ArrayNode records(CoordinatorResult<?, CoordinatorRecord> result) {
        return result.replayRecords() ? written(result.records()) : told(result.records());
    }

    /** The records of a result that are written, so that it is complete. */
    ArrayNode done(CoordinatorResult<?, CoordinatorRecord> result) {
        ArrayNode lines = records(result);
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return lines;
    }

    ArrayNode written(List<CoordinatorRecord> records) {
        quietly(() -> oracle.apply("", records, true));
        return told(records);
    }

    ArrayNode told(List<CoordinatorRecord> records) {
        ArrayNode lines = JSON.createArrayNode();
        for (CoordinatorRecord record : records) {
            ObjectNode line = lines.addObject();
            line.put("type", record.key().apiKey());
            line.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
            if (record.value() == null) line.putNull("value");
            else line.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                record.value().message(), record.value().version()));
        }
        return lines;
    }

    /** Do what prints for people, without that. */
    void quietly(Runnable action) {
        var out = System.out;
        System.setOut(new java.io.PrintStream(java.io.OutputStream.nullOutputStream()));
        action.run();
        System.setOut(out);
    }
}
