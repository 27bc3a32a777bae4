"""confluent-kafka's admin client: every call a user needs, each with its outcome asserted."""

from __future__ import annotations

from concurrent.futures import Future

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from harness.reporting import Config, eventually, report, require, require_equal, step

TIMEOUT_S = 60


def admin(config: Config) -> None:
    client = AdminClient({"bootstrap.servers": config["bootstrap"], "client.id": "confluent-admin"})
    topic = config["new_topic"]
    _topics(client, topic, config["nodes"])
    _configs(client, topic)
    _partitions(client, topic)
    _groups(client, config)
    _offsets(client, config)
    _delete_records(client, config)
    _delete_topic(client, topic)
    report("walked")


def _topics(client: AdminClient, topic: str, nodes: int) -> None:
    new = NewTopic(topic, num_partitions=3, replication_factor=1, config={"retention.ms": "7654321"})
    with step("create_topics"):
        client.create_topics([new], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    with step("create_existing_topic"):
        require_equal(_error(client.create_topics([new])[topic]), KafkaError.TOPIC_ALREADY_EXISTS, "error")
    with step("list_topics"):
        require(topic in client.list_topics(timeout=TIMEOUT_S).topics, "the new topic is listed")
    with step("describe_topics"):
        described = client.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)[topic].result(
            TIMEOUT_S
        )
        require_equal([p.id for p in described.partitions], [0, 1, 2], "partitions")
        require(all(p.leader is not None and len(p.isr) == 1 for p in described.partitions), "leaders")
    with step("describe_cluster"):
        cluster = client.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        require(
            cluster.cluster_id and len(cluster.nodes) == nodes and cluster.controller is not None, cluster
        )


def _configs(client: AdminClient, topic: str) -> None:
    with step("describe_configs"):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = client.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
        require_equal(found["retention.ms"].value, "7654321", "retention.ms")
        require_equal(found["cleanup.policy"].value, "delete", "cleanup.policy")
        require(found["cleanup.policy"].is_default and not found["retention.ms"].is_default, "sources")
    with step("alter_configs"):
        entry = ConfigEntry("retention.ms", "1234567", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        client.incremental_alter_configs([change])[change].result(TIMEOUT_S)
        found = client.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
        require_equal(found["retention.ms"].value, "1234567", "retention.ms")


def _partitions(client: AdminClient, topic: str) -> None:
    with step("create_partitions"):
        client.create_partitions([NewPartitions(topic, 5)], request_timeout=TIMEOUT_S)[topic].result(
            TIMEOUT_S
        )
        eventually(
            lambda: len(client.list_topics(topic, timeout=5).topics[topic].partitions) == 5, "5 partitions"
        )


def _groups(client: AdminClient, config: Config) -> None:
    live, empty = config["live_group"], config["empty_group"]
    with step("list_groups"):
        listing = client.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        require_equal(listing.errors, [], "errors")
        states = {group.group_id: group.state for group in listing.valid}
        require_equal(states.get(live), ConsumerGroupState.STABLE, "state of the live group")
        require_equal(states.get(empty), ConsumerGroupState.EMPTY, "state of the empty group")
    with step("describe_groups"):
        described = client.describe_consumer_groups([live, empty], request_timeout=TIMEOUT_S)
        found = described[live].result(TIMEOUT_S)
        require_equal((found.state, len(found.members)), (ConsumerGroupState.STABLE, 1), "live group")
        assigned = {(tp.topic, tp.partition) for tp in found.members[0].assignment.topic_partitions}
        require_equal(assigned, {(config["topic"], 0), (config["topic"], 1)}, "assignment")
        require_equal(described[empty].result(TIMEOUT_S).state, ConsumerGroupState.EMPTY, "empty group")
    with step("delete_live_group"):
        refused = client.delete_consumer_groups([live], request_timeout=TIMEOUT_S)[live]
        require_equal(_error(refused), KafkaError.NON_EMPTY_GROUP, "error")
    with step("list_group_offsets"):
        _require_group_offsets(client, config, 3)
    with step("alter_group_offsets"):
        changed = ConsumerGroupTopicPartitions(empty, [TopicPartition(config["topic"], 0, 5)])
        client.alter_consumer_group_offsets([changed])[empty].result(TIMEOUT_S)
        _require_group_offsets(client, config, 5)
    with step("delete_groups"):
        client.delete_consumer_groups([empty], request_timeout=TIMEOUT_S)[empty].result(TIMEOUT_S)
        gone = client.delete_consumer_groups([empty], request_timeout=TIMEOUT_S)[empty]
        require_equal(_error(gone), KafkaError.GROUP_ID_NOT_FOUND, "error")


def _require_group_offsets(client: AdminClient, config: Config, expected: int) -> None:
    group = config["empty_group"]
    found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(TIMEOUT_S)
    offsets = [(tp.topic, tp.partition, tp.offset) for tp in found.topic_partitions]
    require_equal(offsets, [(config["topic"], 0, expected)], "group offsets")


def _offsets(client: AdminClient, config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("list_offsets"):
        for spec, expected in (
            (OffsetSpec.earliest(), 0),
            (OffsetSpec.latest(), config["records"]),
            (OffsetSpec.for_timestamp(config["base_ms"] + 4_500), 5),
            (OffsetSpec.max_timestamp(), config["records"] - 1),
        ):
            found = client.list_offsets({partition: spec}, request_timeout=TIMEOUT_S)[partition].result(
                TIMEOUT_S
            )
            require_equal(found.offset, expected, f"offset of {spec}")


def _delete_records(client: AdminClient, config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("delete_records"):
        asked = TopicPartition(config["topic"], 0, 4)
        (deleted,) = client.delete_records([asked], request_timeout=TIMEOUT_S).values()
        require_equal(deleted.result(TIMEOUT_S).low_watermark, 4, "low watermark")
        answer = client.list_offsets({partition: OffsetSpec.earliest()}, request_timeout=TIMEOUT_S)[partition]
        require_equal(answer.result(TIMEOUT_S).offset, 4, "earliest offset")


def _delete_topic(client: AdminClient, topic: str) -> None:
    with step("delete_topics"):
        client.delete_topics([topic], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
        eventually(lambda: topic not in client.list_topics(timeout=5).topics, "the topic is gone")
    with step("delete_absent_topic"):
        require_equal(_error(client.delete_topics([topic])[topic]), KafkaError.UNKNOWN_TOPIC_OR_PART, "error")


def _error(future: Future[object]) -> int:
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return KafkaError.NO_ERROR
