package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
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

/** A group and the clients, of both protocols, that are or were its members: their requests and the answers are shown as well. */
abstract class PlayedClients extends PlayedGroup {
    final List<Client> clients = new ArrayList<>();

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

        static Client classic() {
            Client client = new Client();
            client.classic = true;
            client.memberId = "";
            return client;
        }

        void took(ConsumerGroupHeartbeatResponseData response) {
            epoch = response.memberEpoch();
            if (response.assignment() == null) return;
            owned.clear();
            response.assignment().topicPartitions().forEach(each ->
                owned.put(each.topicId(), new ArrayList<>(each.partitions())));
        }

        void took(JoinGroupResponseData response) {
            if (response.errorCode() == Errors.MEMBER_ID_REQUIRED.code()) memberId = response.memberId();
            else if (response.errorCode() == 0) {
                memberId = response.memberId();
                epoch = response.generationId();
                synced = false;
                told = false;
            }
        }
    }

    PlayedClients(long seed, int maxPartitions, String... settings) throws Exception {
        super(seed, maxPartitions, settings);
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

    /** A client that has not joined yet, nor chosen its topics. */
    Client newClassic() {
        Client client = Client.classic();
        client.cooperative = random.nextInt(2) == 0;
        if (random.nextInt(4) == 0) client.instanceId = "i" + random.nextInt(3);
        return client;
    }

    /** One more comes to a consumer group. */
    void addClassic() {
        Client client = newClassic();
        client.names = clients.get(0).names == null || random.nextInt(2) == 0 ? someNames() : clients.get(0).names;
        if (clients.size() < 8) clients.add(client);
        joinClassic(client);
    }

    void joinClassic(Client client) {
        JoinGroupRequestData request = joinRequest(client);
        ObjectNode line = JSON.createObjectNode();
        line.set("join", JoinGroupRequestDataJsonConverter.write(request, (short) 9));
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        try {
            line.set("records", done(oracle.g.classicGroupJoin(Oracle.ctx(5), request, future)));
            JoinGroupResponseData response = future.get();
            line.set("response", JoinGroupResponseDataJsonConverter.write(response, (short) 9));
            client.took(response);
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
            if (Errors.forException(error) == Errors.UNKNOWN_MEMBER_ID) client.memberId = "";
        }
        show(line);
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

    SyncGroupRequestData syncRequest(Client client, int generation) {
        return new SyncGroupRequestData().setGroupId(GROUP).setMemberId(client.memberId)
            .setGroupInstanceId(client.instanceId).setGenerationId(generation);
    }

    HeartbeatRequestData beatRequest(Client client, int generation) {
        return new HeartbeatRequestData().setGroupId(GROUP).setMemberId(client.memberId)
            .setGroupInstanceId(client.instanceId).setGenerationId(generation);
    }

    void sync(Client client) {
        SyncGroupRequestData request = syncRequest(client, client.epoch + (random.nextInt(12) == 0 ? 1 : 0));
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
        show(line);
    }

    void beat(Client client) {
        HeartbeatRequestData request = beatRequest(client, client.epoch + (random.nextInt(12) == 0 ? 1 : 0));
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
        show(line);
    }

    LeaveGroupRequestData.MemberIdentity identity(Client client, String memberId) {
        return new LeaveGroupRequestData.MemberIdentity().setMemberId(memberId).setGroupInstanceId(client.instanceId);
    }

    void leave(List<Client> leaving) {
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(GROUP);
        leaving.forEach(client -> request.members().add(identity(
            client, client.instanceId != null && random.nextInt(2) == 0 ? "" : client.memberId)));
        ObjectNode line = JSON.createObjectNode();
        line.set("leave", LeaveGroupRequestDataJsonConverter.write(request, (short) 5));
        try {
            var result = oracle.g.classicGroupLeave(Oracle.ctx(5), request);
            line.set("records", records(result));
            line.set("response", LeaveGroupResponseDataJsonConverter.write(result.response(), (short) 5));
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code());
        }
        show(line);
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
            line.set("records", records(result));
            ConsumerGroupHeartbeatResponseData response = result.response();
            line.set("response", ConsumerGroupHeartbeatResponseDataJsonConverter.write(response, VERSION));
            client.took(response);
        } catch (Throwable error) {
            line.put("error", Errors.forException(error).code()).put("message", error.getMessage());
            client.epoch = 0;
        }
        show(line);
    }
}
