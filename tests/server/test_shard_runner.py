"""A shard's runner on a log in memory: what is batched, who is answered when, and how a life ends."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import PREPARING_REBALANCE, STABLE
from coordinator.groups.group_settings import GroupSettings
from coordinator.runtime.shard_states import (
    ACTIVE,
    CLOSED,
    ELSEWHERE,
    FAILED,
    LOADING,
    TRANSITIONS,
    ShardState,
    ShardTrigger,
)
from harness.doubles.runtime_world import BROKEN, COMMIT_TIMEOUT_MS, Asker
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.records import Codec
from storage.log.log_states import RELEASED as RELEASED_LOG
from tests.server.joining import join, joining
from tests.server.shard_world import ShardWorld

COMMIT, FETCH, JOIN, JOIN_WITH_ID, SYNC, BEAT = 8, 7, 3, 5, 4, 4  # Versions.
OFFSET_UNKNOWN = -1
LOADED, LOAD_FAILED = ShardTrigger.LOADED, ShardTrigger.LOAD_FAILED
LOG_FAILED, STOPPED = ShardTrigger.LOG_FAILED, ShardTrigger.STOPPED
RELEASED, TAKEN = ShardTrigger.RELEASED, ShardTrigger.TAKEN


def commit(offset: int, metadata: str = "", group_id: str = "g") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


def fetch(group_id: str = "g") -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    return OffsetFetchRequest(group_id=group_id, topics=[topic])


def sync(joined: Any, assignment: bytes = b"all", group_id: str = "m") -> SyncGroupRequest:
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[mine],
    )


def committed(asker: Asker) -> int:
    return int(asker.answer.topics[0].partitions[0].error_code)


def fetched(world: ShardWorld, group_id: str = "g") -> int:
    return int(world.answer(fetch(group_id), FETCH).topics[0].partitions[0].committed_offset)


@pytest.fixture
def world() -> ShardWorld:
    return ShardWorld()


def a_bug(*_: object) -> Any:
    raise ZeroDivisionError("ours")


# Batches.


def test_what_one_turn_gathers_is_one_batch(world: ShardWorld) -> None:
    askers = [world.ask(commit(offset), COMMIT) for offset in range(3)]
    assert not world.flushes, "nothing is cut within the turn"
    world.end_turn()
    world.end_flush()
    assert world.log.record_counts() == [3]
    assert [committed(asker) for asker in askers] == [0, 0, 0]


def test_what_comes_during_a_flush_goes_with_the_next_as_one(world: ShardWorld) -> None:
    world.ask(commit(0), COMMIT)
    world.end_turn()
    for offset in range(1, 5):
        world.ask(commit(offset), COMMIT)
        world.end_turn()
    assert len(world.flushes) == 1
    world.end_flush()
    world.end_flush()
    assert world.log.record_counts() == [1, 4]
    assert not world.flushes


def test_a_batch_is_cut_between_events_at_the_largest_size() -> None:
    world = ShardWorld(max_batch_bytes=1_000)
    askers = [world.ask(commit(offset, "x" * 300), COMMIT) for offset in range(5)]
    world.end_turn()
    world.end_flush()
    assert world.log.record_counts() == [2, 2, 1]
    assert [committed(asker) for asker in askers] == [0] * 5


def test_consumers_of_the_topic_are_called_whenever_it_has_grown(world: ShardWorld) -> None:
    world.answer(commit(1), COMMIT)
    assert world.advanced == 1


# Replies and the disk.


def test_a_reply_leaves_when_what_its_handler_saw_is_durable(world: ShardWorld) -> None:
    first = world.ask(commit(1), COMMIT)
    world.end_turn()
    second, reader = world.ask(commit(2), COMMIT), world.ask(fetch(), FETCH)
    world.end_turn()
    assert (first.answers, second.answers, reader.answers) == ([], [], [])
    world.end_flush()
    assert committed(first) == 0
    assert (second.answers, reader.answers) == ([], []), "the read has seen the second commit"
    world.end_flush()
    assert reader.answer.topics[0].partitions[0].committed_offset == 2


def test_a_reply_waits_until_the_loop_hears_that_it_may_leave(world: ShardWorld) -> None:
    """Readers of the topic are not shown it before: a client would find the one answer ahead of the other."""
    world.ask(commit(1), COMMIT)
    world.end_turn()
    world.log.flush()  # On its thread.
    reader = world.ask(fetch(), FETCH)
    assert (reader.answers, world.advanced) == ([], 0)
    world.end_flush()
    assert (len(reader.answers), world.advanced) == (1, 1)


def test_every_answer_that_was_held_leaves_and_leaves_once(world: ShardWorld) -> None:
    """Of whatever kind, however many they are, and not only the first of them."""
    static = [replace(join(group_id=f"m{number}"), group_instance_id="i") for number in range(20)]
    joins = [world.ask(each, JOIN) for each in static]
    commits = [world.ask(commit(offset), COMMIT) for offset in range(20)]
    fetches = [world.ask(fetch(), FETCH) for _ in range(20)]
    held = joins + commits + fetches
    world.fire_due()
    world.end_turn()
    assert not any(asker.answers for asker in held)
    while world.flushes:
        world.end_flush()
    assert [len(asker.answers) for asker in held] == [1] * 60


def test_a_generation_does_not_wait_but_for_its_static_members(world: ShardWorld) -> None:
    """It is stored with its assignment. A static member's id is stored before, and is not to be taken back."""
    dynamic = world.ask(join(), JOIN)
    static = world.ask(replace(join(), group_instance_id="i"), JOIN)
    world.fire_due()
    world.fire_due()  # The delay begins once more, as a member has joined in it.
    world.end_turn()
    assert dynamic.answer.generation_id == 1
    assert not static.answers
    world.end_flush()
    assert static.answer.generation_id == 1


