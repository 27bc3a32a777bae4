"""kafka-python's admin client: every call a user needs, each with its outcome asserted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kafka import KafkaAdminClient, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.admin import ConfigResource
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

from harness.reporting import Config, eventually, report, require, require_equal, step

T = TypeVar("T")


def admin(config: Config) -> None:
    client = KafkaAdminClient(bootstrap_servers=config["bootstrap"], client_id="kafka-python-admin")
    topic = config["new_topic"]
    _topics(client, topic, config["nodes"])
    _configs(client, topic)
    _partitions(client, topic)
    _groups(client, config)
    _offsets(client, config)
    _delete_records(client, config)
    _delete_topic(client, topic)
    client.close()
    report("walked")


def _topics(client: KafkaAdminClient, topic: str, nodes: int) -> None:
    new = {topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "7654321"}}}
    with step("create_topics"):
        client.create_topics(new, wait_for_metadata=True)
    with step("create_existing_topic"):
        _require_raises(TopicAlreadyExistsError, lambda: client.create_topics(new))
    with step("list_topics"):
        require(topic in client.list_topics(), "the new topic is listed")
    with step("describe_topics"):
        (described,) = client.describe_topics([topic])
        partitions = sorted(partition["partition_index"] for partition in described["partitions"])
        require_equal((described["name"], partitions), (topic, [0, 1, 2]), "topic")
    with step("describe_cluster"):
        cluster = client.describe_cluster()
        require(cluster["cluster_id"] and len(cluster["brokers"]) == nodes, cluster)


def _configs(client: KafkaAdminClient, topic: str) -> None:
    with step("describe_configs"):
        found = client.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
        values = {name: entry["value"] for name, entry in _only(_only(found)).items()}
        require_equal(values["retention.ms"], "7654321", "retention.ms")
        require_equal(values["cleanup.policy"], "delete", "cleanup.policy")
    with step("alter_configs"):
        client.alter_configs([ConfigResource("TOPIC", topic, configs={"retention.ms": "1234567"})])
        found = client.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
        require_equal(_only(_only(found))["retention.ms"]["value"], "1234567", "retention.ms")


def _partitions(client: KafkaAdminClient, topic: str) -> None:
    with step("create_partitions"):
        client.create_partitions({topic: 5})
        eventually(lambda: len(client.describe_topics([topic])[0]["partitions"]) == 5, "5 partitions")


def _groups(client: KafkaAdminClient, config: Config) -> None:
    live, empty, partition = config["live_group"], config["empty_group"], TopicPartition(config["topic"], 0)
    with step("list_groups"):
        states = {group["group_id"]: group["group_state"] for group in client.list_groups()}
        require_equal((states.get(live), states.get(empty)), ("Stable", "Empty"), "states")
        stable = {group["group_id"] for group in client.list_groups(states_filter=["Stable"])}
        require(live in stable and empty not in stable, f"groups of state Stable: {stable}")
    with step("describe_groups"):
        described = client.describe_groups([live, empty])
        require_equal(described[live]["group_state"], "Stable", "state of the live group")
        require_equal(len(described[live]["members"]), 1, "members of the live group")
        require_equal(described[empty]["group_state"], "Empty", "state of the empty group")
    with step("delete_live_group"):
        require_equal(client.delete_groups([live]), {live: "NonEmptyGroupError"}, "outcome")
    with step("list_group_offsets"):
        require_equal(_offset(client, empty, partition), 3, "group offset")
    with step("alter_group_offsets"):
        client.alter_group_offsets(empty, {partition: OffsetAndMetadata(5, "", -1)})
        require_equal(_offset(client, empty, partition), 5, "group offset")
    with step("delete_groups"):
        require_equal(client.delete_groups([empty]), {empty: "OK"}, "outcome")
        require_equal(client.delete_groups([empty]), {empty: "GroupIdNotFoundError"}, "outcome")


def _offset(client: KafkaAdminClient, group: str, partition: TopicPartition) -> int:
    return int(client.list_group_offsets(group)[group][partition].offset)


def _offsets(client: KafkaAdminClient, config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("list_offsets"):
        for spec, expected in (
            (OffsetSpec.EARLIEST, 0),
            (OffsetSpec.LATEST, config["records"]),
            (config["base_ms"] + 4_500, 5),
            (OffsetSpec.MAX_TIMESTAMP, config["records"] - 1),
        ):
            found = client.list_partition_offsets({partition: spec})[partition]
            require_equal(found.offset, expected, f"offset of {spec}")


def _delete_records(client: KafkaAdminClient, config: Config) -> None:
    partition = TopicPartition(config["topic"], 0)
    with step("delete_records"):
        client.delete_records({partition: 4})
        found = client.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition]
        require_equal(found.offset, 4, "earliest offset")


def _delete_topic(client: KafkaAdminClient, topic: str) -> None:
    with step("delete_topics"):
        client.delete_topics([topic])
        eventually(lambda: topic not in client.list_topics(), "the topic is gone")
    with step("delete_absent_topic"):
        _require_raises(UnknownTopicOrPartitionError, lambda: client.delete_topics([topic]))


def _only(mapping: Mapping[str, T]) -> T:
    (value,) = mapping.values()
    return value


def _require_raises(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")
