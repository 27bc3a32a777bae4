"""A shard that another node may have taken by now says nothing, and forgets nothing meanwhile."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator.groups.classic.states import EMPTY, STABLE
from coordinator.server.prepared import Prepared
from coordinator.shard.shard import Shard
from harness.doubles.fake_pending import FakePending
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.server.asking import commit, committed, fetch
from tests.server.joining import SESSION_MS, beat, join, joining, leave, sync
from tests.server.shard_world import ShardWorld
from tests.server.test_prepared import CLIENT_ID, apis_of


class Lease:
    """Whether the node may answer."""

    is_running = True


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
def world(lease: Lease) -> ShardWorld:
    """A shard with a group of one member, which it leads while the lease runs."""
    world = ShardWorld()
    world.runner.may_answer = lambda: lease.is_running
    return world


def joined_member(world: ShardWorld) -> Any:
    joined = world.answer(join(), 3)
    world.answer(sync(joined), 4)
    return joined


def shard_of(world: ShardWorld) -> Shard:
    assert world.runner.shard is not None
    return world.runner.shard


def test_while_the_lease_runs_it_answers(world: ShardWorld) -> None:
    assert committed(world.answer(commit(1), 8)) == ErrorCode.NONE
    assert world.answer(beat(joined_member(world)), 4).error_code == ErrorCode.NONE


def test_beyond_it_every_request_hears_that_it_is_no_coordinator(world: ShardWorld, lease: Lease) -> None:
    """Reads too: what it has may be of the past."""
    joined = joined_member(world)
    lease.is_running = False
    asked = (
        (beat(joined), 4),
        (sync(joined), 4),
        (join(joined.member_id), 3),
        (fetch(), 8),
    )
    for request, version in asked:
        answer = world.ask(request, version).answer
        answer = answer.groups[0] if request is asked[-1][0] else answer
        assert answer.error_code == ErrorCode.NOT_COORDINATOR, request
    assert committed(world.ask(commit(2), 8).answer) == ErrorCode.NOT_COORDINATOR
    assert world.ask(leave(joined.member_id), 4).answer.error_code == ErrorCode.NOT_COORDINATOR
    world.end_turn()
    assert world.flushes == []
    assert [group.state for group in shard_of(world).groups.values() if group.group_id == "m"] == [STABLE]


def test_nobody_is_expired_who_could_not_be_heard(world: ShardWorld, lease: Lease) -> None:
    """With the lease running again a member has a whole session, and after that none."""
    joined_member(world)
    lease.is_running = False
    world.time_ms += 10 * SESSION_MS
    world.fire_due()
    lease.is_running = True
    world.runner.on_resumed()
    world.end_turn()
    assert shard_of(world).groups["m"].state is STABLE
    world.time_ms += SESSION_MS - 1
    world.fire_due()
    assert shard_of(world).groups["m"].state is STABLE
    world.time_ms += 1
    world.fire_due()
    assert shard_of(world).groups["m"].state is EMPTY


def test_what_writes_is_refused_while_the_log_takes_no_more(world: ShardWorld) -> None:
    """And what does not is answered: that a cluster takes nothing is no reason to have members leave."""
    joined = joined_member(world)
    world.runner.has_room = lambda: False
    assert committed(world.ask(commit(2), 8).answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.ask(join(), 3).answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.ask(beat(joined), 4).answer.error_code == ErrorCode.NONE
    world.runner.has_room = lambda: True
    assert committed(world.answer(commit(2), 8)) == ErrorCode.NONE


def requests_that_clients_repeat(world: ShardWorld) -> dict[int, tuple[Any, int]]:
    """By API key, with its version; each is prepared."""
    joined = joined_member(world)
    assert committed(world.answer(commit(1, "simple"), 8)) == ErrorCode.NONE
    epoch = world.answer(joining(), 1).member_epoch
    steady = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    assert world.answer(steady, 1).error_code == ErrorCode.NONE  # The first may still find something to do.
    return {12: (beat(joined), 4), 68: (steady, 1), 8: (commit(2, "simple"), 8)}


def prepared_by(world: ShardWorld, key: int) -> Prepared:
    request, version = requests_that_clients_repeat(world)[key]
    frame = encode_request(request, version, 0, CLIENT_ID)
    prepared = apis_of(world).prepare()[key](request, version, frame)
    assert prepared is not None
    return prepared


def is_taken(prepared: Prepared, at_ms: int) -> bool:
    """Whether a request with the same bytes would be handled without being decoded, one way or the other."""
    at_once = prepared.answer(at_ms) is not None if prepared.is_immediate else prepared.holds()
    assert at_once == prepared.holds()
    return at_once


@pytest.mark.parametrize("key", [8, 12, 68])
def test_what_was_prepared_asks_the_lease_each_time(world: ShardWorld, lease: Lease, key: int) -> None:
    """It is answered by its bytes, and not past the lease."""
    prepared = prepared_by(world, key)
    for is_running in (True, False, True):
        lease.is_running = is_running
        assert is_taken(prepared, world.time_ms) is is_running


@pytest.mark.parametrize(("key", "writes"), [(8, True), (12, False), (68, True)])
def test_what_was_prepared_and_may_write_asks_for_room(world: ShardWorld, key: int, writes: bool) -> None:
    prepared = prepared_by(world, key)
    world.runner.has_room = lambda: False
    assert is_taken(prepared, world.time_ms) is not writes
    world.runner.has_room = lambda: True
    assert is_taken(prepared, world.time_ms)


def test_a_heartbeat_asks_the_lease_too(world: ShardWorld, lease: Lease) -> None:
    """Most are answered without the shard's runner."""
    request, _ = requests_that_clients_repeat(world)[12]
    heartbeat = apis_of(world).handlers()[12]
    for is_running, error in ((True, ErrorCode.NONE), (False, ErrorCode.NOT_COORDINATOR)):
        lease.is_running = is_running
        pending = FakePending(4)
        heartbeat(request, cast(Any, pending))
        world.end_turn()
        assert pending.answer.error_code == error