def test_an_id_that_is_handed_out_does_not_wait_but_where_it_creates_the_group(world: ShardWorld) -> None:
    """The id is not stored, so it reveals nothing; that the group exists is."""
    creating = world.ask(join(), JOIN_WITH_ID)
    another = world.ask(join(), JOIN_WITH_ID)
    assert another.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert not creating.answers
    world.flush()
    assert creating.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_heartbeat_does_not_wait(world: ShardWorld) -> None:
    world.ask(commit(1), COMMIT)
    beat = world.ask(HeartbeatRequest(group_id="m", generation_id=1, member_id="x"), BEAT)
    assert beat.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assignment_counts_when_it_is_durable(world: ShardWorld) -> None:
    """`then` comes back behind the flush: until it does the group is not Stable, and no member is answered."""
    joined = world.answer(join(), JOIN)
    leader = world.ask(sync(joined), SYNC)
    world.end_turn()
    assert leader.answers == []
    world.end_flush()
    assert (leader.answer.error_code, leader.answer.assignment) == (0, b"all")
    assert world.runner.shard is not None
    assert world.runner.shard.groups["m"].state is STABLE


# What is too large.


def test_a_record_too_large_is_refused_to_its_request_alone() -> None:
    world = ShardWorld(max_batch_bytes=1_000)
    before, large, after = (
        world.ask(commit(offset, metadata), COMMIT)
        for offset, metadata in ((1, ""), (2, "x" * 3_000), (3, ""))
    )
    assert committed(large) == ErrorCode.UNKNOWN_SERVER_ERROR, (
        "docs/kafka.md 2.1: what a too large batch is mapped to"
    )
    world.end_turn()
    world.end_flush()
    assert [committed(before), committed(after)] == [0, 0]
    assert world.log.record_counts() == [2]
    assert world.reloads == 0


def test_an_assignment_too_large_is_refused_to_its_leader() -> None:
    world = ShardWorld(max_batch_bytes=1_000)
    joined = world.answer(join(), JOIN)
    assert world.answer(sync(joined, b"x" * 2_000), SYNC).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.reloads == 0


def test_a_text_too_long_for_a_record_is_refused_to_its_request_alone(world: ShardWorld) -> None:
    """The client id, here longer than the wire lets through, is in the record of every generation."""
    other = world.ask(commit(1), COMMIT)
    static = replace(join(), group_instance_id="i")
    joined = world.answer(static, JOIN, client_id="x" * 40_000)
    assert world.answer(sync(joined), SYNC).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert committed(other) == 0
    assert world.reloads == 0


