"""What handlers ask for themselves: Fetch behind its session, changes of settings behind their form, pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.security.acls import Acl, Operation
from coordinator.security.authorizer import StandardAuthorizer
from coordinator.security.session import Session
from harness.doubles.fake_pending import FakePending
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.describe_configs import ConfigResourceType
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.access.world import CLIENT, CLUSTER, GROUP, TOPIC, acl
from tests.topics.requests import fetch_request, produce
from tests.topics.world import World, batch

OP = Operation
HIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for name in ("mine", "other"):
        made.topic(name, partitions=2)
        produce(made, batch(b"v"), topic=name)
    return made


class Client:
    """A client with ACLs."""

    def __init__(self, world: World, *acls: Acl) -> None:
        self.world, self.rights = world, StandardAuthorizer()
        self.rights.change(acls)

    def start(self, request: Any, version: int) -> FakePending:
        waiting = FakePending(version)
        waiting.session, waiting.rights = Session(CLIENT), self.rights
        self.world.hand_over(request, waiting)
        return waiting

    def ask(self, request: Any, version: int) -> Any:
        waiting = self.start(request, version)
        self.world.settle()
        assert waiting.is_answered
        return waiting.answer


def errors(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, each.partition_index, each.error_code)
        for topic in answer.responses
        for each in topic.partitions
    ]


# Fetch.


def test_a_fetch_reads_what_may_be_read_and_answers_the_rest_behind_it(world: World) -> None:
    client = Client(world, acl(OP.READ, TOPIC, "mine"))
    request = fetch_request(("other", 0, 0), ("mine", 0, 0), ("absent", 0, 0), ("mine", 9, 0))
    answer = client.ask(request, 12)
    assert errors(answer) == [
        ("mine", 0, 0),
        ("other", 0, HIDDEN),
        ("absent", 0, HIDDEN),
        ("mine", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    refused = answer.responses[1].partitions[0]
    assert (refused.records, refused.high_watermark, refused.log_start_offset) == (b"", -1, -1)


def by_id(world: World, *names: str, **fields: Any) -> FetchRequest:
    asked = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    ids = [world.registry.topic_id(name) or b"\x99" * 16 for name in names]
    topics = [FetchTopic(topic_id=each, partitions=asked) for each in ids]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, **fields)


def test_by_id_an_unknown_one_is_said_to_be_unknown_first(world: World) -> None:
    answer = Client(world).ask(by_id(world, "other", "absent"), 16)
    found = [each.error_code for topic in answer.responses for each in topic.partitions]
    assert found == [ErrorCode.UNKNOWN_TOPIC_ID, HIDDEN]


def test_a_session_is_asked_for_its_rights_with_each_request(world: World) -> None:
    client = Client(world, acl(OP.READ, TOPIC))
    opened = client.ask(fetch_request(("mine", 0, 0), session_epoch=0), 12)
    assert errors(opened) == [("mine", 0, 0)]
    client.rights.change(removed=[acl(OP.READ, TOPIC)])
    later = {"session_id": opened.session_id, "max_wait_ms": 0, "min_bytes": 1}
    lost = client.ask(FetchRequest(session_epoch=1, **later), 12)
    assert errors(lost) == [("mine", 0, HIDDEN)]
    client.rights.change([acl(OP.READ, TOPIC, "mine")])
    assert errors(client.ask(FetchRequest(session_epoch=2, **later), 12)) == [("mine", 0, 0)]
    forgotten = ForgottenTopic(topic="mine", partitions=[0])
    gone = client.ask(FetchRequest(session_epoch=3, forgotten_topics_data=[forgotten], **later), 12)
    assert errors(gone) == []


def test_a_topic_made_anew_under_a_readable_name_is_not_the_one_of_the_session(world: World) -> None:
    """The id decides, and rights go by the name that it stands for."""
    client = Client(world, acl(OP.READ, TOPIC, "mine"))
    answer = client.ask(by_id(world, "mine", "other"), 16)
    assert [each.error_code for topic in answer.responses for each in topic.partitions] == [0, HIDDEN]


def test_what_is_refused_ends_no_wait_and_waits_for_nothing(world: World) -> None:
    client = Client(world, acl(OP.READ, TOPIC, "mine"))
    alone = client.ask(fetch_request(("other", 0, 0), max_wait_ms=500), 12)
    assert errors(alone) == [("other", 0, HIDDEN)]
    parked = client.start(fetch_request(("mine", 1, 0), ("other", 0, 0), max_wait_ms=500), 12)
    world.settle()
    assert not parked.is_answered
    world.pass_time(501)
    world.settle()
    assert errors(parked.answer) == [("mine", 1, 0), ("other", 0, HIDDEN)]


@pytest.mark.parametrize("version", [12, 16])
def test_a_replica_reads_everything_or_nothing(world: World, version: int) -> None:
    fields: dict[str, Any] = {"replica_id": 3}
    if version >= 15:
        fields = {"replica_state": FetchReplicaState(replica_id=3)}
    names = ("mine", "absent")
    request = by_id(world, *names, **fields)
    if version < 13:
        request = fetch_request(*((name, 0, 0) for name in names), **fields)
    for acls, expected in (
        ([acl(OP.READ, TOPIC)], [HIDDEN, HIDDEN]),
        ([acl(OP.CLUSTER_ACTION, CLUSTER)], [0, ErrorCode.UNKNOWN_TOPIC_ID]),
    ):
        answer = Client(world, *acls).ask(request, version)
        found = [each.error_code for topic in answer.responses for each in topic.partitions]
        if version < 13 and expected[0] == 0:
            expected = [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert found == expected


# Settings.


def altered(
    client: Client, *resources: tuple[int, str, list[tuple[str, str | None]]], operation: int = 0
) -> list[int]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, value in configs
                ],
            )
            for kind, name, configs in resources
        ]
    )
    return [each.error_code for each in client.ask(request, 1).responses]


KEEP: list[tuple[str, str | None]] = [("retention.ms", "1000")]
TOPICS, GROUPS, BROKERS, LOGGERS = (
    int(ConfigResourceType.TOPIC),
    int(ConfigResourceType.GROUP),
    int(ConfigResourceType.BROKER),
    int(ConfigResourceType.BROKER_LOGGER),
)


def test_settings_are_changed_with_the_right_to_what_they_are_of(world: World) -> None:
    client = Client(world, acl(OP.ALTER_CONFIGS, TOPIC, "mine"))
    session: list[tuple[str, str | None]] = [("consumer.session.timeout.ms", "50000")]
    asked = (
        (TOPICS, "mine", KEEP),
        (TOPICS, "other", KEEP),
        (TOPICS, "absent", KEEP),
        (GROUPS, "g", session),
    )
    assert altered(client, *asked) == [0, HIDDEN, HIDDEN, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    found = [world.registry.get(name) for name in ("mine", "other")]
    assert [each.config.text("retention.ms") for each in found if each is not None] == ["1000", "604800000"]
    assert world.registry.groups.texts("g") == {}
    assert altered(Client(world, acl(OP.ALTER_CONFIGS, GROUP, "g")), (GROUPS, "g", session)) == [0]


def test_the_form_is_looked_at_before_rights_and_values_of_topics_behind_them(world: World) -> None:
    client, invalid = Client(world), ErrorCode.INVALID_REQUEST
    assert altered(client, (TOPICS, "mine", KEEP), (TOPICS, "mine", KEEP)) == [invalid] * 2
    assert altered(client, (TOPICS, "mine", [*KEEP, *KEEP])) == [invalid]
    assert altered(client, (TOPICS, "mine", [("retention.ms", None)])) == [invalid]
    assert altered(client, (BROKERS, "42", [])) == [invalid]
    assert altered(client, (TOPICS, "mine", [("retention.ms", "x")])) == [HIDDEN]


def test_an_operation_that_is_not_known_is_looked_at_where_values_are(world: World) -> None:
    """Behind rights; of the broker before them."""
    asked = ((TOPICS, "mine", KEEP), (GROUPS, "g", KEEP), (BROKERS, "", KEEP), (99, "x", KEEP))
    invalid = ErrorCode.INVALID_REQUEST
    denied = [HIDDEN, ErrorCode.GROUP_AUTHORIZATION_FAILED, invalid, invalid]
    assert altered(Client(world), *asked, operation=9) == denied
    permitted = Client(world, *(acl(OP.ALTER_CONFIGS, kind) for kind in (TOPIC, GROUP, CLUSTER)))
    assert altered(permitted, *asked, operation=9) == [invalid] * 4


@pytest.mark.parametrize(
    ("name", "value", "of_node", "of_all"),
    [
        ("log.cleaner.threads", "1", 31, 31),
        ("log.cleaner.threads", "x", 42, 42),
        ("num.partitions", "3", 42, 42),
        ("super.users", "x", 31, 31),  # Its authorizer's: of Kafka's broker it is none.
        ("retention.ms", "x", 31, 31),
        ("muster.history.topic", "x", 31, 31),
        ("ssl.client.auth", "required", 31, 42),
        ("ssl.client.auth", "x", 42, 42),
        ("ssl.engine.factory.class", "x", 42, 42),
        ("listeners", "x", 42, 42),
        ("listener.name.sasl.plain.sasl.jaas.config", "x", 31, 42),
        ("listener.name.sasl.connections.max.reauth.ms", "5", 31, 42),
        ("listener.name.sasl.plain.connections.max.reauth.ms", "x", 42, 42),
        ("listener.name.sasl.log.cleanup.policy", "x", 42, 42),
        ("listener.name.sasl.foo", "x", 31, 42),
        ("min.insync.replicas", "1", 31, 31),  # Kafka's controller refuses it, of one node.
    ],
)
def test_what_only_muster_refuses_of_the_broker_is_refused_behind_the_right(
    world: World, name: str, value: str, of_node: int, of_all: int
) -> None:
    """What Kafka refuses, too, comes before it."""
    config: list[tuple[str, str | None]] = [(name, value)]
    assert altered(Client(world), (BROKERS, "1", config), (BROKERS, "", config)) == [of_node, of_all]


@pytest.mark.parametrize("name", ["super.users", "ssl.client.auth", "listener.name.sasl.foo"])
def test_with_the_right_a_setting_without_effect_is_refused_by_its_name(world: World, name: str) -> None:
    client = Client(world, acl(OP.ALTER_CONFIGS, CLUSTER))
    assert altered(client, (BROKERS, "1", [(name, "required")])) == [ErrorCode.INVALID_REQUEST]
    assert world.registry.settings.dynamic.of_node == {}


def test_the_right_to_a_logger_is_looked_at_although_there_are_none(world: World) -> None:
    """By IncrementalAlterConfigs alone, as in Kafka, and behind the form."""
    level: list[tuple[str, str | None]] = [("kafka.server", "INFO")]
    logger, invalid = (LOGGERS, "1", level), ErrorCode.INVALID_REQUEST
    assert altered(Client(world), logger) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert altered(Client(world), (LOGGERS, "1", [*KEEP, *KEEP])) == [invalid]
    assert altered(Client(world, acl(OP.ALTER_CONFIGS, CLUSTER)), logger) == [invalid]
    configs = [AlterableConfig(name="kafka.server", value="INFO")]
    resource = AlterConfigsResource(resource_type=LOGGERS, resource_name="1", configs=configs)
    answer = Client(world).ask(AlterConfigsRequest(resources=[resource]), 2)
    assert answer.responses[0].error_code == invalid


def test_values_of_the_broker_are_looked_at_before_rights_and_change_nothing(world: World) -> None:
    client = Client(world)
    bad: list[tuple[str, str | None]] = [("log.retention.ms", "x")]
    good: list[tuple[str, str | None]] = [("log.retention.ms", "5000")]
    assert altered(client, (BROKERS, "", bad)) == [ErrorCode.INVALID_REQUEST]
    assert altered(client, (BROKERS, "", good)) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert world.registry.settings.dynamic.of_all == {}
    legacy = AlterConfigsResource(
        resource_type=BROKERS,
        resource_name="",
        configs=[AlterableConfig(name="log.retention.ms", value="5000")],
    )
    answer = client.ask(AlterConfigsRequest(resources=[legacy]), 2)
    assert answer.responses[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.registry.settings.dynamic.of_all == {}
    assert altered(Client(world, acl(OP.ALTER_CONFIGS, CLUSTER)), (BROKERS, "", good)) == [0]
    assert world.registry.settings.dynamic.of_all == {"log.retention.ms": "5000"}


# Pages of topics.


def page(client: Client, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
    topics = [DescribeTopicPartitionsRequestTopic(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    return client.ask(request, 0)


def test_topics_that_may_not_be_seen_take_no_room_on_a_page(world: World) -> None:
    world.topic("zoo", partitions=2)
    client = Client(world, acl(OP.DESCRIBE, TOPIC, "zoo"), acl(OP.DESCRIBE, TOPIC, "mine"))
    first = page(client, limit=3)
    assert [(each.name, len(each.partitions)) for each in first.topics] == [("mine", 2), ("zoo", 1)]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("zoo", 1)
    named = page(client, "zoo", "other", "absent")
    assert [(each.name, each.error_code, bytes(each.topic_id) == bytes(16)) for each in named.topics] == [
        ("zoo", 0, False),
        ("absent", HIDDEN, True),
        ("other", HIDDEN, True),
    ]


def test_topics_that_were_not_named_are_no_denials(world: World) -> None:
    """A21: who asks for all topics has asked for none that it may not see."""
    client = Client(world, acl(OP.DESCRIBE, TOPIC, "mine"))
    assert [each.name for each in page(client).topics] == ["mine"]
    assert not client.rights.denials.counts
    assert [each.error_code for each in page(client, "mine", "other").topics] == [0, HIDDEN]
    assert client.rights.denials.counts == {CLIENT: 1}


def test_a_cursors_form_is_looked_at_before_rights(world: World) -> None:
    client, malformed = Client(world), Cursor(topic_name="mine", partition_index=-1)
    assert [each.error_code for each in page(client, "mine", cursor=malformed).topics] == [
        ErrorCode.INVALID_REQUEST
    ]
    at_hidden = Cursor(topic_name="other", partition_index=0)
    # What comes before the cursor is not asked for; the cursor's own topic is refused, and is no bad request.
    found = page(client, "mine", "other", cursor=at_hidden)
    assert [(each.name, each.error_code) for each in found.topics] == [("other", HIDDEN)]


def test_kafkas_words_stand_where_a_topic_is_not_there(world: World) -> None:
    topics = [
        DescribeProducersTopicRequest(name=name, partition_indexes=[9])
        for name in ("absent", "no/name", "mine")
    ]
    answer = Client(world).ask(DescribeProducersRequest(topics=topics), 0)
    absent, invalid, partition = (topic.partitions[0].error_message for topic in answer.topics)
    assert absent == "This server does not host this topic-partition."
    assert invalid.startswith("Topic name is invalid: 'no/name' contains")
    assert partition is None
