package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupRequestDataJsonConverter;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;

/**
 * Histories of a group that is a classic one at first, is upgraded and downgraded. While it is classic nothing of it is
 * printed but what a member of the new protocol finds: the group as it stands, before each of their heartbeats.
 */
public class Migrations extends PlayedClients {
    private static final String[] POLICIES = {"bidirectional", "bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"};

    private final Map<Client, CompletableFuture<JoinGroupResponseData>> joins = new HashMap<>();
    private final Map<Client, CompletableFuture<SyncGroupResponseData>> syncs = new HashMap<>();
    private final Map<Client, List<String>> led = new HashMap<>();  // Of a leader: the ids of all members.
    private boolean wasConsumer = false;

    private Migrations(long seed, int maxPartitions) throws Exception {
        super(seed, maxPartitions, settings(new Random(seed + 1)));
    }

    private static String[] settings(Random random) {
        return new String[] {"group.consumer.migration.policy", POLICIES[random.nextInt(POLICIES.length)],
            "group.max.size", random.nextInt(6) == 0 ? "2" : "1000", "group.initial.rebalance.delay.ms", "0"};
    }

    @Override
    void play() {
        addTopics();
        for (int i = random.nextInt(40); i > 0; i--) ordinaryMember();
        for (int i = 40 + random.nextInt(60); i > 0; i--) {
            int choice = random.nextInt(100);
            if (choice < 3) addTopic();
            else if (choice < 6) growTopic();
            else if (choice < 18) advance();
            else if (choice < 22 && !oracle.tasks.isEmpty()) resolve();
            else if (kind() == Group.GroupType.CONSUMER) {
                if (choice < 30) join();
                else if (choice < 40 && hasMembers()) addClassic();
                else if (choice < 40) joinInstead();
                else if (choice < 50) goodbye();
                else if (!clients.isEmpty()) heartbeat(clients.get(random.nextInt(clients.size())));
            } else if (choice < 24 && kind() != null) join();
            else ordinaryMember();
            settleKind();
        }
    }

    // What kind the group is.

    private Group.GroupType kind() {
        try {
            return oracle.g.group(GROUP).type();
        } catch (Throwable none) {
            return null;
        }
    }

    /** Print the classic group that a downgrade made, before it changes any more. */
    private void settleKind() {
        settle();
        boolean isConsumer = kind() == Group.GroupType.CONSUMER;
        if (wasConsumer && !isConsumer) {
            oracle.tasks.clear();
            oracle.sched.clear();
            ObjectNode line = JSON.createObjectNode();
            line.set("downgraded", described());
            ObjectNode timers = line.putObject("timers");
            deadlines.forEach(timers::put);
            System.out.println(line);
        }
        wasConsumer = isConsumer;
    }

    /** Of a group that is of the other kind by now Kafka lets the timers run; they find nothing, or its next life. */
    @Override
    void noteTimers() {
        if (kind() != null) {
            boolean isConsumer = kind() == Group.GroupType.CONSUMER;
            oracle.timers.keySet().removeIf(key -> isClassic(key) == isConsumer);
        }
        super.noteTimers();
    }

    private static boolean isClassic(String key) {
        return key.startsWith("heartbeat-") || key.equals("join-" + GROUP) || key.equals("sync-" + GROUP);
    }

    @Override
    void fire(String key, long ms) {
        if (kind() == Group.GroupType.CONSUMER) {
            super.fire(key, ms);
        } else {
            var operation = due(key, ms);
            try {
                done(operation.generateRecords());
            } catch (Throwable error) {
                throw new RuntimeException(error);
            }
            noteTimers();
        }
        settleKind();
    }

