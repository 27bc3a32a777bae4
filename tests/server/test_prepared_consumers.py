"""The prepared heartbeat of a consumer group's member shows what is durable, of the shard as it lives."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path
from typing import Any, cast

import pytest

from coordinator.server.prepared import Prepared
from harness.doubles.fake_pending import FakePending
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from storage.files import StorageError
from tests.server.joining import joining
from tests.server.shard_world import ShardWorld
from tests.server.test_prepared import CLIENT_ID, apis_of


def steady(epoch: int, member_id: str = "m") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)


def prepared(world: ShardWorld, request: ConsumerGroupHeartbeatRequest) -> Prepared | None:
    frame = encode_request(request, 1, 0, CLIENT_ID)
    return apis_of(world).prepare_consumer_heartbeat(request, 1, frame)


def test_it_is_answered_as_one_that_is_decoded_while_the_shard_lives() -> None:
    world = ShardWorld()
    epoch = world.answer(joining(), 1).member_epoch
    decoded = world.answer(steady(epoch), 1)
    found = prepared(world, steady(epoch))
    assert found is not None
    assert found.is_current()
    answer = found.answer(world.now_ms())
    assert answer is not None
    assert answer.message == decoded
    world.load()
    assert not found.is_current()
    assert found.answer(world.now_ms()) is None


def test_it_shows_nothing_that_is_not_durable() -> None:
    """Two owners of a partition would come out of a crash, one of them of an epoch that never was."""
    world = ShardWorld()
    asked = world.ask(joining(), 1)
    world.ask(steady(2), 1)
    found = prepared(world, steady(2))
    assert found is not None
    assert not found.is_current()
    assert found.answer(world.now_ms()) is None
    world.end_turn()
    world.end_flush()
    assert asked.answer.member_epoch == 2
    assert found.is_current()
    assert found.answer(world.now_ms()) is not None


def test_a_classic_heartbeat_is_prepared_no_longer_once_its_group_is_a_consumer_group() -> None:
    world = ShardWorld()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(request, 4, 0, CLIENT_ID)
    found = apis_of(world).prepare_heartbeat(request, 4, frame)
    assert found is not None
    assert found.is_current()
    world.answer(joining(), 1)
    assert not found.is_current()
    assert found.answer(world.now_ms()) is None
    assert apis_of(world).prepare_heartbeat(request, 4, frame) is None


@pytest.mark.parametrize("is_full", [False, True], ids=["loading", "no room"])
def test_fields_are_looked_at_before_the_shard_is(is_full: bool) -> None:
    """Whether or not it can be asked, so that a client does not repeat what is refused later (A2)."""
    world = ShardWorld()
    no_room = StorageError("write", Path("__consumer_offsets-0"), "No space left on device", ENOSPC)
    world.durable_log.fail(no_room)
    if is_full:
        world.read_shard(world.runner, cut_back=True)
    assert (world.runner.shard is None) is not is_full
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert asked(world, joining()).error_code == unavailable
    assert asked(world, joining(rebalance_timeout_ms=-1)).error_code == ErrorCode.INVALID_REQUEST
    refused = asked(world, joining(server_assignor="none"))
    assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert refused.error_message == (
        "ServerAssignor none is not supported. Supported assignors: uniform, range."
    )


def asked(world: ShardWorld, request: ConsumerGroupHeartbeatRequest) -> Any:
    pending = FakePending(1)
    apis_of(world).consumer_group_heartbeat(request, cast(Any, pending))
    return pending.answer


def test_what_is_answered_is_not_said_of_a_member_that_is_not_there() -> None:
    world = ShardWorld()
    assert prepared(world, steady(2)) is None
    assert world.answer(steady(2), 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
