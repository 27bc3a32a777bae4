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
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseDataJsonConverter;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupRequestDataJsonConverter;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.JoinGroupResponseDataJsonConverter;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupRequestDataJsonConverter;
import org.apache.kafka.common.message.LeaveGroupResponseDataJsonConverter;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupRequestDataJsonConverter;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.message.SyncGroupResponseDataJsonConverter;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer.TimeoutOperation;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * Random histories of one consumer group, played by the real GroupMetadataManager: each line is a step as JSON, with what was
 * answered and written. Arguments: the first seed, how many, the most partitions of a topic.
 *
 * Steps: a topic is made or grows, the clock moves (timers that are due fire), a heartbeat.
 */
public class Histories {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String GROUP = "g";
    static final short VERSION = 1;

    final Random random;
    final int maxPartitions;
    final Oracle.Img image = new Oracle.Img();
    final Oracle oracle;
    final Map<String, Long> deadlines = new HashMap<>();
    final Map<String, TimeoutOperation<CoordinatorRecord>> armed = new HashMap<>();
    final List<Client> clients = new ArrayList<>();
    final boolean withRegex;
    final boolean withClassic;

    /** A member as its client sees it: what it was told, and how it behaves. */
    static final class Client {
        String memberId;
        String instanceId;
        int epoch = 0;
        List<String> names = new ArrayList<>();
        String regex = null;
        Map<Uuid, List<Integer>> owned = new TreeMap<>();
        boolean left = false;
        boolean classic = false;
        boolean cooperative = false;
        boolean synced = false;
        boolean told = false;  // To join again.
    }

    /** The last are settings beside, or in place of, those of a history: names and values in turn. */
    Histories(long seed, int maxPartitions, String... settings) throws Exception {
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

    void play() {
        int topics = 1 + random.nextInt(3);
        for (int i = 0; i < topics; i++) addTopic();
        int steps = 20 + random.nextInt(40);
        for (int i = 0; i < steps; i++) {
            int choice = random.nextInt(100);
            if (choice < 3) addTopic();
            else if (choice < 6) growTopic();
            else if (choice < 20) advance();
            else if (choice < 26 && !oracle.tasks.isEmpty()) resolve();
            else if (choice < 36 || clients.isEmpty()) join();
            else if (choice < 44 && withClassic && hasMembers()) joinClassic(new Client());
            else heartbeat(clients.get(random.nextInt(clients.size())));
        }
    }

    // Topics.

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
        noteTimers();
        System.out.println(line);
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
        moveTo(ms);
        TimeoutOperation<CoordinatorRecord> operation = oracle.ops.get(key);
        oracle.timers.remove(key);
        deadlines.remove(key);
        armed.remove(key);
        ObjectNode line = JSON.createObjectNode();
        line.put("timer", key);
        try {
            var result = operation.generateRecords();
            line.set("records", result.replayRecords() ? written(result.records()) : told(result.records()));
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code()).put("message", error.getMessage());
        }
        noteTimers();
        System.out.println(line);
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

    // Heartbeats.

    List<String> someNames() {
        List<String> names = new ArrayList<>();
        for (int i = random.nextInt(4); i >= 0; i--) {
            String name = "topic" + random.nextInt(8);
            if (!names.contains(name)) names.add(name);
        }
        return random.nextInt(20) == 0 ? new ArrayList<>() : names;
    }

    private String someRegex() {
        String[] all = {"topic.*", "topic[0-3]", "topic(1|5)", "topic7", "x", "topic[45]", ".*"};
        return random.nextInt(12) == 0 ? "" : random.nextInt(25) == 0 ? "topic[" : all[random.nextInt(all.length)];
    }

    ConsumerGroupHeartbeatRequestData request(Client client, int epoch) {
        return new ConsumerGroupHeartbeatRequestData()
            .setGroupId(GROUP).setMemberId(client.memberId).setMemberEpoch(epoch).setInstanceId(client.instanceId);
    }

    void join() {
        Client client = new Client();
        client.memberId = new Uuid(random.nextLong(), random.nextLong()).toString();
        if (random.nextInt(4) == 0) client.instanceId = "i" + random.nextInt(3);
        client.names = clients.isEmpty() || random.nextInt(2) == 0 ? someNames() : clients.get(0).names;
        if (client.names == null) client.names = someNames();
        if (withRegex && random.nextInt(2) == 0) {
            client.regex = random.nextInt(3) == 0 ? someRegex() : "topic[0-3]";
            if (random.nextInt(3) > 0) client.names = null;
        }
        if (clients.size() < 8) clients.add(client);
        rejoin(client);
    }

    void rejoin(Client client) {
        client.owned.clear();
        ConsumerGroupHeartbeatRequestData request = request(client, 0)
            .setRebalanceTimeoutMs(5_000 + random.nextInt(3) * 1_000)
            .setSubscribedTopicNames(client.names == null ? null : new ArrayList<>(client.names))
            .setSubscribedTopicRegex(client.regex)
            .setTopicPartitions(List.of());
        if (random.nextInt(4) == 0) request.setServerAssignor(random.nextInt(2) == 0 ? "uniform" : "range");
        if (random.nextInt(6) == 0) request.setRackId("r" + random.nextInt(2));
        send(client, request);
    }

