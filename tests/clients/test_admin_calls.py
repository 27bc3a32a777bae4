"""What stock admin clients call beside topics and groups: settings, records, log directories, elections, ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition
from kafka.admin import ACLFilter, ACLOperation, ACLPermissionType, ResourcePatternFilter
from kafka.admin import ACLResourcePatternType as Pattern
from kafka.admin import ConfigResource as Resource
from kafka.admin import ConfigResourceType as Kind
from kafka.admin import ResourceType as Type
from kafka.errors import (
    ElectionNotNeededError,
    InvalidReplicationAssignmentError,
    InvalidUpdateVersionError,
    LogDirNotFoundError,
    NoError,
    SecurityDisabledError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartitionReplica

from harness.observer import Observer
from harness.processes import wait_until

TIMEOUT_S = 20
PREFERRED = 0
NODE = 1


@pytest.fixture
def kafka_python(observer: Observer) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=observer.bootstrap)
    yield client
    client.close()


@pytest.fixture
def confluent(observer: Observer) -> AdminClient:
    return AdminClient({"bootstrap.servers": observer.bootstrap, "log_level": 0})


def altered(is_shown: Callable[[], bool]) -> None:
    """Wait until what was altered is shown: a broker hears of it a moment after the controller has answered."""
    wait_until(is_shown, "what was altered", TIMEOUT_S)


def test_kafka_python_alters_settings(kafka_python: KafkaAdminClient, observer: Observer) -> None:
    topic = observer.create_topic("altered", 1)

    def value(name: str) -> object:
        found = kafka_python.describe_configs([Resource("TOPIC", topic)], config_filter="all")
        ((settings,),) = (each.values() for each in found.values())
        return settings[name]["value"]

    kafka_python.alter_configs([Resource("TOPIC", topic, configs={"retention.ms": "1234567"})])
    altered(lambda: value("retention.ms") == "1234567")
    kafka_python.reset_configs([Resource("TOPIC", topic, configs=["retention.ms"])])
    altered(lambda: value("retention.ms") == "604800000")


def test_kafka_python_alters_settings_of_a_group(kafka_python: KafkaAdminClient, observer: Observer) -> None:
    name = "consumer.session.timeout.ms"

    def value() -> object:
        found = kafka_python.describe_configs([Resource("GROUP", "tuned")], config_filter="all")
        ((settings,),) = (each.values() for each in found.values())
        return settings[name]["value"]

    kafka_python.alter_configs([Resource("GROUP", "tuned", configs={name: "50000"})])
    altered(lambda: value() == "50000")
    assert "tuned" in str(kafka_python.list_config_resources([Kind.GROUP]))
    kafka_python.reset_configs([Resource("GROUP", "tuned", configs=[name])])
    altered(lambda: value() == "45000")
    assert "tuned" not in str(kafka_python.list_config_resources([Kind.GROUP]))


def test_kafka_python_alters_a_client_metrics_subscription(kafka_python: KafkaAdminClient) -> None:
    def value() -> object:
        found = kafka_python.describe_configs([Resource("CLIENT_METRICS", "polls")], config_filter="all")
        ((settings,),) = (each.values() for each in found.values())
        return settings["interval.ms"]["value"]

    of_nobody = {"interval.ms": "50000", "match": "client_id=none"}
    kafka_python.alter_configs([Resource("CLIENT_METRICS", "polls", configs=of_nobody)])
    altered(lambda: value() == "50000")
    assert "polls" in str(kafka_python.list_config_resources([Kind.CLIENT_METRICS]))
    kafka_python.reset_configs([Resource("CLIENT_METRICS", "polls", configs=list(of_nobody))])
    altered(lambda: value() == "300000")
    assert "polls" not in str(kafka_python.list_config_resources([Kind.CLIENT_METRICS]))


def test_kafka_python_deletes_records(kafka_python: KafkaAdminClient, observer: Observer) -> None:
    topic = observer.create_topic("emptied", 1)
    observer.write(topic, map(str, range(5)), 0)
    kafka_python.delete_records({Partition(topic, 0): 3})
    assert [message.offset() for message in observer.read(topic, 0)] == [3, 4]
    kafka_python.delete_records({Partition(topic, 0): -1})
    assert observer.read(topic, 0) == []


def test_kafka_python_asks_what_there_is_beside(kafka_python: KafkaAdminClient, observer: Observer) -> None:
    topic = observer.create_topic("described", 2)
    observer.write(topic, ["x" * 1000], 0)
    ((found,),) = (directory["topics"] for directory in log_dirs(kafka_python, topic))
    assert found["name"] == topic
    sizes = {each["partition_index"]: each["partition_size"] for each in found["partitions"]}
    assert sizes[0] > 1000
    assert sizes[1] == 0
    elected = kafka_python.elect_leaders(PREFERRED, {topic: [0]})
    (result,) = elected.replica_election_results[0].partition_result
    assert result.error_code == ElectionNotNeededError.errno
    assert kafka_python.list_partition_reassignments() == {}
    assert topic in str(kafka_python.list_config_resources([Kind.TOPIC]))
    with pytest.raises(SecurityDisabledError):
        kafka_python.describe_acls(
            ACLFilter(
                "User:a",
                "*",
                ACLOperation.ANY,
                ACLPermissionType.ANY,
                ResourcePatternFilter(Type.TOPIC, topic, Pattern.ANY),
            )
        )


def log_dirs(client: KafkaAdminClient, topic: str) -> list[dict[str, Any]]:
    """Those of the one broker: in that of a node whose log is on another Kafka there is nothing."""
    found = [each for broker in client.describe_log_dirs([topic]) for each in broker["log_dirs"]]
    return [each for each in found if each["topics"]]


def test_kafka_python_moves_replicas_nowhere(kafka_python: KafkaAdminClient, observer: Observer) -> None:
    topic = observer.create_topic("stays", 1)
    here, unknown = Partition(topic, 0), Partition(topic, 1)
    assert kafka_python.alter_partition_reassignments({here: [NODE], unknown: [NODE]}) == {
        here: None,
        unknown: UnknownTopicOrPartitionError,
    }
    refused = kafka_python.alter_partition_reassignments({here: [NODE, 7]})
    assert refused == {here: InvalidReplicationAssignmentError}
    (directory,) = (each["log_dir"] for each in log_dirs(kafka_python, topic))
    replica = TopicPartitionReplica(topic, 0, NODE)
    assert kafka_python.alter_replica_log_dirs({replica: directory}) == {replica: NoError}
    assert kafka_python.alter_replica_log_dirs({replica: "/elsewhere"}) == {replica: LogDirNotFoundError}


def test_kafka_python_describes_and_updates_features(kafka_python: KafkaAdminClient) -> None:
    shown = kafka_python.describe_features()["transaction.version"]
    assert (shown["supported"], shown["finalized"]) == ((0, 2), (2, 2))
    assert kafka_python.update_features({"transaction.version": 2}) == {"transaction.version": "OK"}
    with pytest.raises(InvalidUpdateVersionError):
        kafka_python.update_features({"transaction.version": 3})


def test_kafka_python_describes_the_quorum(kafka_python: KafkaAdminClient) -> None:
    (topic,) = kafka_python.describe_metadata_quorum()["topics"]
    (partition,) = topic["partitions"]
    assert partition["leader_id"] == NODE
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [NODE]


def test_confluent_alters_settings(confluent: AdminClient, observer: Observer) -> None:
    topic = observer.create_topic("altered", 1)

    def resource(**entries: tuple[AlterConfigOpType, str]) -> ConfigResource:
        changes = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=what)
            for name, (what, value) in entries.items()
        ]
        return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)

    asked = resource(
        retention_ms=(AlterConfigOpType.SET, "1234567"), cleanup_policy=(AlterConfigOpType.APPEND, "compact")
    )
    (done,) = confluent.incremental_alter_configs([asked]).values()
    done.result(TIMEOUT_S)

    def shown() -> tuple[str, str]:
        (described,) = confluent.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        found = described.result(TIMEOUT_S)
        return found["retention.ms"].value, found["cleanup.policy"].value

    altered(lambda: shown() == ("1234567", "delete,compact"))
    (refused,) = confluent.incremental_alter_configs([resource(foo=(AlterConfigOpType.SET, "1"))]).values()
    with pytest.raises(KafkaException, match="Unknown topic config name: foo"):
        refused.result(TIMEOUT_S)


def test_confluent_alters_settings_of_a_group(confluent: AdminClient) -> None:
    name = "consumer.session.timeout.ms"

    def value() -> object:
        (described,) = confluent.describe_configs([ConfigResource(ResourceType.GROUP, "adjusted")]).values()
        return described.result(TIMEOUT_S)[name].value

    for operation, expected in ((AlterConfigOpType.SET, "50000"), (AlterConfigOpType.DELETE, "45000")):
        change = ConfigEntry(name, "50000", incremental_operation=operation)
        asked = ConfigResource(ResourceType.GROUP, "adjusted", incremental_configs=[change])
        (done,) = confluent.incremental_alter_configs([asked]).values()
        done.result(TIMEOUT_S)
        altered(lambda: value() == expected)  # noqa: B023 - called at once.


def test_confluent_deletes_records(confluent: AdminClient, observer: Observer) -> None:
    topic = observer.create_topic("emptied", 1)
    observer.write(topic, map(str, range(5)), 0)
    (deleted,) = confluent.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert deleted.result(TIMEOUT_S).low_watermark == 3
    assert [message.offset() for message in observer.read(topic, 0)] == [3, 4]
    (refused,) = confluent.delete_records([TopicPartition(topic, 0, 99)]).values()
    with pytest.raises(KafkaException) as raised:
        refused.result(TIMEOUT_S)
    assert raised.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_confluent_asks_what_there_is_beside(confluent: AdminClient, observer: Observer) -> None:
    topic = observer.create_topic("led", 1)
    elected = confluent.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(TIMEOUT_S)
    (error,) = elected.values()
    assert error.code() == KafkaError.ELECTION_NOT_NEEDED
    acl = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (made,) = confluent.create_acls([acl]).values()
    with pytest.raises(KafkaException) as raised:
        made.result(TIMEOUT_S)
    assert raised.value.args[0].code() == KafkaError.SECURITY_DISABLED
    described = confluent.describe_user_scram_credentials()
    assert not isinstance(described, dict), "of all users at once: one future"
    assert described.result(TIMEOUT_S) == {}
