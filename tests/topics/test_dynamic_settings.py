"""Settings of the daemon that may be changed while it runs: all that Kafka lets change, kept, shown, in force."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

import pytest

from coordinator.topics.broker_options import BROKER_OPTIONS
from coordinator.topics.dynamic_kinds import CHANGEABLE, ONLY_PER_NODE, THROTTLES, is_refused, overrides_of
from coordinator.topics.settings import TopicSettings
from harness.doubles.inline_workers import InlineWorkers
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_configs import (
    ConfigType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.topics.requests import produce
from tests.topics.world import World, batch, topic_of

T = TypeVar("T")
BROKER, TOPIC = 4, 2
SET, DELETE, APPEND = range(3)
NODE, ALL = "1", ""
DYNAMIC_NODE, DYNAMIC_ALL, STATIC, DEFAULT = 2, 3, 4, 5

OTHER_VALUES: Final = {
    "compression.type": "zstd",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "LogAppendTime",
    "max.connections.per.ip.overrides": "127.0.0.1:5",
    "metric.reporters": "",
    "principal.builder.class": BROKER_OPTIONS["principal.builder.class"].default or "",
    "cordoned.log.dirs": "",
    "group.coordinator.cached.buffer.max.bytes": "600000",
    "share.coordinator.cached.buffer.max.bytes": "600000",
    "log.segment.bytes": "2000000",
    "log.cleaner.dedupe.buffer.size": "9000000",
}
"""A value of each kind fits most settings; these need another."""


def other_value(name: str) -> str:
    option = BROKER_OPTIONS.get(name)
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if option is not None and option.type is ConfigType.BOOLEAN:
        return "false" if option.default == "true" else "true"
    if option is None or option.type in (ConfigType.LONG, ConfigType.DOUBLE, ConfigType.SHORT):
        return "1"
    return str(int(option.default or 1)) if option.type is ConfigType.INT else "other"


def change(world: World, scope: str, *settings: tuple[str, str | None]) -> tuple[int, str | None]:
    """Set each to its value, or delete it where that is None."""
    configs = [
        Operation(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in settings
    ]
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=scope, configs=configs)
    (answer,) = world.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def described(
    world: World, scope: str = NODE, kind: int = BROKER
) -> dict[str, DescribeConfigsResourceResult]:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=scope, configuration_keys=None)
    (result,) = world.ask(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4).results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def test_all_that_kafka_shows_is_shown_and_changes_if_it_does_there(world: World) -> None:
    shown = described(world)
    assert shown.keys() == BROKER_OPTIONS.keys()
    for name, option in BROKER_OPTIONS.items():
        assert shown[name].config_type == option.type, name
        assert shown[name].read_only == (not option.is_dynamic or is_refused(name)), name
        assert shown[name].is_sensitive == (option.type is ConfigType.PASSWORD), name


@pytest.mark.parametrize("name", sorted(CHANGEABLE))
def test_each_is_kept_over_a_restart_and_shown_with_its_source(tmp_path: Path, name: str) -> None:
    world, value = World(tmp_path), other_value(name)
    secret = CHANGEABLE[name].type is ConfigType.PASSWORD
    scope, source = (ALL, DYNAMIC_ALL) if name == "min.insync.replicas" else (NODE, DYNAMIC_NODE)
    assert change(world, scope, (name, value)) == (0, None)
    world = world.restart()
    shown = described(world)[name]
    assert (shown.value, shown.config_source) == (None if secret else value, source)
    first = shown.synonyms[0]
    assert (first.name, first.value, first.source) == (name, None if secret else value, source)
    assert not shown.read_only
    if name in ONLY_PER_NODE:
        words = f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
        assert change(world, ALL, (name, value)) == (ErrorCode.INVALID_REQUEST, words)
    else:
        assert change(world, ALL, (name, value)) == (0, None)
        assert described(world, ALL)[name].config_source == DYNAMIC_ALL
    assert change(world, scope, (name, None)) == (0, None)
    if name not in ONLY_PER_NODE:
        assert change(world, ALL, (name, None)) == (0, None)
    left = described(world.restart()).get(name)
    assert (left is None) == (name in THROTTLES)
    assert left is None or left.config_source == DEFAULT


@pytest.mark.parametrize(
    "name",
    [
        *("listeners", "advertised.listeners", "ssl.client.auth", "num.partitions"),
        *("listener.name.ext.ssl.client.auth", "listener.name.ext.num.network.threads", "listener.name.x"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(world: World, name: str) -> None:
    words = f"Cannot update these configs dynamically: [{name}]"
    for scope in (NODE, ALL):
        assert change(world, scope, (name, "1")) == (ErrorCode.INVALID_REQUEST, words)


def test_an_interval_of_consumer_groups_is_within_the_bounds_of_this_start(tmp_path: Path) -> None:
    own, least, most = (f"group.consumer.{end}assignment.interval.ms" for end in ("", "min.", "max."))
    given = TopicSettings(
        group_consumer_min_assignment_interval_ms=500, group_consumer_max_assignment_interval_ms=20_000
    )
    world = World(tmp_path, given)
    for value, words in (
        ("499", f"{own} must be greater than or equal to {least}"),
        ("20001", f"{own} must be less than or equal to {most}"),
    ):
        assert change(world, ALL, (own, value)) == (ErrorCode.INVALID_REQUEST, words)
    for value in ("500", "20000"):
        assert change(world, ALL, (own, value)) == (0, None)
        assert world.registry.settings.group_consumer_assignment_interval_ms == int(value)


BAD_STEP = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} "
    "for configuration Invalid dynamic configuration"
)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            [("num.io.threads", "3")],
            BAD_STEP.format(
                "Dynamic thread count update validation failed for num.io.threads=3, "
                "value should be at least half the current value 8"
            ),
        ),
        (
            [("num.io.threads", "17")],
            BAD_STEP.format(
                "Dynamic thread count update validation failed for num.io.threads=17, "
                "value should not be greater than double the current value 8"
            ),
        ),
        (
            [("log.cleaner.threads", "3")],
            BAD_STEP.format(
                "Log cleaner threads cannot be increased to more than double the current value 1"
            ),
        ),
        ([("log.cleaner.threads", "0")], "/ by zero"),
        (
            [("log.cleaner.threads", "65")],
            "Invalid value 65 for configuration log.cleaner.threads: Value must be no more than 64",
        ),
        (
            [("log.cleaner.dedupe.buffer.size", "1048576")],
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        ([("max.connections", "0")], BAD_STEP.format("Invalid max.connections 0")),
        (
            [("max.connections.per.ip", "0")],
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set.",
        ),
        (
            [("max.connections.per.ip.overrides", "x")],
            "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 1",
        ),
        (
            [("log.retention.ms", "0")],
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            [("log.retention.ms", "5"), ("log.local.retention.ms", "6")],
            BAD_STEP.format(
                "Invalid value 6 for configuration log.local.retention.ms: "
                "Value must not be more than log.retention.ms property value: 5"
            ),
        ),
        (
            [("group.consumer.assignment.interval.ms", "15001")],
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            [("cordoned.log.dirs", "/elsewhere")],
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            "Missing entries : /elsewhere",
        ),
        (
            [("cordoned.log.dirs", "*,/elsewhere")],
            "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values",
        ),
        (
            [("principal.builder.class", "x")],
            "Invalid value x for configuration principal.builder.class: Class x could not be found.",
        ),
        (
            [("sasl.login.refresh.min.period.seconds", "32768")],
            "Invalid value 32768 for configuration sasl.login.refresh.min.period.seconds: "
            "Not a number of type SHORT",
        ),
        (
            [("log.cleaner.io.buffer.load.factor", "1_0")],
            "Invalid value 1_0 for configuration log.cleaner.io.buffer.load.factor: Not a number of type DOUBLE",
        ),
    ],
    ids=lambda given: given[0][0] if isinstance(given, list) else "",
)
def test_values_that_cannot_be_are_refused_in_kafkas_words(
    world: World, settings: list[tuple[str, str | None]], words: str
) -> None:
    assert change(world, NODE, *settings) == (ErrorCode.INVALID_REQUEST, words)
    assert all(config.config_source in (STATIC, DEFAULT) for config in described(world).values())


def test_a_list_cannot_be_appended_to_for_ever(world: World) -> None:
    def appended(value: str) -> tuple[int, str | None]:
        configs = [Operation(name="config.providers", config_operation=APPEND, value=value)]
        resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=NODE, configs=configs)
        (answer,) = world.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return answer.error_code, answer.error_message

    assert appended("a" * 30_000) == (0, None)
    words = "The value of config.providers is longer than 32767 bytes."
    assert appended("\u00e9" * 1_400) == (ErrorCode.INVALID_REQUEST, words)
    assert described(world.restart())["config.providers"].value == "a" * 30_000


def test_rules_of_steps_are_not_asked_again_at_a_start(tmp_path: Path) -> None:
    """Two threads, then four; the start meets four where the properties say one."""
    world = World(tmp_path)
    for threads in ("2", "4"):
        assert change(world, NODE, ("log.cleaner.threads", threads)) == (0, None)
    assert world.restart().registry.settings.log_cleaner_threads == 4


def test_a_topic_shows_a_default_that_was_changed_whether_it_does_anything_or_not(world: World) -> None:
    world.topic("t")
    assert change(world, ALL, ("compression.type", "zstd"), ("log.flush.interval.ms", "7")) == (0, None)
    shown = described(world, "t", TOPIC)
    assert (shown["compression.type"].value, shown["compression.type"].config_source) == ("zstd", DYNAMIC_ALL)
    assert [each.value for each in shown["compression.type"].synonyms] == ["zstd", "producer"]
    assert (shown["flush.ms"].value, shown["flush.ms"].config_source) == ("7", DYNAMIC_ALL)


def test_a_negative_default_is_none_where_a_topic_may_not_have_it(world: World) -> None:
    world.topic("t")
    assert change(world, ALL, ("log.flush.interval.ms", "-1"), ("log.retention.ms", "-2")) == (0, None)
    shown = described(world, "t", TOPIC)
    assert (shown["flush.ms"].value, shown["retention.ms"].value) == (str(2**63 - 1), "-1")
    assert world.restart().registry.settings.log_retention_ms == -1


def test_how_often_a_log_is_synced_follows_the_broker_and_the_topic_at_once(world: World) -> None:
    world.topic("t")
    partition = world.registry.partition("t", 0)
    assert partition is not None
    log = partition.log
    assert change(world, ALL, ("log.flush.interval.messages", "2"), ("log.flush.interval.ms", "9")) == (
        0,
        None,
    )
    assert (log.config.flush_messages, log.config.flush_ms) == (2, 9)
    produce(world, batch(b"a"))
    assert (log.durable_offset, log.recovery_point) == (1, 0)
    produce(world, batch(b"b"))
    assert log.recovery_point == 2
    own = [Operation(name="flush.messages", config_operation=SET, value="1")]
    resource = IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=own)
    assert world.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
    produce(world, batch(b"c"))
    assert log.recovery_point == 3


class Hurried(World):
    """Its worker goes on to the next piece of work before the loop has heard of the last, as a thread may."""

    def submit(self, work: Callable[[], T], done: Callable[[Future[T]], None]) -> None:
        def later(worked: Future[T]) -> None:
            self.queue.append(lambda: done(worked))

        self.queue.append(lambda: InlineWorkers().submit(work, later))


def test_partitions_that_are_added_while_a_default_changes_follow_it_as_well(tmp_path: Path) -> None:
    """The worker opens their logs by the settings of before: the loop has not heard of the change yet."""
    world = Hurried(tmp_path)
    world.topic("t")
    own = Operation(name="log.flush.interval.messages", config_operation=SET, value="2")
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=ALL, configs=[own])
    altered = world.start(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    wider = CreatePartitionsTopic(name="t", count=3, assignments=None)
    grown = world.start(CreatePartitionsRequest(topics=[wider], timeout_ms=1), 3)
    world.settle()
    assert (altered.answer.responses[0].error_code, grown.answer.results[0].error_code) == (0, 0)
    for index in range(3):
        produce(world, batch(b"a"), partition=index)
        produce(world, batch(b"b"), partition=index)
    assert [each.log.recovery_point for each in topic_of(world, "t").partitions] == [2, 2, 2]


def test_those_who_follow_the_settings_hear_of_a_change_once_it_is_kept(world: World) -> None:
    heard: list[TopicSettings] = []
    world.registry.on_altered.append(heard.append)
    assert change(world, NODE, ("max.connections", "x"))[0] == ErrorCode.INVALID_REQUEST
    assert heard == []
    assert change(world, NODE, ("max.connections", "77"), ("num.io.threads", "9")) == (0, None)
    assert [settings.max_connections for settings in heard] == [77]


def is_cordoned(world: World) -> bool:
    """What DescribeLogDirs says of the one directory."""
    (result,) = world.ask(DescribeLogDirsRequest(topics=None), 5).results
    return bool(result.is_cordoned)


def test_a_cordoned_directory_takes_only_what_is_assigned_to_it(world: World) -> None:
    world.topic("t")
    assert change(world, NODE, ("cordoned.log.dirs", world.registry.log_directory)) == (0, None)

    def created(topic: CreatableTopic) -> int:
        return int(world.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code)

    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert is_cordoned(world)
    assert created(CreatableTopic(name="new", num_partitions=1, replication_factor=1)) == refused
    more = CreatePartitionsTopic(name="t", count=2, assignments=None)
    assert (
        world.ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3).results[0].error_code == refused
    )
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    assert [world.ask(asked, 12).topics[0].error_code for _ in range(2)] == [3, 3]
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    assert (
        created(CreatableTopic(name="placed", num_partitions=-1, replication_factor=-1, assignments=placed))
        == 0
    )
    assert change(world, NODE, ("cordoned.log.dirs", "*")) == (0, None)
    assert created(CreatableTopic(name="new", num_partitions=1, replication_factor=1)) == refused
    assert change(world, NODE, ("cordoned.log.dirs", None)) == (0, None)
    assert not is_cordoned(world)
    assert created(CreatableTopic(name="new", num_partitions=1, replication_factor=1)) == 0


def test_a_directory_that_is_cordoned_in_a_file_can_be_opened_at_run_time(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(cordoned_log_dirs="*"))
    new = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    assert world.ask(new, 7).topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert change(world, NODE, ("cordoned.log.dirs", "")) == (0, None)
    assert world.ask(new, 7).topics[0].error_code == ErrorCode.NONE


def test_connections_of_single_addresses() -> None:
    assert overrides_of("127.0.0.1:5, ::1:7,,h:0") == {"127.0.0.1": 5, "::1": 7, "h": 0}