def test_what_the_log_refuses_of_a_consumer_group_is_not_in_its_history(world: ShardWorld) -> None:
    """The client id is in the member's record: it is no member."""
    request = joining()
    refused = world.answer(request, 1, client_id="x" * 40_000)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not world.history
    assert world.answer(request, 1).error_code == ErrorCode.NONE
    assert [(row.cause.kind, row.member_count) for row in world.history] == [(CauseKind.MEMBER_JOINED, 1)]


def test_what_a_classic_group_did_in_memory_is_in_its_history_with_what_takes_it_back() -> None:
    world = ShardWorld(max_batch_bytes=1_000)
    static = replace(join(), group_instance_id="i")
    world.answer(sync(world.answer(static, JOIN)), SYNC)
    world.history.clear()
    (offered,) = static.protocols
    world.answer(replace(static, protocols=[replace(offered, metadata=b"x" * 2_000)]), JOIN)
    kinds = [CauseKind.STATIC_MEMBER_REPLACED, CauseKind.STATIC_MEMBER_NOT_STORED]
    assert [row.cause.kind for row in world.history] == kinds


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_grows_when_compressed_still_fits_into_the_log(codec: Codec) -> None:
    """Random bytes, at every size around the one that is just accepted."""
    assignment = random.Random(1).randbytes(200_000)
    outcomes = []
    for max_batch_bytes in range(200_100, 200_300, 4):
        world = ShardWorld(max_batch_bytes, codec)
        joined = world.answer(join(), JOIN)
        outcomes.append(world.answer(sync(joined, assignment), SYNC).error_code)
        assert world.reloads == 0
    assert set(outcomes) == {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}


# A disk that hangs.


def hang(world: ShardWorld, for_ms: int = COMMIT_TIMEOUT_MS) -> None:
    """Time passes, and no flush ends."""
    world.time_ms += for_ms
    world.fire_due()


