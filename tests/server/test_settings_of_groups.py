"""Settings of single groups, over the wire: in force at the next heartbeat, and after a kill with other bounds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.settings.model import Settings
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.server.joining import joining
from tests.server.test_settings_arrive import own_values, started

BROKER, GROUP = 4, 32
SET, DELETE = 0, 1
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
BEAT = "consumer.heartbeat.interval.ms"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        yield daemon


def change(client: WireClient, kind: int, resource: str, name: str, value: str | None) -> None:
    operation = Operation(name=name, config_operation=DELETE if value is None else SET, value=value)
    asked = IncrementalAlterConfigsResource(resource_type=kind, resource_name=resource, configs=[operation])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[asked]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def beat(client: WireClient, member_id: str, epoch: int = 0) -> ConsumerGroupHeartbeatResponse:
    """Send a heartbeat of a member of group "g" that says all of itself; wait while its shard is loading."""
    request = joining(member_id, member_epoch=epoch, subscribed_topic_names=["t"])

    def answer() -> Any:
        answer = client.ask(request, 1)
        return None if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else answer

    found: ConsumerGroupHeartbeatResponse = wait_until(answer, "the shard is loaded", 10)
    assert found.error_code == ErrorCode.NONE, found.error_message
    return found


def test_what_is_set_for_a_group_counts_from_its_next_heartbeat_on_and_after_a_kill(
    daemon: MusterDaemon,
) -> None:
    with WireClient(daemon.bootstrap) as client:
        epoch = beat(client, "m").member_epoch
        change(client, GROUP, "g", BEAT, "6000")
        change(client, GROUP, "other", BEAT, "7000")
        assert beat(client, "m", epoch).heartbeat_interval_ms == 6_000
    daemon.kill()
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        assert beat(client, "m", epoch).heartbeat_interval_ms == 6_000
        change(client, GROUP, "g", BEAT, None)
        assert beat(client, "m", epoch).heartbeat_interval_ms == 5_000


def test_the_bounds_of_a_later_start_count_for_what_was_set_before(daemon: MusterDaemon) -> None:
    with WireClient(daemon.bootstrap) as client:
        change(client, GROUP, "g", BEAT, "7000")
    assert daemon.terminate() == 0
    daemon.overrides["group.consumer.max.heartbeat.interval.ms"] = "6500"
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        assert beat(client, "m").heartbeat_interval_ms == 6_500
        asked = DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=[BEAT])
        (result,) = client.ask(DescribeConfigsRequest(resources=[asked]), 4).results
        assert [config.value for config in result.configs] == ["7000"]


@pytest.mark.parametrize(
    ("kind", "resource", "name"),
    [
        (BROKER, "", "group.consumer.assignment.interval.ms"),
        (BROKER, "1", "group.consumer.assignment.interval.ms"),
        (GROUP, "g", "consumer.assignment.interval.ms"),
    ],
)
def test_an_interval_that_is_set_while_the_daemon_runs_counts_at_once(
    tmp_path: Path, kind: int, resource: str, name: str
) -> None:
    """Two members join within an interval that nothing would wait out: the second gets nothing until it is 0."""
    settings = {
        **SETTINGS,
        "group.consumer.max.assignment.interval.ms": "10000000",
        "group.consumer.assignment.interval.ms": "10000000",
    }
    with MusterDaemon(tmp_path, settings) as daemon, WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
        first, second = beat(client, "a").member_epoch, beat(client, "b").member_epoch
        assert beat(client, "a", first).member_epoch == first
        change(client, kind, resource, name, "0")
        beat(client, "b", second)  # The target is computed with it.
        assert beat(client, "a", first).member_epoch > first


async def test_a_stop_answers_changes_that_wait_for_one_that_is_being_written(tmp_path: Path) -> None:
    settings = Settings(**own_values(tmp_path / "logs"))
    outcomes: list[ErrorCode] = []
    async with started(settings) as daemon:
        for group_id in ("g", "h", "i"):
            daemon.registry.groups.alter(group_id, {BEAT: "6000"}, outcomes.append)
        assert outcomes == []
    assert outcomes == [ErrorCode.NONE] * 3
    async with started(settings) as daemon:
        assert daemon.registry.groups.all().keys() == {"g", "h", "i"}