    // Classic members.

    boolean hasMembers() {
        try {
            return oracle.g.consumerGroup(GROUP, Long.MAX_VALUE).numMembers() > 0;
        } catch (Throwable none) {
            return false;
        }
    }

    void joinClassic(Client client) {
        if (!client.classic) {
            client.classic = true;
            client.memberId = "";
            client.cooperative = random.nextInt(2) == 0;
            if (random.nextInt(4) == 0) client.instanceId = "i" + random.nextInt(3);
            client.names = clients.get(0).names == null || random.nextInt(2) == 0 ? someNames() : clients.get(0).names;
            if (clients.size() < 8) clients.add(client);
        }
        JoinGroupRequestData request = joinRequest(client);
        ObjectNode line = JSON.createObjectNode();
        line.set("join", JoinGroupRequestDataJsonConverter.write(request, (short) 9));
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        try {
            var result = oracle.g.classicGroupJoin(Oracle.ctx(5), request, future);
            line.set("records", result.replayRecords() ? written(result.records()) : told(result.records()));
            if (result.appendFuture() != null) result.appendFuture().complete(null);
            JoinGroupResponseData response = future.get();
            line.set("response", JoinGroupResponseDataJsonConverter.write(response, (short) 9));
            if (response.errorCode() == Errors.MEMBER_ID_REQUIRED.code()) client.memberId = response.memberId();
            else if (response.errorCode() == 0) {
                client.memberId = response.memberId();
                client.epoch = response.generationId();
                client.synced = false;
                client.told = false;
            }
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
            if (Errors.forException(error) == Errors.UNKNOWN_MEMBER_ID) client.memberId = "";
        }
        noteTimers();
        System.out.println(line);
    }

