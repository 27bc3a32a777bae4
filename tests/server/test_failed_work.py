"""Work that fails for the one request that asked for it leaves its shard as it is, and is logged."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from coordinator.groups.consumer.assignors import ASSIGNORS
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.server.joining import joining
from tests.server.shard_world import ShardWorld
from tests.server.test_prepared_consumers import steady


def test_a_target_that_cannot_be_computed_is_logged_and_its_shard_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ShardWorld()
    other = world.answer(in_another_group(), 1).member_epoch
    shard = world.runner.shard
    with capture_logs() as logs, monkeypatch.context() as broken:
        broken.delitem(ASSIGNORS, "uniform")
        asked = world.ask(joining(), 1)
        world.settle()
    assert asked.answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(each["event"], each["log_level"]) for each in logs] == [("work for a request failed", "error")]
    assert isinstance(logs[0]["exc_info"], KeyError)
    assert world.runner.shard is shard
    request = steady(other)
    request.group_id = "other"
    assert world.answer(request, 1).error_code == ErrorCode.NONE


def in_another_group() -> ConsumerGroupHeartbeatRequest:
    request = joining()
    request.group_id = "other"
    return request
