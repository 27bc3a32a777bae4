"""A runner of transactions on a log in memory: when markers are begun, and what a failure makes of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.effects import HistoryRow, MarkersWanted
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.transaction_shards import transaction_shards
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.states import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    TransactionStatus,
)
from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from harness.doubles.runtime_world import BROKEN, COMMIT_TIMEOUT_MS, RunnerWorld
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.records import Codec
from storage.files import StorageError

FULL = StorageError("write", BROKEN.path, "No space left on device", 28)


class World(RunnerWorld[ShardRunner[TransactionShard]]):
    """One loaded shard of transactions."""

    def __init__(self) -> None:
        self.markers: list[tuple[MarkersWanted, Callable[[], None]]] = []
        super().__init__()

    def new_runner(self) -> ShardRunner[TransactionShard]:
        deps = TransactionDeps(lambda: 7, {"orders": 4}.get, lambda group_id: 0)
        return ShardRunner(
            transaction_shards(lambda partition: TransactionShard(partition, TransactionSettings(), deps)),
            0,
            self.durable_log,
            self,
            max_batch_bytes=1 << 20,
            codec=Codec.NONE,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )

    def record_history(self, rows: tuple[HistoryRow, ...]) -> None:
        raise AssertionError("transactions have no history")

    def write_markers(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self.markers.append((wanted, done))

    def state(self) -> TransactionStatus:
        assert self.runner.shard is not None
        (transaction,) = self.runner.shard.transactions
        return transaction.state


INIT = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
ADD = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="t",
    v3_and_below_producer_id=7,
    v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 2])],
)
COMMIT = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=0, committed=True)


@pytest.fixture
def world() -> World:
    """With a transaction under way."""
    world = World()
    world.ask(INIT, 5)
    world.ask(ADD, 3)
    world.flush()
    assert world.state() is ONGOING
    return world


def test_markers_begin_and_the_client_is_answered_when_the_outcome_is_durable(world: World) -> None:
    commit = world.ask(COMMIT, 5)
    assert (commit.answers, world.markers) == ([], [])
    world.flush()
    assert (commit.answer.error_code, commit.answer.producer_epoch) == (ErrorCode.NONE, 1)
    ((wanted, done),) = world.markers
    assert wanted.partitions == (("orders", 0), ("orders", 2))
    assert world.state() is PREPARE_COMMIT
    done()
    assert world.state() is COMPLETE_COMMIT


def test_a_slow_disk_is_reported_to_the_client_and_the_markers_wait_for_it(world: World) -> None:
    commit = world.ask(COMMIT, 5)
    world.runner.end_turn()
    for _ in range(2):
        world.time_ms += COMMIT_TIMEOUT_MS
        world.fire_due()
    assert commit.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.markers == []
    world.log.flush()
    world.flushes.pop()(None)
    assert len(world.markers) == 1


def test_an_outcome_that_is_lost_gets_no_marker(world: World) -> None:
    commit = world.ask(COMMIT, 5)
    world.flush(BROKEN)
    assert commit.answer.error_code == ErrorCode.NOT_COORDINATOR
    world.load()
    assert (world.state(), world.markers) == (ONGOING, [])


def test_a_failure_while_markers_are_written_has_them_written_again(world: World) -> None:
    world.ask(COMMIT, 5)
    world.flush()
    ((_, early),) = world.markers
    early()
    world.flush(BROKEN)
    world.load()
    assert world.state() is PREPARE_COMMIT
    (_, late) = world.markers[-1]
    assert len(world.markers) == 2
    early()
    assert world.state() is PREPARE_COMMIT, "they were an earlier life's"
    late()
    assert world.state() is COMPLETE_COMMIT


def test_markers_that_are_written_while_there_is_no_room_count_when_there_is(world: World) -> None:
    world.ask(COMMIT, 5)
    world.flush()
    world.ask(InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=1), 5)
    world.flush(FULL)
    world.load()
    assert len(world.no_room) == 1
    assert world.ask(ADD, 3).answer.results_by_topic_v3_and_below[0].results_by_partition[
        0
    ].partition_error_code == (ErrorCode.COORDINATOR_NOT_AVAILABLE)
    (_, done) = world.markers[-1]
    done()
    assert world.state() is PREPARE_COMMIT
    world.durable_log.try_again()
    assert world.state() is COMPLETE_COMMIT


def test_while_it_loads_clients_come_again(world: World) -> None:
    world.ask(INIT, 5)
    world.flush(BROKEN)
    for request, version in ((INIT, 5), (COMMIT, 5)):
        answer = world.ask(request, version).answer
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.load()
    world.ask(INIT, 5)
    world.flush()
    assert world.state() is not EMPTY
