"""The runner of a shard of groups: transactional batches, and the markers that end transactions (O14, O15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.offsets.shard_offsets import CommitVerification
from coordinator.offsets.transactional_commit import TransactionalCommit
from harness.doubles.runtime_world import BROKEN, COMMIT_TIMEOUT_MS, Asker
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.control import ControlType, Marker, control_type
from protocol.records.records import parse_header, read_records
from tests.server.shard_world import ShardWorld
from tests.server.test_shard_runner import COMMIT, FETCH, commit, fetch, fetched
from tests.server.test_standing_still import FULL

TXN = 5
PRODUCER = 7


@pytest.fixture
def world() -> ShardWorld:
    return ShardWorld()


def hold(world: ShardWorld, offset: int, producer_id: int = PRODUCER, epoch: int = 0) -> Asker:
    """A TxnOffsetCommit that its coordinator has vouched for."""
    committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[committed])],
    )
    verification = CommitVerification(producer_id)
    assert world.runner.shard is not None
    world.runner.shard.verifications.add(verification)
    return world.ask(TransactionalCommit(request, ErrorCode.NONE, verification), TXN)


def end(world: ShardWorld, is_commit: bool = True, **changed: Any) -> list[ErrorCode]:
    """Write a marker within this turn; what its writer has heard so far."""
    outcomes: list[ErrorCode] = []
    marker = Marker(producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, is_commit=is_commit)
    world.runner.write_marker(replace(marker, **changed), outcomes.append)
    return outcomes


def flush(world: ShardWorld) -> None:
    world.end_turn()
    while world.flushes:
        world.end_flush()


def test_a_transactional_batch_shares_its_batch_with_nothing_else(world: ShardWorld) -> None:
    world.ask(commit(1), COMMIT)
    hold(world, 2)
    hold(world, 3)
    hold(world, 4, producer_id=8, epoch=3)
    world.ask(commit(5), COMMIT)
    flush(world)
    headers = [parse_header(data) for data in world.log.stored]
    who = [(h.producer_id, h.producer_epoch, h.is_transactional, h.record_count) for h in headers]
    assert who == [(-1, -1, False, 1), (7, 0, True, 2), (8, 3, True, 1), (-1, -1, False, 1)]
    assert fetched(world) == 5


def test_o15_a_marker_stands_behind_the_batch_that_was_open(world: ShardWorld) -> None:
    held = hold(world, 2)
    outcomes = end(world)
    world.ask(commit(3), COMMIT)
    world.end_turn()
    assert (held.answers, outcomes) == ([], []), "nothing of it is on the disk"
    flush(world)
    assert (held.answer.topics[0].partitions[0].error_code, outcomes) == (0, [ErrorCode.NONE])
    batches = [(parse_header(data), data) for data in world.log.stored]
    assert [batch.is_control for batch, _ in batches] == [False, True, False]
    marker, data = batches[1]
    assert (marker.producer_id, marker.is_transactional) == (PRODUCER, True)
    assert control_type(read_records(data, marker)[0].key) is ControlType.COMMIT
    assert fetched(world) == 3


def test_o14_readers_see_a_commit_when_its_marker_is_durable(world: ShardWorld) -> None:
    hold(world, 2)
    flush(world)
    end(world)
    reader = world.ask(fetch(), FETCH)
    world.end_turn()
    assert reader.answers == []
    flush(world)
    assert reader.answer.topics[0].partitions[0].committed_offset == 2


def test_a_marker_alone_is_flushed_too(world: ShardWorld) -> None:
    outcomes = end(world, is_commit=False)
    flush(world)
    assert outcomes == [ErrorCode.NONE]
    assert world.log.record_counts() == [1]


def test_what_is_open_when_a_life_ends_is_open_in_the_next(world: ShardWorld) -> None:
    hold(world, 2)
    flush(world)
    world.ask(commit(1), COMMIT)
    world.end_turn()
    world.end_flush(BROKEN)
    world.load()
    assert fetched(world) == -1
    end(world)
    flush(world)
    assert fetched(world) == 2


def test_a_marker_that_the_disk_lost_fails_and_ends_nothing(world: ShardWorld) -> None:
    hold(world, 2)
    flush(world)
    outcomes = end(world)
    world.end_turn()
    world.end_flush(BROKEN)
    assert outcomes == [ErrorCode.KAFKA_STORAGE_ERROR]
    again = end(world)
    assert again == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it loads"
    world.load()
    assert fetched(world) == -1
    once_more = end(world)
    flush(world)
    assert (once_more, fetched(world)) == ([ErrorCode.NONE], 2)


def test_a_log_that_refuses_the_marker_ends_the_life_once(world: ShardWorld) -> None:
    hold(world, 2)
    flush(world)
    world.log.failure = BROKEN
    assert end(world) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.reloads == 1
    world.end_turn()
    assert world.flushes == []


def test_a_marker_waits_for_room(world: ShardWorld) -> None:
    hold(world, 2)
    flush(world)
    world.ask(commit(3), COMMIT)
    world.end_turn()
    world.end_flush(FULL)
    world.load()
    assert world.no_room == [FULL]
    assert end(world) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.durable_log.try_again()
    outcomes = end(world)
    flush(world)
    assert (outcomes, fetched(world)) == ([ErrorCode.NONE], 2)


def test_a_disk_that_hangs_fails_the_marker(world: ShardWorld) -> None:
    outcomes = end(world)
    world.end_turn()
    world.time_ms += COMMIT_TIMEOUT_MS
    world.fire_due()
    assert outcomes == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"producer_epoch": 0}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"producer_epoch": 1, "coordinator_epoch": 4}, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ({"producer_epoch": 1, "coordinator_epoch": 5}, ErrorCode.NONE),
    ],
)
def test_a_marker_that_comes_too_late_is_refused(
    world: ShardWorld, changed: dict[str, Any], error: ErrorCode
) -> None:
    end(world, producer_epoch=1, coordinator_epoch=5)
    flush(world)
    outcomes = end(world, **changed)
    flush(world)
    assert outcomes == [error]
    assert len(world.log.stored) == 1 + (error is ErrorCode.NONE)


def test_a_shard_that_has_stopped_takes_no_marker(world: ShardWorld) -> None:
    world.runner.stop()
    assert end(world) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
