"""A shard whose disk is full stands still: writes are refused up front, and nothing is forgotten meanwhile."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.classic.states import EMPTY, STABLE
from coordinator.groups.classic.timers import OffsetExpiryTimer
from coordinator.runtime.group_shards import MAY_WRITE
from coordinator.shard.shard import COLLECTORS, HANDLERS, Shard
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.batch import parse_header
from storage.files import StorageError
from tests.server.asking import GROUP, TOPIC, commit, committed, fetch, fetched
from tests.server.joining import SESSION_MS, beat, join, leave, sync
from tests.server.shard_world import ShardWorld

FULL = StorageError("write", Path("__consumer_offsets-0"), "No space left on device", errno.ENOSPC)
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def world() -> ShardWorld:
    """A shard with one commit and one group of one member, whose disk has just been found full."""
    world = ShardWorld()
    assert committed(world.answer(commit(1), 8)) == 0
    world.joined = world.answer(join(), 3)  # type: ignore[attr-defined]
    world.answer(sync(world.joined), 4)  # type: ignore[attr-defined]
    asker = world.ask(commit(2), 8)
    world.end_turn()
    world.end_flush(FULL)
    assert committed(asker.answer) == UNAVAILABLE
    assert (world.reloads, world.no_room) == (1, [FULL])
    world.load()
    return world


def shard_of(world: ShardWorld) -> Shard:
    assert world.runner.shard is not None
    return world.runner.shard


def test_writes_are_refused_up_front_without_a_trace(world: ShardWorld) -> None:
    """No state applied, nothing gathered, no flush, no reload: however often a client tries."""
    joined = world.joined  # type: ignore[attr-defined]
    shard = shard_of(world)
    before = (dict(shard.stored), list(shard.groups), len(world.history))
    for _ in range(100):
        assert committed(world.ask(commit(3), 8).answer) == UNAVAILABLE
        assert world.ask(join(group_id="new"), 3).answer.error_code == UNAVAILABLE
        assert world.ask(join(joined.member_id), 3).answer.error_code == UNAVAILABLE
        assert world.ask(leave(joined.member_id), 4).answer.error_code == UNAVAILABLE
        deleted = world.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2).answer
        assert deleted.results[0].error_code == UNAVAILABLE
        assert world.ask(OffsetDeleteRequest(group_id=GROUP, topics=[]), 0).answer.error_code == UNAVAILABLE
    world.end_turn()
    assert (dict(shard.stored), list(shard.groups), len(world.history)) == before
    assert (world.reloads, world.flushes, shard_of(world)) == (1, [], shard)


def test_reads_heartbeats_and_collected_assignments_go_on(world: ShardWorld) -> None:
    joined = world.joined  # type: ignore[attr-defined]
    assert fetched(world.ask(fetch(), 8).answer) == 1
    assert world.ask(beat(joined), 4).answer.error_code == 0
    assert world.ask(sync(joined), 4).answer.assignment == b"all"
    (described,) = world.ask(DescribeGroupsRequest(groups=["m"]), 5).answer.groups
    assert described.group_state == STABLE.value
    assert {group.group_id for group in world.ask(ListGroupsRequest(), 4).answer.groups} == {GROUP, "m"}


def test_every_request_that_is_let_through_writes_nothing() -> None:
    handled = set(HANDLERS | COLLECTORS)
    assert handled - MAY_WRITE == {
        HeartbeatRequest,
        OffsetFetchRequest,
        SyncGroupRequest,
        ListGroupsRequest,
        DescribeGroupsRequest,
        ConsumerGroupDescribeRequest,
    }


def test_with_room_again_writes_are_taken_and_the_state_is_the_same(world: ShardWorld) -> None:
    shard = shard_of(world)
    world.durable_log.try_again()
    assert shard_of(world) is shard, "nothing is read again: nothing has changed"
    assert committed(world.answer(commit(3), 8)) == 0
    assert fetched(world.answer(fetch(), 8)) == 3


def test_who_could_not_be_heard_gets_a_full_session(world: ShardWorld) -> None:
    """A member that wanted to join again was refused: it is not to be expired for that."""
    world.time_ms += 5 * SESSION_MS
    world.fire_due()
    assert shard_of(world).groups["m"].state is STABLE, "timers wait"
    world.durable_log.try_again()
    assert shard_of(world).groups["m"].state is STABLE
    world.time_ms += SESSION_MS + 1
    world.fire_due()
    assert shard_of(world).groups["m"].state is EMPTY, "the deadline that came meanwhile was not lost"
    world.end_turn()
    world.end_flush()
    world.load()
    assert shard_of(world).groups["m"].state is EMPTY


def test_the_sweep_of_offsets_waits_and_is_not_forgotten(world: ShardWorld) -> None:
    def rounds_to_come() -> int:
        return sum(
            isinstance(key[1].key, OffsetExpiryTimer) and at_ms > world.time_ms for key, at_ms in timers()
        )

    def timers() -> list[tuple[Any, int]]:
        return list(world.timers.items())

    world.time_ms = max(world.timers.values())
    world.fire_due()
    assert rounds_to_come() == 0
    world.durable_log.try_again()
    assert rounds_to_come() == 1


def test_a_topic_deleted_meanwhile_takes_its_offsets_along(world: ShardWorld) -> None:
    world.runner.topic_deleted(TOPIC, bytes(16))
    assert fetched(world.answer(fetch(), 8)) == 1
    world.wall += 60_000
    world.durable_log.try_again()
    assert fetched(world.answer(fetch(), 8)) == -1
    assert parse_header(world.log.stored[-1]).max_timestamp_ms == world.wall, "written now, not when it came"


def test_a_topic_deleted_meanwhile_takes_its_offsets_along_after_a_failure(world: ShardWorld) -> None:
    """No load finds these: an offset may have no topic id, and deletions are remembered up to a bound."""
    world.runner.topic_deleted(TOPIC, bytes(16))
    world.durable_log.fail(ZeroDivisionError("ours"))
    world.load()
    assert fetched(world.ask(fetch(), 8).answer) == 1, "there is still no space for the tombstones"
    world.durable_log.try_again()
    assert fetched(world.answer(fetch(), 8)) == -1


def test_a_topic_whose_deletion_found_no_room_takes_its_offsets_along_later() -> None:
    """Its tombstones go with the flush; the shard that is read again finds its offsets and may not write."""
    world = ShardWorld()
    assert committed(world.answer(commit(1), 8)) == 0
    topic_id = world.topics.topic_id(TOPIC)
    assert topic_id is not None
    world.topics.forget(TOPIC)
    world.runner.topic_deleted(TOPIC, topic_id)
    world.end_turn()
    world.end_flush(FULL)
    world.load()
    assert fetched(world.ask(fetch(), 8).answer) == 1
    assert (world.log.record_counts(), world.reloads) == ([1], 1)
    world.durable_log.try_again()
    assert fetched(world.answer(fetch(), 8)) == -1
    assert world.log.record_counts() == [1, 1]


def test_a_disk_without_room_to_cut_back_is_read_and_cut_when_there_is(world: ShardWorld) -> None:
    world.durable_log.try_again()
    asker = world.ask(commit(5), 8)
    world.end_turn()
    fail_back = world.log.fail_back

    def full() -> None:
        fail_back()
        world.log.failure = FULL
        raise FULL

    world.log.fail_back = full  # type: ignore[method-assign]
    world.end_flush(FULL)
    assert committed(asker.answer) == UNAVAILABLE
    world.load()
    assert fetched(world.ask(fetch(), 8).answer) == 1
    world.log.fail_back = fail_back  # type: ignore[method-assign]
    world.durable_log.try_again()
    world.load()
    assert committed(world.answer(commit(6), 8)) == 0


def test_room_that_comes_while_the_shard_is_read_does_not_have_it_read_twice(world: ShardWorld) -> None:
    """A second reading would cut off, under the shard that the first one started, what it has appended since."""
    world.durable_log.try_again()
    world.ask(commit(2), 8)
    world.end_turn()
    world.end_flush(FULL)
    world.durable_log.try_again()
    assert world.reloads == 2
    world.load()
    assert committed(world.answer(commit(3), 8)) == 0
    assert fetched(world.answer(fetch(), 8)) == 3
