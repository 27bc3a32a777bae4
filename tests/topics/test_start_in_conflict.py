"""What was set at run time meets other settings at the next start: it starts, as Kafka does, and names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_settings import FILE_NAME
from coordinator.topics.settings import TopicSettings
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.topics.world import World

BROKER, NODE = 4, "1"
SET, DELETE = 0, 1
LEAST: Final = "log.cleaner.min.compaction.lag.ms"
CONFLICT: Final = "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)"


def change(world: World, name: str, value: str | None) -> tuple[int, str | None]:
    """Set a setting of the node, or delete it where `value` is None."""
    operation = Operation(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = IncrementalAlterConfigsResource(resource_type=BROKER, resource_name=NODE, configs=[operation])
    (answer,) = world.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def created(world: World, name: str, **configs: str) -> tuple[int, str | None]:
    asked = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=asked)
    (answer,) = world.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    return answer.error_code, answer.error_message


def started_again(world: World, **settings: int | str) -> tuple[World, list[str]]:
    """The next daemon on the directory, with other settings, and what its log says at ERROR."""
    world.settle()
    assert world.logs.close() == []
    with capture_logs() as lines:
        following = World(world.directory, replace(world.settings, **settings))  # type: ignore[arg-type]
    return following, [" ".join(map(str, line.values())) for line in lines if line["log_level"] == "error"]


@pytest.fixture
def in_conflict(tmp_path: Path) -> World:
    """100 ms at least were set at run time; 50 at most are given at the start."""
    world = World(tmp_path)
    world.topic("own", min_compaction_lag_ms="100", cleanup_policy="compact")
    world.topic("plain")
    assert change(world, LEAST, "100") == (0, None)
    world, errors = started_again(world, log_cleaner_max_compaction_lag_ms=50)
    least, most = f"{LEAST}=100", "log.cleaner.max.compaction.lag.ms=50"
    (settings,) = [line for line in errors if least in line]
    assert f"{least} (set at run time, in {FILE_NAME}) is above {most} (given at the start)" in settings
    assert str(tmp_path / FILE_NAME) in settings
    (topic,) = [line for line in errors if line != settings]
    assert "own" in topic
    assert CONFLICT in topic
    return world


def test_a_start_in_conflict_has_all_its_topics_and_both_settings_in_force(in_conflict: World) -> None:
    for name in ("own", "plain"):
        partition = in_conflict.registry.partition(name, 0)
        assert partition is not None
        lags = partition.log.config
        assert (lags.min_compaction_lag_ms, lags.max_compaction_lag_ms) == (100, 50)
    internal = in_conflict.registry.internal("__own", 1, {"cleanup.policy": "compact"})
    assert internal.config.log.min_compaction_lag_ms == 100


def test_in_conflict_only_topics_with_settings_of_their_own_are_refused(in_conflict: World) -> None:
    assert created(in_conflict, "without") == (0, None)
    assert created(in_conflict, "with", retention_ms="5") == (ErrorCode.INVALID_CONFIG, CONFLICT)


def test_a_conflict_of_a_start_ends_by_a_change_and_hinders_no_other(in_conflict: World) -> None:
    world = in_conflict
    assert change(world, "max.connections", "77") == (0, None)
    worse = CONFLICT.replace("100", "200")
    assert change(world, LEAST, "200") == (ErrorCode.INVALID_REQUEST, worse)
    assert change(world, LEAST, None) == (0, None)
    partition = world.registry.partition("plain", 0)
    assert partition is not None
    assert partition.log.config.min_compaction_lag_ms == 0
    assert created(world, "with", retention_ms="5") == (0, None)


def test_a_start_that_would_let_no_client_in_is_refused_with_both_settings_and_the_file(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, TopicSettings(max_connections_per_ip_overrides="127.0.0.1:5"))
    assert change(world, "max.connections.per.ip", "0") == (0, None)
    with pytest.raises(InvalidConfig) as refused:
        started_again(world, max_connections_per_ip_overrides="")
    sentence = str(refused.value)
    assert sentence.startswith(f"{tmp_path / FILE_NAME}: max.connections.per.ip can be set to zero only if ")
    assert "max.connections.per.ip.overrides" in sentence
