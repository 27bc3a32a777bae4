"""AlterConfigs and IncrementalAlterConfigs: what changes, what is in force at once, what is refused and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.dynamic_settings import FILE_NAME
from coordinator.topics.settings import TopicSettings
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResource as OperationsOnResource,
)
from storage.files import StorageError
from tests.topics.requests import fetch, produce
from tests.topics.world import World, batch, topic_of

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def change(
    world: World,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    version: int = 1,
    **fields: bool,
) -> tuple[int, str | None]:
    """Error and words of an incremental change: (setting, operation, value)."""
    configs = [Operation(name=key, config_operation=what, value=value) for key, what, value in operations]
    asked = OperationsOnResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = world.ask(IncrementalAlterConfigsRequest(resources=[asked], **fields), version).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message


def replace(
    world: World, kind: int, name: str, version: int = 2, **values: str | None
) -> tuple[int, str | None]:
    """Error and words of a change of everything; names with '_' for '.'."""
    configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    asked = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (answer,) = world.ask(AlterConfigsRequest(resources=[asked]), version).responses
    return answer.error_code, answer.error_message


def shown(world: World, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[str, str, int]]]:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    (config,) = world.ask(request, 4).results[0].configs
    return config.value, config.config_source, [(s.name, s.value, s.source) for s in config.synonyms]


@pytest.mark.parametrize("version", range(2))
def test_a_topics_setting_is_set_and_taken_back(world: World, version: int) -> None:
    world.topic("t", retention_ms="77")
    assert change(world, TOPIC, "t", ("retention.bytes", SET, "5"), version=version) == (0, None)
    assert shown(world, TOPIC, "t", "retention.bytes")[:2] == ("5", 1)
    assert shown(world, TOPIC, "t", "retention.ms")[:2] == ("77", 1)
    change(
        world, TOPIC, "t", ("retention.bytes", DELETE, None), ("retention.ms", DELETE, "77"), version=version
    )
    assert shown(world, TOPIC, "t", "retention.bytes")[:2] == ("-1", 5)
    assert shown(world, TOPIC, "t", "retention.ms") == ("604800000", 5, [])


@pytest.mark.parametrize("version", range(3))
def test_a_replacement_takes_back_what_it_does_not_name(world: World, version: int) -> None:
    world.topic("t", retention_ms="77")
    assert replace(world, TOPIC, "t", version, segment_bytes="2000000") == (0, None)
    assert shown(world, TOPIC, "t", "segment.bytes")[:2] == ("2000000", 1)
    assert shown(world, TOPIC, "t", "retention.ms")[:2] == ("604800000", 5)


def test_lists_grow_and_shrink(world: World) -> None:
    world.topic("t")
    for operation, value, after in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ]:
        assert change(world, TOPIC, "t", ("cleanup.policy", operation, value)) == (0, None)
        assert shown(world, TOPIC, "t", "cleanup.policy")[0] == after


def test_a_change_is_in_force_on_open_logs_at_once(world: World) -> None:
    world.topic("t")
    assert produce(world, batch(b"x" * 2000, at_ms=world.wall)).error_code == 0
    change(
        world,
        TOPIC,
        "t",
        ("max.message.bytes", SET, "1000"),
        ("message.timestamp.type", SET, "LogAppendTime"),
    )
    assert produce(world, batch(b"x" * 2000, at_ms=5)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(world, batch(b"y", at_ms=5)).log_append_time_ms == world.wall
    change(
        world,
        TOPIC,
        "t",
        ("message.timestamp.type", DELETE, None),
        ("message.timestamp.before.max.ms", SET, "1"),
    )
    assert produce(world, batch(b"y", at_ms=5)).error_code == ErrorCode.INVALID_TIMESTAMP
    change(world, TOPIC, "t", ("retention.ms", SET, "10"), ("cleanup.policy", SET, "compact,delete"))
    log = topic_of(world, "t").partitions[0].log
    assert log.config.is_compacted
    world.pass_time(100)
    assert log.apply_retention(world.wall) == 1
    assert fetch(world).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_partitions_that_are_added_go_by_the_settings_too(world: World) -> None:
    world.topic("t")
    change(world, TOPIC, "t", ("segment.bytes", SET, "2000000"))
    topic = world.registry.get("t")
    assert topic is not None
    world.registry.grow(topic, 2, lambda _: None)
    world.settle()
    assert [each.log.config.segment_bytes for each in topic.partitions] == [2_000_000] * 2


def test_a_change_lasts_over_a_restart(world: World) -> None:
    world.topic("t")
    change(world, TOPIC, "t", ("retention.ms", SET, "77"))
    change(world, BROKER, "", ("log.retention.bytes", SET, "5"))
    again = world.restart()
    assert shown(again, TOPIC, "t", "retention.ms")[:2] == ("77", 1)
    assert shown(again, TOPIC, "t", "retention.bytes")[:2] == ("5", 3)


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_what_is_only_checked_changes_nothing(world: World, kind: int) -> None:
    world.topic("t")
    name, key = ("t", "retention.ms") if kind == TOPIC else ("1", "log.retention.ms")
    assert change(world, kind, name, (key, SET, "5"), validate_only=True) == (0, None)
    assert shown(world, TOPIC, "t", "retention.ms")[:2] == ("604800000", 5)
    assert change(world, kind, name, (key, SET, "x"), validate_only=True)[0] != 0


@pytest.mark.parametrize(
    ("name", "operations", "error", "words"),
    [
        ("t", [("foo", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (
            "t",
            [("foo", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key foo because its type is not LIST.",
        ),
        (
            "t",
            [("retention.ms", SUBTRACT, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key retention.ms",
        ),
        (
            "t",
            [("cleanup.policy", APPEND, "foo")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value foo for configuration",
        ),
        (
            "t",
            [("retention.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            "t",
            [("retention.ms", SET, "1")] * 2,
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ("t", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (
            "nope",
            [("retention.ms", SET, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nope' does not exist.",
        ),
        ("nope", [("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "Invalid value x for configuration"),
        ("a b", [], ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b'"),
        ("", [], ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            "__consumer_offsets",
            [("cleanup.policy", SET, "delete"), ("segment.ms", SET, "60000")],
            ErrorCode.POLICY_VIOLATION,
            "its settings cannot be changed: cleanup.policy",
        ),
    ],
)
def test_topics_refusals(
    world: World, name: str, operations: list[tuple[str, int, str | None]], error: int, words: str
) -> None:
    world.topic("t")
    world.topic("__consumer_offsets", cleanup_policy="compact")
    code, message = change(world, TOPIC, name, *operations)
    assert (code, words in (message or "")) == (error, True), message
    assert topic_of(world, "t").config.overrides == {}


def test_how_internal_topics_are_cleaned_may_be_changed(world: World) -> None:
    world.topic("__consumer_offsets", cleanup_policy="compact")
    operation = ("min.cleanable.dirty.ratio", SET, "0.1")
    assert change(world, TOPIC, "__consumer_offsets", operation) == (0, None)
    assert shown(world, TOPIC, "__consumer_offsets", "min.cleanable.dirty.ratio")[0] == "0.1"
    assert replace(world, TOPIC, "__consumer_offsets")[0] == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("kind", [0, 3, LOGGER, 99])
def test_what_has_no_settings_here_is_refused(world: World, kind: int) -> None:
    for answer in (change(world, kind, "1", ("a", SET, "b")), replace(world, kind, "1", a="b")):
        assert answer == (ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def test_a_resource_named_twice_is_refused_and_the_others_are_changed(world: World) -> None:
    world.topic("t")
    world.topic("u")
    retention = [AlterableConfig(name="retention.ms", value="7")]
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name=n, configs=retention) for n in "tut"]
    answers = world.ask(AlterConfigsRequest(resources=resources), 2).responses
    assert [answer.error_code for answer in answers] == [
        ErrorCode.INVALID_REQUEST,
        0,
        ErrorCode.INVALID_REQUEST,
    ]
    assert shown(world, TOPIC, "u", "retention.ms")[0] == "7"
    assert shown(world, TOPIC, "t", "retention.ms")[0] == "604800000"


def test_changes_of_one_topic_follow_each_other(world: World) -> None:
    """Both arrive before the disk has done anything, and the second builds on the first."""
    world.topic("t")
    requests = [
        IncrementalAlterConfigsRequest(
            resources=[
                OperationsOnResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[Operation(name="cleanup.policy", config_operation=what, value=value)],
                )
            ]
        )
        for what, value in ((APPEND, "compact"), (SUBTRACT, "delete"))
    ]
    waiting = [world.start(request, 1) for request in requests]
    world.settle()
    assert [each.answer.responses[0].error_code for each in waiting] == [0, 0]
    assert shown(world, TOPIC, "t", "cleanup.policy")[0] == "compact"


def test_a_topic_that_goes_meanwhile_is_unknown(world: World) -> None:
    world.topic("t")
    world.start(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
    error, _ = change(world, TOPIC, "t", ("retention.ms", SET, "1"))
    assert error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("kind", "name", "key"), [(TOPIC, "t", "retention.ms"), (BROKER, "1", "log.retention.ms")]
)
def test_what_cannot_be_written_is_not_in_force(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: int, name: str, key: str
) -> None:
    world.topic("t")

    def refuse(*arguments: Any, **options: Any) -> None:
        raise StorageError("write", world.directory, "no")

    monkeypatch.setattr(world.files, "write_atomically", refuse)
    assert change(world, kind, name, (key, SET, "5"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert shown(world, TOPIC, "t", "retention.ms")[0] == "604800000"


# The daemon's own.


def test_the_daemons_values_stand_in_their_order(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(log_retention_bytes=3))
    world.topic("t")
    world.topic("own", retention_bytes="9")
    change(world, BROKER, "", ("log.retention.bytes", SET, "4"))
    change(world, BROKER, "1", ("log.retention.bytes", SET, "5"))
    layers = [
        ("log.retention.bytes", text, source) for text, source in (("5", 2), ("4", 3), ("3", 4), ("-1", 5))
    ]
    assert shown(world, BROKER, "1", "log.retention.bytes") == ("5", 2, layers)
    assert shown(world, BROKER, "", "log.retention.bytes") == ("4", 3, layers[1:2])
    assert shown(world, TOPIC, "t", "retention.bytes") == ("5", 2, layers)
    assert shown(world, TOPIC, "own", "retention.bytes") == ("9", 1, [("retention.bytes", "9", 1), *layers])
    for name, left in (("1", layers[1:]), ("", layers[2:])):
        assert replace(world, BROKER, name) == (0, None)
        assert shown(world, TOPIC, "t", "retention.bytes")[2] == left


def test_a_default_in_older_units_is_described_last(world: World) -> None:
    world.topic("t")
    change(world, BROKER, "", ("log.retention.ms", SET, "777777"))
    hours = ("log.retention.hours", "168", 5)
    assert shown(world, TOPIC, "t", "retention.ms") == (
        "777777",
        3,
        [("log.retention.ms", "777777", 3), hours],
    )


def test_the_daemons_changes_are_in_force_on_open_logs_at_once(world: World) -> None:
    world.topic("t", partitions=2)
    change(world, BROKER, "", ("log.retention.ms", SET, "60000"))
    logs = [partition.log for partition in topic_of(world, "t").partitions]
    assert [log.config.retention_ms for log in logs] == [60_000, 60_000]


def test_the_daemons_changes_are_in_force_at_once(world: World) -> None:
    world.topic("t")
    change(world, BROKER, "", ("message.max.bytes", SET, "1000"), ("producer.id.expiration.ms", SET, "60000"))
    assert produce(world, batch(b"x" * 2000, at_ms=world.wall)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert world.registry.settings.producer_id_expiration_ms == 60_000
    change(world, BROKER, "", ("log.cleanup.policy", APPEND, "compact"))
    world.topic("made-after")
    assert topic_of(world, "made-after").config.is_compacted


@pytest.mark.parametrize(
    ("name", "operations", "error", "words"),
    [
        ("2", [], ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
        ("x", [], ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        *(
            (
                "",
                [(key, SET, "5")],
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs dynamically: [{key}]",
            )
            for key in (
                "num.partitions",
                "listeners",
                "log.retention.hours",
                "node.id",
                "foo",
                "ssl.client.auth",
                "listener.security.protocol.map",
            )
        ),
        (
            "1",
            [("ssl.keystore.location", SET, "5")],
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        (
            "1",
            [("log.retention.ms", SET, "x")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            "1",
            [("min.insync.replicas", SET, "1")],
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            "1",
            [("log.segment.bytes", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            "1",
            [("log.retention.ms", APPEND, "5")],
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        ("1", [("foo", SUBTRACT, "5")], ErrorCode.INVALID_CONFIG, "Unknown config name: foo"),
        (
            "1",
            [
                ("log.cleaner.min.compaction.lag.ms", SET, "50"),
                ("log.cleaner.max.compaction.lag.ms", SET, "40"),
            ],
            ErrorCode.INVALID_REQUEST,
            "conflict topic config setting min.compaction.lag.ms (50) > max.compaction.lag.ms (40)",
        ),
    ],
)
def test_the_daemons_refusals(
    world: World, name: str, operations: list[tuple[str, int, str | None]], error: int, words: str
) -> None:
    assert change(world, BROKER, name, *operations) == (error, words)
    assert not (world.directory / FILE_NAME).exists()


def test_a_default_that_some_topic_cannot_have_is_refused(world: World) -> None:
    world.topic("t", max_compaction_lag_ms="40")
    error, words = change(world, BROKER, "", ("log.cleaner.min.compaction.lag.ms", SET, "50"))
    assert error == ErrorCode.INVALID_REQUEST
    assert words is not None
    assert words.startswith("conflict topic config setting min.compaction.lag.ms (50)")


def test_a_damaged_file_of_dynamic_settings_is_no_empty_one(world: World) -> None:
    change(world, BROKER, "", ("log.retention.bytes", SET, "5"))
    world.settle()
    assert world.logs.close() == []
    path = world.directory / FILE_NAME
    path.write_text(path.read_text().replace('"5"', '"6"'))
    with pytest.raises(StorageError, match="checksum"):
        World(world.directory)