    private ObjectNode described() {
        ClassicGroup group = oracle.g.classicGroup(GROUP, Long.MAX_VALUE);
        ObjectNode line = JSON.createObjectNode();
        line.put("state", group.currentState().toString()).put("generation", group.generationId());
        line.put("protocolType", group.protocolType().orElse(null)).put("protocol", group.protocolName().orElse(null));
        line.put("leader", group.leaderOrNull());
        ArrayNode members = line.putArray("members");
        for (ClassicGroupMember member : group.allMembers()) {
            ObjectNode one = members.addObject();
            one.put("memberId", member.memberId()).put("groupInstanceId", member.groupInstanceId().orElse(null));
            one.put("clientId", member.clientId()).put("clientHost", member.clientHost());
            one.put("rebalanceTimeout", member.rebalanceTimeoutMs()).put("sessionTimeout", member.sessionTimeoutMs());
            one.put("assignment", member.assignment()).put("joins", member.isAwaitingJoin()).put("syncs", member.isAwaitingSync());
            ArrayNode protocols = one.putArray("protocols");
            member.supportedProtocols().forEach(each ->
                protocols.addObject().put("name", each.name()).put("metadata", each.metadata()));
        }
        return line;
    }

    // Members of the new protocol.

    @Override
    void send(Client client, ConsumerGroupHeartbeatRequestData request) {
        boolean isClassic = kind() == Group.GroupType.CLASSIC;
        List<String> parked = new ArrayList<>();
        if (isClassic) {
            ClassicGroup group = oracle.g.classicGroup(GROUP, Long.MAX_VALUE);
            for (ClassicGroupMember member : group.allMembers()) {
                // Without a protocol for all of them Kafka fails with an error of its own (see upgrade.py).
                if (member.supportedProtocols().find(group.protocolName().orElse("")) == null) return;
                if (member.isAwaitingJoin()) parked.add("join " + member.memberId());
                if (member.isAwaitingSync()) parked.add("sync " + member.memberId());
            }
            ObjectNode line = JSON.createObjectNode();
            line.set("classic", described());
            System.out.println(line);
        }
        super.send(client, request);
        if (isClassic) {
            ObjectNode line = JSON.createObjectNode();
            line.put("upgraded", kind() == Group.GroupType.CONSUMER);
            ArrayNode members = line.putArray("parked");
            parked.stream().sorted().forEach(members::add);
            System.out.println(line);
        }
    }

    /** A classic member joins a group that nobody is left in. (With a member id, Kafka forgets the group and writes nothing.) */
    private void joinInstead() {
        Client client = Client.classic();
        client.names = someNames();
        if (clients.size() < 8) clients.add(client);
        JoinGroupRequestData request = joinRequest(client);
        ObjectNode line = JSON.createObjectNode();
        line.set("instead", JoinGroupRequestDataJsonConverter.write(request, (short) 9));
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        var result = oracle.g.classicGroupJoin(Oracle.ctx(5), request, future);
        line.set("records", told(result.records()));
        result.appendFuture().complete(null);
        joins.put(client, future);
        oracle.tasks.clear();
        oracle.sched.clear();
        show(line);
        wasConsumer = false;
    }

    /** One of the members of the new protocol leaves, so that it is the last of them at times. */
    private void goodbye() {
        List<Client> known = new ArrayList<>(clients);
        known.removeIf(each -> each.classic || each.left || each.epoch <= 0);
        if (known.isEmpty()) return;
        Client client = known.get(random.nextInt(known.size()));
        client.left = true;
        send(client, request(client, -1));
        if (random.nextInt(3) > 0) clients.remove(client);
    }

    // Classic members of a classic group: not to be compared, only to make one.

    private void ordinaryMember() {
        List<Client> known = new ArrayList<>(clients);
        known.removeIf(each -> !each.classic);
        if (known.size() < 2 || known.size() < 5 && random.nextInt(10) == 0) {
            Client client = newClassic();
            client.names = someNames();
            clients.add(client);
            known = List.of(client);
        }
        Client client = known.get(random.nextInt(known.size()));
        int choice = random.nextInt(30);
        if (kind() == Group.GroupType.CONSUMER) return;
        if (choice == 0) leaveOrdinary(client);
        else if (joins.containsKey(client) || syncs.containsKey(client)) quietBeat(client);
        else if (client.memberId.isEmpty() || client.epoch <= 0 || client.told && choice < 25) joinOrdinary(client);
        else if (!client.synced && choice < 25) syncOrdinary(client);
        else if (choice < 28) quietBeat(client);
        else joinOrdinary(client);
        settle();
        if (choice > 20) advance();
    }