def test_3_88_a_commit_that_is_not_durable_in_time_is_answered_15(world: ShardWorld) -> None:
    late = world.ask(commit(1), COMMIT)
    world.end_turn()
    hang(world, COMMIT_TIMEOUT_MS - 1)
    in_time = world.ask(commit(2), COMMIT)
    assert late.answers == []
    hang(world, 1)
    assert committed(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert in_time.answers == [], "it may wait as long as any other request"
    world.end_flush()
    world.end_flush()
    assert committed(in_time) == 0
    assert fetched(world) == 2


def test_3_88_what_was_given_up_may_still_become_durable(world: ShardWorld) -> None:
    late = world.ask(commit(1), COMMIT)
    world.end_turn()
    hang(world)
    world.end_flush()
    assert committed(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "and hears nothing else"
    assert fetched(world) == 1


def test_3_88_those_who_only_read_do_not_wait_for_ever_either(world: ShardWorld) -> None:
    world.ask(commit(1), COMMIT)
    reader = world.ask(fetch(), FETCH)
    world.end_turn()
    hang(world)
    assert reader.answer.error_code == ErrorCode.NOT_COORDINATOR


def test_3_88_an_assignment_that_is_not_stored_in_time_calls_all_members_to_join_again(
    world: ShardWorld,
) -> None:
    joined = world.answer(join(), JOIN)
    leader = world.ask(sync(joined), SYNC)
    world.end_turn()
    hang(world)
    assert leader.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.runner.shard is not None
    assert world.runner.shard.groups["m"].state is PREPARING_REBALANCE
    world.end_flush()
    assert world.runner.shard.groups["m"].state is PREPARING_REBALANCE, "the flush ends too late to matter"


def test_a_disk_that_is_quick_again_is_given_the_whole_timeout_again(world: ShardWorld) -> None:
    world.answer(commit(1), COMMIT)
    hang(world, COMMIT_TIMEOUT_MS - 1)
    later = world.ask(commit(2), COMMIT)
    world.end_turn()
    hang(world, 1)
    assert later.answers == [], "the first commit's deadline means nothing to the second"
    hang(world, COMMIT_TIMEOUT_MS)
    assert committed(later) == ErrorCode.COORDINATOR_NOT_AVAILABLE


# The end of a life.


def test_a_failed_flush_fails_all_that_wait_and_the_state_is_read_again(world: ShardWorld) -> None:
    """docs/kafka.md 2.1: NOT_COORDINATOR. What was not durable has never been."""
    world.answer(commit(1), COMMIT)
    joined = world.answer(join(), JOIN)
    waiting, parked = world.ask(commit(2), COMMIT), world.ask(sync(joined), SYNC)
    world.end_turn()
    gathered = world.ask(commit(3), COMMIT)
    world.end_flush(BROKEN)
    assert committed(waiting) == committed(gathered) == ErrorCode.NOT_COORDINATOR
    assert parked.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert world.reloads == 1
    loading = world.ask(commit(4), COMMIT)
    assert committed(loading) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.load()
    assert fetched(world) == 1
    assert world.answer(commit(5), COMMIT).topics[0].partitions[0].error_code == 0
    assert fetched(world) == 5


def test_a_log_that_failed_unnoticed_fails_the_shard_at_the_next_cut() -> None:
    """The flusher's thread is ahead of the loop: a turn may cut for size when the flush has failed already."""
    world = ShardWorld(max_batch_bytes=1_000)
    first = world.ask(commit(1), COMMIT)
    world.end_turn()
    world.log.failure = BROKEN
    rest = [world.ask(commit(offset, "x" * 300), COMMIT) for offset in range(2, 6)]
    assert world.reloads == 1
    assert committed(first) == ErrorCode.NOT_COORDINATOR
    assert {committed(asker) for asker in rest} <= {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
    world.flushes.pop(0)(BROKEN)
    world.load()
    assert world.reloads == 1, "the news of the former life's flush changes nothing"
    assert world.answer(commit(7), COMMIT).topics[0].partitions[0].error_code == 0


def test_a_log_that_failed_between_two_flushes_fails_the_shard(world: ShardWorld) -> None:
    world.log.failure = BROKEN
    asker = world.ask(commit(1), COMMIT)
    world.end_turn()
    assert committed(asker) == ErrorCode.NOT_COORDINATOR
    world.load()
    assert world.answer(commit(2), COMMIT).topics[0].partitions[0].error_code == 0


def test_a_log_that_failed_while_it_was_read_fails_the_shard_at_its_first_write(world: ShardWorld) -> None:
    """The shard has been read all the same: it serves, and the log is not taken offline."""
    world.answer(commit(1), COMMIT)
    world.durable_log.fail(BROKEN)
    fail_back = world.log.fail_back

    def fail_later() -> None:
        fail_back()
        world.log.failure = BROKEN

    world.log.fail_back = fail_later  # type: ignore[method-assign]
    world.load()
    world.log.fail_back = fail_back  # type: ignore[method-assign]
    assert fetched(world) == 1
    assert (world.runner.may_write, world.tried_later, world.reloads) == (True, [], 1)
    asker = world.ask(commit(2), COMMIT)
    world.end_turn()
    assert (committed(asker), world.reloads) == (ErrorCode.NOT_COORDINATOR, 2)
    world.load()
    assert fetched(world) == 1


def test_a_bug_costs_a_life_and_memory_and_log_agree_afterwards(
    world: ShardWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was on its way to the disk is not forgotten by one and kept by the other."""
    staged = world.ask(commit(1), COMMIT)
    world.end_turn()
    gathered = world.ask(commit(2), COMMIT)
    monkeypatch.setattr(world.runner.shard, "handle", a_bug)
    unlucky = world.ask(commit(3), COMMIT)
    assert {committed(asker) for asker in (staged, gathered, unlucky)} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    world.load()
    assert fetched(world) == OFFSET_UNKNOWN
    world.load()
    assert fetched(world) == OFFSET_UNKNOWN, "a restart reads the same"


def test_the_flush_of_a_former_life_neither_answers_nor_holds_up_the_next(
    world: ShardWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask(commit(1), COMMIT)
    world.end_turn()
    monkeypatch.setattr(world.runner.shard, "handle", a_bug)
    world.ask(commit(2), COMMIT)
    world.load()
    asker = world.ask(commit(3), COMMIT)
    world.end_turn()
    former, own = world.flushes
    former(None)
    assert asker.answers == []
    world.log.flush()
    own(None)
    assert committed(asker) == 0


def test_timers_of_a_former_life_mean_nothing(world: ShardWorld) -> None:
    joined = world.answer(join(), JOIN)
    assert world.answer(sync(joined), SYNC).error_code == 0
    old_timers = [key for key in world.timers if key[0] is world.runner]
    world.ask(commit(1), COMMIT)
    world.end_turn()
    world.end_flush(BROKEN)
    for runner, key in old_timers:
        runner.timer_fired(key)
    world.load()
    events = len(world.history)
    for runner, key in old_timers:
        runner.timer_fired(key)
    assert len(world.history) == events
    assert world.runner.shard is not None
    assert world.runner.shard.groups["m"].members.keys() == {joined.member_id}


def test_what_the_loop_put_off_is_done_later_unless_the_life_has_ended(
    world: ShardWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop puts off replies and outcomes of appends; a shard that was read again knows what it needs."""
    put_off: list[Callable[[], None]] = []
    monkeypatch.setattr(world, "do", put_off.append)
    joined = world.answer(join(), JOIN)
    leader = world.ask(sync(joined), SYNC)
    world.end_turn()
    world.end_flush()
    assert leader.answers == []
    put_off.pop()()
    assert leader.answer.assignment == b"all"
    second = world.ask(join(member_id=joined.member_id), JOIN).answer
    leader = world.ask(sync(second, b"new"), SYNC)
    world.end_turn()
    world.end_flush()
    world.ask(commit(1), COMMIT)
    world.end_turn()
    world.end_flush(BROKEN)
    assert leader.answer.error_code, "the life has ended"
    world.load()
    handled: list[object] = []
    monkeypatch.setattr(world.runner.shard, "handle", lambda event, now_ms: handled.append(event))
    for hand_back in put_off:
        hand_back()
    assert put_off
    assert handled == []


def test_a_topic_deleted_while_its_offsets_are_loading_takes_them_along(world: ShardWorld) -> None:
    world.answer(commit(1), COMMIT)
    world.log.failure = BROKEN
    world.ask(commit(2), COMMIT)
    world.end_turn()
    topic_id = world.topics.topic_id("orders")
    assert topic_id is not None
    world.runner.topic_deleted("orders", topic_id)
    world.load()
    assert fetched(world) == OFFSET_UNKNOWN


def test_a_request_whose_connection_is_gone_is_not_remembered() -> None:
    """3.89: a parked request is let go with its connection, once no member holds it."""
    world = ShardWorld(settings=GroupSettings(group_initial_rebalance_delay_ms=3_000))
    asker = world.ask(join(), JOIN)
    gone = weakref.ref(asker)
    assert world.runner.shard is not None
    world.runner.shard.groups.clear()
    del asker
    gc.collect()
    assert gone() is None


# The stop.


@pytest.fixture
def storing() -> tuple[ShardWorld, Asker, Asker]:
    """A leader's assignment and a commit on their way to the disk."""
    world = ShardWorld()
    joined = world.answer(join(), JOIN)
    leader = world.ask(sync(joined), SYNC)
    committer = world.ask(commit(1), COMMIT)
    world.end_turn()
    return world, leader, committer


Storing = tuple[ShardWorld, Asker, Asker]


def test_a_stop_answers_the_parked_and_lets_the_flush_answer_the_rest(storing: Storing) -> None:
    """3.73: the leader looks for another coordinator; the commit is durable and hears so."""
    world, leader, committer = storing
    world.runner.stop()
    assert leader.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert committer.answers == []
    world.end_flush()
    assert committed(committer) == 0
    assert world.reloads == 0


def test_a_stop_flushes_what_was_gathered_meanwhile(storing: Storing) -> None:
    world, _, _ = storing
    late = world.ask(commit(2), COMMIT)
    world.runner.stop()
    world.end_flush()
    world.end_flush()
    assert committed(late) == 0
    world.restart()
    assert fetched(world) == 2


@pytest.mark.parametrize("request_of", [lambda: commit(3), lambda: join(group_id="n")])
def test_after_a_stop_nothing_is_taken_on(storing: Storing, request_of: Callable[[], Any]) -> None:
    world, _, _ = storing
    world.runner.stop()
    answer = world.ask(request_of(), JOIN).answer
    error = answer.error_code if hasattr(answer, "error_code") else answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_COORDINATOR


# Led elsewhere.


def test_a_load_that_ends_after_the_shard_was_given_away_changes_nothing(world: ShardWorld) -> None:
    world.durable_log.fail(BROKEN)  # So it is being loaded.
    world.runner.release()
    world.read_shard(world.runner, cut_back=True)
    assert (world.runner.state, world.runner.shard) == (ELSEWHERE, None)
    world.runner.on_load_failed(BROKEN)
    assert world.runner.state is ELSEWHERE
    assert world.durable_log.state is RELEASED_LOG
    assert committed(world.ask(commit(1), COMMIT)) == ErrorCode.NOT_COORDINATOR


# States.


WHERE_TO = {
    LOADING: {LOADED: ACTIVE, LOAD_FAILED: FAILED, RELEASED: ELSEWHERE, STOPPED: CLOSED},
    ACTIVE: {LOG_FAILED: LOADING, RELEASED: ELSEWHERE, STOPPED: CLOSED},
    FAILED: {
        LOADED: ACTIVE,
        LOAD_FAILED: FAILED,
        LOG_FAILED: FAILED,
        RELEASED: ELSEWHERE,
        STOPPED: CLOSED,
    },
    ELSEWHERE: {TAKEN: LOADING, STOPPED: CLOSED},
    CLOSED: dict.fromkeys(ShardTrigger, CLOSED),
}


@pytest.mark.parametrize("state", ShardState)
@pytest.mark.parametrize("trigger", ShardTrigger)
def test_every_state_knows_where_every_trigger_leads(state: ShardState, trigger: ShardTrigger) -> None:
    assert TRANSITIONS.get((state, trigger)) is WHERE_TO[state].get(trigger)


def test_there_is_a_shard_in_the_state_that_serves_alone(world: ShardWorld) -> None:
    assert (world.runner.state, world.runner.shard is None) == (ACTIVE, False)
    world.durable_log.fail(BROKEN)
    assert (world.runner.state, world.runner.shard) == (LOADING, None)
    world.runner.on_load_failed(BROKEN)
    assert (world.runner.state, world.runner.shard) == (FAILED, None)
    (retried,) = world.tried_later
    retried.try_again()
    assert (world.runner.state, world.reloads) == (FAILED, 2), "clients look for another meanwhile"
    world.load()
    assert (world.runner.state, world.runner.shard is None) == (ACTIVE, False)
    world.runner.stop()
    assert (world.runner.state, world.runner.shard) == (CLOSED, None)
    world.durable_log.fail(BROKEN)
    assert (world.runner.state, world.reloads) == (CLOSED, 2), "a shard that has stopped is not read again"


def test_work_of_a_former_life_is_dropped() -> None:
    """The shard was loaded since it asked; who loaded it asks again for what it needs."""
    world = ShardWorld()
    world.answer(joining(subscribed_topic_names=None, subscribed_topic_regex="o.*"), 1)
    assert len(world.queue) == 1, "the expression is matched aside"
    assert world.sliced == 1, "on the thread of works that may take long"
    world.load()
    epoch = world.runner.shard.consumer_groups["g"].epoch if world.runner.shard else 0
    world.queue.popleft()()
    shard = world.runner.shard
    assert shard is not None
    assert (shard.consumer_groups["g"].epoch, shard.consumer_groups["g"].subscriptions.resolved) == (
        epoch,
        {},
    )


def test_what_waited_for_a_target_goes_on_one_event_at_a_time() -> None:
    """A hundred joins of a large group in one turn would hold the loop for longer than a turn may."""
    world = ShardWorld()
    world.topics.grow("orders", 2_000)
    for number in range(4):
        world.ask(joining(f"m{number}"), 1)
    assert len(world.queue) == 1, "the target is computed aside"
    assert world.sliced == 0, "and waits behind no expression"
    shard = world.runner.shard
    assert shard is not None
    for count in (1, 2, 3, 4):
        world.queue.popleft()()
        assert len(shard.consumer_groups["g"].members) == count
