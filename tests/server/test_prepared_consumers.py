"""The prepared heartbeat of a consumer group's member shows what is durable, of the shard as it lives."""

from __future__ import annotations

from typing import Any

from coordinator.server.prepared import Prepared
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from tests.server.shard_world import ShardWorld
from tests.server.test_prepared import CLIENT_ID, apis_of


def joining(member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    given: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    } | fields
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=0, **given)


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


def test_what_is_answered_is_not_said_of_a_member_that_is_not_there() -> None:
    world = ShardWorld()
    assert prepared(world, steady(2)) is None
    assert world.answer(steady(2), 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
