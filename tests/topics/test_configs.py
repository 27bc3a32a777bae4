"""Topic settings and DescribeConfigs: names, ranges, words and sources as Kafka 4.3.1 has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import CHANGEABLE
from coordinator.topics.settings import TopicSettings
from coordinator.topics.topic_config import TOPIC_KEYS, default_text, topic_config
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.topics.world import World

SETTINGS = TopicSettings()

BAD = [
    ("retention.ms", "x", "Not a number of type LONG"),
    ("retention.ms", "", "Not a number of type LONG"),
    ("segment.bytes", "3000000000", "Not a number of type INT"),
    ("segment.bytes", "100", "Value must be at least 1048576"),
    ("cleanup.policy", "foo", "String must be one of: compact, delete"),
    ("compression.type", "br", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("message.timestamp.type", "x", "String must be one of: CreateTime, LogAppendTime"),
    ("preallocate", "yes", "Expected value to be either true or false"),
    ("min.insync.replicas", "0", "Value must be at least 1"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("compression.lz4.level", "99", "Value must be no more than 17"),
]


@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_a_bad_value_is_refused_in_kafkas_words(name: str, value: str, why: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        topic_config({name: value}, SETTINGS)
    assert str(refused.value) == f"Invalid value {value} for configuration {name}: {why}"


def test_other_refusals_have_kafkas_words_too() -> None:
    for overrides, words in (
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"min.cleanable.dirty.ratio": "2"}, "Invalid value 2.0 for configuration"),
        ({"leader.replication.throttled.replicas": "a"}, "Invalid value [a] for configuration"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker."),
    ):
        with pytest.raises(InvalidConfig) as refused:
            topic_config(overrides, SETTINGS)
        assert str(refused.value).startswith(words)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact, delete"),
        ("retention.ms", " 5 "),
        ("retention.bytes", "-5"),
        ("compression.type", "lz4"),
        ("leader.replication.throttled.replicas", "0:1,2:1"),
        ("follower.replication.throttled.replicas", "*"),
        ("preallocate", "TRUE"),
    ],
)
def test_what_kafka_takes_is_taken_and_shown_as_it_came(name: str, value: str) -> None:
    assert topic_config({name: value}, SETTINGS).text(name) == value


def test_every_default_is_in_its_own_range() -> None:
    config = topic_config({}, SETTINGS)
    for name in TOPIC_KEYS:
        assert topic_config({name: default_text(name, SETTINGS)}, SETTINGS).log == config.log


def test_the_log_is_kept_as_the_topic_says() -> None:
    config = topic_config(
        {"retention.ms": "5", "retention.bytes": "6", "segment.bytes": "1048576", "max.message.bytes": "7"},
        SETTINGS,
    )
    log = config.log
    assert (log.retention_ms, log.retention_bytes, log.segment_bytes, log.max_batch_bytes) == (
        5,
        6,
        1 << 20,
        7,
    )


def test_without_the_delete_policy_nothing_goes_by_age_or_size() -> None:
    config = topic_config(
        {"cleanup.policy": "compact", "retention.ms": "5", "retention.bytes": "6"}, SETTINGS
    )
    assert (config.log.retention_ms, config.log.retention_bytes) == (-1, -1)
    assert (config.is_compacted, config.is_deleting) == (True, False)


def test_what_compaction_goes_by(tmp_path: Path) -> None:
    settings = TopicSettings(
        log_cleaner_min_cleanable_ratio=0.25,
        log_cleaner_delete_retention_ms=5,
        log_cleaner_min_compaction_lag_ms=6,
        log_cleaner_max_compaction_lag_ms=700,
    )
    by_default = topic_config({"cleanup.policy": "compact,delete"}, settings).log
    assert by_default.is_compacted
    assert (by_default.min_cleanable_ratio, by_default.delete_retention_ms) == (0.25, 5)
    assert (by_default.min_compaction_lag_ms, by_default.max_compaction_lag_ms) == (6, 700)
    assert by_default.segment_ms == 700  # Else a record could stay in the active segment for longer.
    overrides = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.75",
        "delete.retention.ms": "50",
        "min.compaction.lag.ms": "60",
        "max.compaction.lag.ms": "70",
        "segment.ms": "8",
    }
    own = topic_config(overrides, settings).log
    assert (own.min_cleanable_ratio, own.delete_retention_ms) == (0.75, 50)
    assert (own.min_compaction_lag_ms, own.max_compaction_lag_ms, own.segment_ms) == (60, 70, 8)
    deleting = topic_config({}, settings).log
    assert (deleting.is_compacted, deleting.segment_ms) == (False, settings.log_roll_ms)


# DescribeConfigs.


def describe(world: World, kind: int, name: str, keys: list[str] | None = None, **fields: bool) -> Any:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    fields = {"include_synonyms": True, **fields}
    (result,) = world.ask(DescribeConfigsRequest(resources=[asked], **fields), 4).results
    return result


def test_a_topics_settings_and_where_they_come_from(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(log_retention_bytes=5))
    world.topic("t", retention_ms="77")
    result = describe(world, 2, "t")
    shown = {config.name: config for config in result.configs}
    assert len(shown) == 33
    described = {
        name: (
            config.value,
            config.config_source,
            [(each.name, each.value, each.source) for each in config.synonyms],
        )
        for name, config in shown.items()
    }
    assert described["retention.ms"] == ("77", 1, [("retention.ms", "77", 1)])
    assert described["retention.bytes"] == (
        "5",
        4,
        [("log.retention.bytes", "5", 4), ("log.retention.bytes", "-1", 5)],
    )
    assert described["cleanup.policy"] == ("delete", 5, [("log.cleanup.policy", "delete", 5)])
    assert described["flush.ms"] == ("9223372036854775807", 5, [])


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_are_all_keys(world: World, keys: list[str] | None) -> None:
    world.topic("t")
    assert len(describe(world, 2, "t", keys).configs) == 33


def test_keys_choose_and_unknown_ones_choose_nothing(world: World) -> None:
    world.topic("t")
    assert [config.name for config in describe(world, 2, "t", ["retention.ms", "nope"]).configs] == [
        "retention.ms"
    ]


def test_synonyms_are_described_only_if_asked_for(world: World) -> None:
    world.topic("t")
    result = describe(world, 2, "t", include_synonyms=False)
    assert all(config.synonyms == [] for config in result.configs)


def test_the_brokers_settings(tmp_path: Path) -> None:
    world = World(tmp_path, TopicSettings(num_partitions=6))
    shown = {config.name: config for config in describe(world, 4, "1").configs}
    assert (shown["num.partitions"].value, shown["num.partitions"].config_source) == ("6", 4)
    assert [(each.value, each.source) for each in shown["num.partitions"].synonyms] == [("6", 4), ("1", 5)]
    assert (shown["auto.create.topics.enable"].value, shown["auto.create.topics.enable"].config_type) == (
        "true",
        1,
    )
    assert (shown["broker.id"].value, shown["broker.id"].config_type) == ("1", 3)
    assert {
        name for name, config in shown.items() if not config.read_only
    } == shown.keys() & CHANGEABLE.keys()
    assert {"log.retention.ms", "message.max.bytes"} < CHANGEABLE.keys()


@pytest.mark.parametrize(
    ("kind", "name", "error", "words"),
    [
        (2, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (2, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (
            4,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (4, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (3, "x", ErrorCode.INVALID_REQUEST, ""),
    ],
)
def test_resources_that_are_not_there(world: World, kind: int, name: str, error: int, words: str) -> None:
    result = describe(world, kind, name)
    assert (result.error_code, result.configs) == (error, [])
    assert words in result.error_message


def test_the_whole_cluster_has_no_settings_of_its_own(world: World) -> None:
    result = describe(world, 4, "")
    assert (result.error_code, result.configs) == (0, [])


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_is_answered(world: World, version: int) -> None:
    world.topic("t")
    asked = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    assert len(world.ask(DescribeConfigsRequest(resources=[asked]), version).results[0].configs) == 33