    JoinGroupRequestData joinRequest(Client client) {
        List<TopicPartition> owned = new ArrayList<>();
        if (client.cooperative) image.m.values().forEach(topic ->
            client.owned.getOrDefault(topic.id, List.of()).forEach(each -> owned.add(new TopicPartition(topic.n, each))));
        short version = (short) random.nextInt(4);
        byte[] bytes = Utils.toArray(ConsumerProtocol.serializeSubscription(new ConsumerPartitionAssignor.Subscription(
            client.names, null, owned, client.epoch, random.nextInt(3) == 0 ? Optional.of("r1") : Optional.empty()), version));
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        if (client.cooperative) protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("cooperative-sticky").setMetadata(bytes));
        if (random.nextInt(20) > 0) protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(bytes));
        if (protocols.isEmpty()) protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("own").setMetadata(bytes));
        return new JoinGroupRequestData().setGroupId(GROUP).setMemberId(client.memberId)
            .setGroupInstanceId(client.instanceId).setSessionTimeoutMs(20_000 + random.nextInt(3) * 10_000)
            .setRebalanceTimeoutMs(8_000 + random.nextInt(3) * 1_000)
            .setProtocolType(random.nextInt(30) == 0 ? "connect" : "consumer").setProtocols(protocols);
    }

    void sync(Client client) {
        SyncGroupRequestData request = new SyncGroupRequestData().setGroupId(GROUP).setMemberId(client.memberId)
            .setGroupInstanceId(client.instanceId).setGenerationId(client.epoch + (random.nextInt(12) == 0 ? 1 : 0));
        if (random.nextInt(2) == 0) request.setProtocolType(random.nextInt(10) == 0 ? "connect" : "consumer")
            .setProtocolName(client.cooperative ? "cooperative-sticky" : "range");
        ObjectNode line = JSON.createObjectNode();
        line.set("sync", SyncGroupRequestDataJsonConverter.write(request, (short) 5));
        CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
        try {
            var result = oracle.g.classicGroupSync(Oracle.ctx(5), request, future);
            if (result.appendFuture() != null) result.appendFuture().complete(null);
            SyncGroupResponseData response = future.get();
            line.set("response", SyncGroupResponseDataJsonConverter.write(response, (short) 5));
            if (response.errorCode() == 0) {
                client.synced = true;
                client.owned.clear();
                ConsumerProtocol.deserializeAssignment(java.nio.ByteBuffer.wrap(response.assignment())).partitions()
                    .forEach(each -> client.owned.computeIfAbsent(image.m.get(each.topic()).id, id -> new ArrayList<>()).add(each.partition()));
            }
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
            if (Errors.forException(error) == Errors.REBALANCE_IN_PROGRESS) client.told = true;
            else client.memberId = random.nextInt(2) == 0 ? "" : client.memberId;
        }
        noteTimers();
        System.out.println(line);
    }

    void beat(Client client) {
        HeartbeatRequestData request = new HeartbeatRequestData().setGroupId(GROUP).setMemberId(client.memberId)
            .setGroupInstanceId(client.instanceId).setGenerationId(client.epoch + (random.nextInt(12) == 0 ? 1 : 0));
        ObjectNode line = JSON.createObjectNode();
        line.set("beat", HeartbeatRequestDataJsonConverter.write(request, (short) 4));
        try {
            int error = oracle.g.classicGroupHeartbeat(Oracle.ctx(4), request).response().errorCode();
            line.put("error", error);
            client.told |= error == Errors.REBALANCE_IN_PROGRESS.code();
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
            if (Errors.forException(error) == Errors.UNKNOWN_MEMBER_ID) client.memberId = "";
        }
        noteTimers();
        System.out.println(line);
    }

    void leave(List<Client> leaving) {
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(GROUP);
        leaving.forEach(client -> request.members().add(new LeaveGroupRequestData.MemberIdentity()
            .setMemberId(client.instanceId != null && random.nextInt(2) == 0 ? "" : client.memberId).setGroupInstanceId(client.instanceId)));
        ObjectNode line = JSON.createObjectNode();
        line.set("leave", LeaveGroupRequestDataJsonConverter.write(request, (short) 5));
        try {
            var result = oracle.g.classicGroupLeave(Oracle.ctx(5), request);
            line.set("records", result.replayRecords() ? written(result.records()) : told(result.records()));
            line.set("response", LeaveGroupResponseDataJsonConverter.write(result.response(), (short) 5));
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
        }
        noteTimers();
        System.out.println(line);
    }

    void classic(Client client) {
        if (!hasMembers()) return;
        int choice = random.nextInt(20);
        if (choice == 0) leave(List.of(client));
        else if (choice == 1) leave(List.of(client, clients.get(random.nextInt(clients.size()))));
        else if (client.memberId.isEmpty() || client.epoch <= 0 || client.told && choice < 14) joinClassic(client);
        else if (!client.synced && choice < 14) sync(client);
        else if (choice < 18) beat(client);
        else {
            client.names = someNames();
            joinClassic(client);
        }
    }

    void heartbeat(Client client) {
        if (client.classic) {
            classic(client);
            return;
        }
        if (client.left || client.epoch <= 0) {
            client.left = false;
            if (client.instanceId != null && random.nextInt(2) == 0)
                client.memberId = new Uuid(random.nextLong(), random.nextLong()).toString();
            rejoin(client);
            return;
        }
        int choice = random.nextInt(20);
        if (choice == 0) {
            int epoch = client.instanceId != null && random.nextInt(3) > 0 ? -2 : -1;
            client.left = true;
            send(client, request(client, epoch));
        } else if (choice == 1) {
            client.names = someNames();
            send(client, owning(client, request(client, client.epoch)).setSubscribedTopicNames(new ArrayList<>(client.names)));
        } else if (choice == 4 && withRegex) {
            client.regex = someRegex();
            send(client, owning(client, request(client, client.epoch)).setSubscribedTopicRegex(client.regex));
        } else if (choice == 2) {
            int epoch = client.epoch + random.nextInt(3) - 1;
            send(client, request(client, epoch == 0 ? 2 : epoch));  // 0 would be a join, which says more.
        } else if (choice == 3) {
            rejoin(client);
        } else if (choice < 9) {
            send(client, request(client, client.epoch));
        } else {
            send(client, owning(client, request(client, client.epoch)));
        }
    }

    /** What the client owns, or only some of it, as if it had given up more already. */
    private ConsumerGroupHeartbeatRequestData owning(Client client, ConsumerGroupHeartbeatRequestData request) {
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = new ArrayList<>();
        boolean some = random.nextInt(8) == 0;
        client.owned.forEach((id, partitions) -> {
            List<Integer> kept = new ArrayList<>(partitions);
            if (some) kept.removeIf(partition -> random.nextInt(2) == 0);
            owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions().setTopicId(id).setPartitions(kept));
        });
        return request.setTopicPartitions(owned);
    }

    void send(Client client, ConsumerGroupHeartbeatRequestData request) {
        ObjectNode line = JSON.createObjectNode();
        line.set("request", ConsumerGroupHeartbeatRequestDataJsonConverter.write(request, VERSION));
        try {
            var result = oracle.g.consumerGroupHeartbeat(Oracle.ctx(VERSION), request);
            line.set("records", result.replayRecords() ? written(result.records()) : told(result.records()));
            ConsumerGroupHeartbeatResponseData response = result.response();
            line.set("response", ConsumerGroupHeartbeatResponseDataJsonConverter.write(response, VERSION));
            took(client, response);
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code()).put("message", error.getMessage());
            client.epoch = 0;
        }
        noteTimers();
        System.out.println(line);
    }

    private void took(Client client, ConsumerGroupHeartbeatResponseData response) {
        client.epoch = response.memberEpoch();
        if (response.assignment() == null) return;
        client.owned.clear();
        response.assignment().topicPartitions().forEach(each ->
            client.owned.put(each.topicId(), new ArrayList<>(each.partitions())));
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

    public static void main(String[] arguments) throws Exception {
        long first = Long.parseLong(arguments[0]);
        for (long seed = first; seed < first + Long.parseLong(arguments[1]); seed++)
            new Histories(seed, Integer.parseInt(arguments[2])).play();
    }
}