    private void carryOut(Errors error, Client client) {
        if (error == Errors.UNKNOWN_MEMBER_ID || error == Errors.FENCED_INSTANCE_ID) {
            client.memberId = "";
            client.epoch = 0;
        } else if (error != Errors.NONE) client.told = true;
    }

    private void joinOrdinary(Client client) {
        JoinGroupRequestData request = joinRequest(client);
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        try {
            done(oracle.g.classicGroupJoin(Oracle.ctx(5), request, future));
            joins.put(client, future);
        } catch (Throwable error) {
            carryOut(Errors.forException(error), client);
        }
        noteTimers();
    }

    private void syncOrdinary(Client client) {
        SyncGroupRequestData request = syncRequest(client, client.epoch);
        List<String> members = led.getOrDefault(client, List.of());
        if (!members.isEmpty()) {
            Map<String, List<TopicPartition>> shares = new HashMap<>();
            members.forEach(each -> shares.put(each, new ArrayList<>()));
            image.m.values().forEach(topic -> {
                for (int i = 0; i < topic.p; i++)
                    shares.get(members.get(random.nextInt(members.size()))).add(new TopicPartition(topic.n, i));
            });
            int odd = random.nextInt(60);
            if (odd == 0) shares.values().forEach(each -> each.add(new TopicPartition("topic1", 0)));
            if (odd == 1) shares.values().forEach(each -> each.add(new TopicPartition("gone", 0)));
            shares.forEach((id, partitions) -> request.assignments().add(new SyncGroupRequestData.SyncGroupRequestAssignment()
                .setMemberId(id).setAssignment(odd == 2 ? new byte[] {0} : Utils.toArray(ConsumerProtocol.serializeAssignment(
                    new ConsumerPartitionAssignor.Assignment(partitions, odd == 3 ? java.nio.ByteBuffer.wrap(new byte[] {1}) : null))))));
        }
        CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
        try {
            done(oracle.g.classicGroupSync(Oracle.ctx(5), request, future));
            syncs.put(client, future);
        } catch (Throwable error) {
            carryOut(Errors.forException(error), client);
        }
        noteTimers();
    }

    private void quietBeat(Client client) {
        try {
            int error = oracle.g.classicGroupHeartbeat(Oracle.ctx(4), beatRequest(client, client.epoch)).response().errorCode();
            carryOut(Errors.forCode((short) error), client);
        } catch (Throwable error) {
            carryOut(Errors.forException(error), client);
        }
        noteTimers();
    }

    private void leaveOrdinary(Client client) {
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(GROUP);
        request.members().add(identity(client, client.memberId));
        try {
            done(oracle.g.classicGroupLeave(Oracle.ctx(5), request));
            client.memberId = "";
            client.epoch = 0;
        } catch (Throwable error) {
            carryOut(Errors.forException(error), client);
        }
        noteTimers();
    }

    /** Let clients take the answers that have come. */
    private void settle() {
        joins.entrySet().removeIf(each -> {
            if (!each.getValue().isDone()) return false;
            JoinGroupResponseData response = each.getValue().join();
            Client client = each.getKey();
            client.took(response);
            if (response.errorCode() == 0)
                led.put(client, response.members().stream().map(JoinGroupResponseData.JoinGroupResponseMember::memberId).toList());
            else if (response.errorCode() != Errors.MEMBER_ID_REQUIRED.code()) carryOut(Errors.forCode(response.errorCode()), client);
            return true;
        });
        syncs.entrySet().removeIf(each -> {
            if (!each.getValue().isDone()) return false;
            SyncGroupResponseData response = each.getValue().join();
            if (response.errorCode() == 0) each.getKey().synced = true;
            else carryOut(Errors.forCode(response.errorCode()), each.getKey());
            return true;
        });
    }

    public static void main(String[] arguments) throws Exception {
        playAll(arguments, Migrations::new);
    }
}
