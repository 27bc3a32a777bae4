import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The Java admin client: every call a user needs, each with its outcome asserted. */
final class AdminWalk {
    private final JsonNode config;
    private final Admin admin;
    private final String newTopic;
    private final TopicPartition partition;
    private final String live;
    private final String empty;
    private final int nodes;

    AdminWalk(JsonNode config) {
        this.config = config;
        admin = Admin.create(ClientWorker.properties(config, "client.id", "java-admin"));
        newTopic = config.get("new_topic").asText();
        partition = new TopicPartition(config.get("topic").asText(), 0);
        live = config.get("live_group").asText();
        empty = config.get("empty_group").asText();
        nodes = config.get("nodes").asInt();
    }

    void run() throws Exception {
        topics();
        configs();
        partitions();
        groups();
        groupOffsets();
        deleteGroups();
        offsets();
        deleteTopic();
        admin.close();
        Reporting.report("walked");
    }

    private static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(Reporting.STEP_DEADLINE_S, TimeUnit.SECONDS);
    }

    private TopicDescription described() throws Exception {
        return get(admin.describeTopics(List.of(newTopic)).allTopicNames()).get(newTopic);
    }

    private void topics() throws Exception {
        List<NewTopic> topics =
            List.of(new NewTopic(newTopic, 3, (short) 1).configs(Map.of("retention.ms", "7654321")));
        Reporting.step("create_topics", () -> {
            var result = admin.createTopics(topics);
            get(result.all());
            Reporting.requireEqual(get(result.numPartitions(newTopic)), 3, "partitions in the reply");
            Reporting.requireEqual(get(result.config(newTopic)).get("retention.ms").value(), "7654321", "retention");
        });
        Reporting.step("create_existing_topic", () -> {
            Throwable error = Reporting.failure(admin.createTopics(topics).all());
            Reporting.require(error instanceof TopicExistsException, error);
        });
        Reporting.step("list_topics", () ->
            Reporting.require(get(admin.listTopics().names()).contains(newTopic), "the new topic is listed"));
        Reporting.step("describe_topics", () -> {
            TopicDescription topic = described();
            Reporting.requireEqual(topic.partitions().size(), 3, "partitions");
            Reporting.require(topic.partitions().stream().allMatch(p -> p.leader() != null && p.isr().size() == 1), topic);
        });
        Reporting.step("describe_cluster", () -> {
            DescribeClusterResult cluster = admin.describeCluster();
            Reporting.requireEqual(get(cluster.nodes()).size(), nodes, "nodes");
            Reporting.require(!get(cluster.clusterId()).isEmpty() && get(cluster.controller()) != null, "cluster");
        });
    }

    private void configs() throws Exception {
        Reporting.step("describe_configs", () -> {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, newTopic);
            Config found = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
            Reporting.requireEqual(found.get("retention.ms").value(), "7654321", "retention.ms");
            Reporting.requireEqual(found.get("retention.ms").isDefault(), false, "retention.ms is default");
            Reporting.requireEqual(found.get("cleanup.policy").value(), "delete", "cleanup.policy");
            Reporting.requireEqual(found.get("cleanup.policy").isDefault(), true, "cleanup.policy is default");
        });
        Reporting.step("alter_configs", () -> {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, newTopic);
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "1234567"), AlterConfigOp.OpType.SET);
            get(admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all());
            Reporting.eventually("the new retention.ms", () -> {
                Config found = get(admin.describeConfigs(List.of(resource)).all()).get(resource);
                return found.get("retention.ms").value().equals("1234567");
            });
        });
    }

    private void partitions() throws Exception {
        Reporting.step("create_partitions", () -> {
            get(admin.createPartitions(Map.of(newTopic, NewPartitions.increaseTo(5))).all());
            Reporting.eventually("5 partitions", () -> described().partitions().size() == 5);
        });
    }

    private void groups() throws Exception {
        Reporting.step("list_groups", () -> {
            Map<String, Optional<GroupState>> states = get(admin.listGroups().all()).stream()
                .collect(Collectors.toMap(GroupListing::groupId, GroupListing::groupState));
            Reporting.requireEqual(states.get(live), Optional.of(GroupState.STABLE), "state of the live group");
            Reporting.requireEqual(states.get(empty), Optional.of(GroupState.EMPTY), "state of the empty group");
        });
        Reporting.step("describe_groups", () -> {
            Map<String, ConsumerGroupDescription> found =
                get(admin.describeConsumerGroups(List.of(live, empty)).all());
            Reporting.requireEqual(found.get(live).groupState(), GroupState.STABLE, "state of the live group");
            Reporting.requireEqual(found.get(empty).groupState(), GroupState.EMPTY, "state of the empty group");
            Set<TopicPartition> owned =
                found.get(live).members().iterator().next().assignment().topicPartitions();
            Reporting.requireEqual(owned, Set.of(partition, new TopicPartition(partition.topic(), 1)), "assignment");
        });
        Reporting.step("delete_live_group", () -> {
            Throwable error = Reporting.failure(admin.deleteConsumerGroups(List.of(live)).all());
            Reporting.require(error instanceof GroupNotEmptyException, error);
        });
    }

    private void groupOffsets() throws Exception {
        Reporting.step("list_group_offsets", () -> requireGroupOffset(3));
        Reporting.step("alter_group_offsets", () -> {
            get(admin.alterConsumerGroupOffsets(empty, Map.of(partition, new OffsetAndMetadata(5))).all());
            requireGroupOffset(5);
        });
    }

    private void requireGroupOffset(long expected) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found =
            get(admin.listConsumerGroupOffsets(empty).partitionsToOffsetAndMetadata());
        Reporting.requireEqual(found.keySet(), Set.of(partition), "partitions with an offset");
        Reporting.requireEqual(found.get(partition).offset(), expected, "group offset");
    }

    private void deleteGroups() throws Exception {
        Reporting.step("delete_groups", () -> {
            get(admin.deleteConsumerGroups(List.of(empty)).all());
            Throwable error = Reporting.failure(admin.deleteConsumerGroups(List.of(empty)).all());
            Reporting.require(error instanceof GroupIdNotFoundException, error);
        });
    }

    private void offsets() throws Exception {
        Reporting.step("list_offsets", () -> {
            long records = config.get("records").asLong();
            requireOffset(OffsetSpec.earliest(), 0);
            requireOffset(OffsetSpec.latest(), records);
            requireOffset(OffsetSpec.forTimestamp(config.get("base_ms").asLong() + 4_500), 5);
            requireOffset(OffsetSpec.maxTimestamp(), records - 1);
        });
        Reporting.step("delete_records", () -> {
            get(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).all());
            requireOffset(OffsetSpec.earliest(), 4);
        });
    }

    private void requireOffset(OffsetSpec spec, long expected) throws Exception {
        var found = get(admin.listOffsets(Map.of(partition, spec)).all()).get(partition);
        Reporting.requireEqual(found.offset(), expected, spec.getClass().getSimpleName());
    }

    private void deleteTopic() throws Exception {
        Reporting.step("delete_topics", () -> {
            get(admin.deleteTopics(List.of(newTopic)).all());
            Reporting.eventually("the topic is gone", () -> !get(admin.listTopics().names()).contains(newTopic));
        });
        Reporting.step("delete_absent_topic", () -> {
            Throwable error = Reporting.failure(admin.deleteTopics(List.of(newTopic)).all());
            Reporting.require(error instanceof UnknownTopicOrPartitionException, error);
        });
    }
}
