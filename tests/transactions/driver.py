"""A `ClockedDriver` of one shard of transactions, with a log in memory and the requests of its clients.

Time stands still until a test moves it. Records go to the log as bytes, so that a restart reads what a restart
would read; every reply is encoded in the version it was asked in. Markers wait until a test lets them be written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from coordinator.effects import (
    Appendable,
    CoordinatorRecord,
    MarkersWanted,
    MarkersWritten,
    ProducerAndEpoch,
)
from coordinator.transactions.records import decode_record, encode_record
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.states import TransactionStatus
from coordinator.transactions.transaction import LAST_EPOCH, Transaction
from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from harness.doubles.core_driver import ClockedDriver
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TID = "t"
TIMEOUT_MS = 60_000
FIRST_ID = 1_000
OFFSETS_PARTITION = 7

Given = tuple[int, int, int]
"""Error, producer id, producer epoch."""
NOTHING_GIVEN = (-1, -1)


def topics_of(*partitions: tuple[str, int]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions]


def batched(
    producer: tuple[int, int], *partitions: tuple[str, int], tid: str = TID, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    """One transaction of an AddPartitionsToTxn of brokers."""
    return AddPartitionsToTxnTransaction(
        transactional_id=tid,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=topics_of(*partitions),
    )


@dataclass
class Driver(ClockedDriver[TransactionShard]):
    """One shard of transactions, its log, and the markers that it wants."""

    settings: TransactionSettings = field(default_factory=TransactionSettings)
    topics: dict[str, int] = field(
        default_factory=lambda: {"orders": 4, "clicks": 2, "__consumer_offsets": 8}
    )
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    markers: list[MarkersWanted] = field(default_factory=list)
    has_ids: bool = True
    wall_moved_ms: int = 0  # How far the wall clock was set ahead, or back.

    def __post_init__(self) -> None:
        self._ids = count(FIRST_ID)
        super().__post_init__()

    @property
    def wall_ms(self) -> int:
        return super().wall_ms + self.wall_moved_ms

    def transaction_of(self, transactional_id: str) -> Transaction:
        found = self.shard.transactions.get(transactional_id)
        assert found is not None
        return found

    @property
    def transaction(self) -> Transaction:
        return self.transaction_of(TID)

    def state(self) -> TransactionStatus:
        return self.transaction.state

    def restart(self, wall_moves_ms: int = 0) -> None:
        """Forget everything but the log, and read it."""
        self.markers.clear()
        self.load(wall_moves_ms)

    def read_log(self) -> TransactionShard:
        deps = TransactionDeps(
            next_producer_id=lambda: next(self._ids) if self.has_ids else None,
            partition_count=self.topics.get,
            offsets_partition=lambda group_id: OFFSETS_PARTITION,
        )
        shard = TransactionShard(0, self.settings, deps)
        for offset, (key, value) in enumerate(self.log):
            record = decode_record(key, value)
            assert record is not None
            shard.replay(record, offset)
        return shard

    def append(self, record: Appendable, producer: ProducerAndEpoch | None) -> None:
        assert isinstance(record, CoordinatorRecord), "a run of commits is no record of transactions"
        self.log.append(encode_record(record))
        self.shard.replay(record, len(self.log) - 1)

    def want_markers(self, wanted: MarkersWanted) -> None:
        self.markers.append(wanted)

    def write_markers(self) -> list[MarkersWanted]:
        """All that are wanted are written; returns them."""
        written, self.markers = self.markers, []
        for each in written:
            self.handle(MarkersWritten(each.then, self.wall_ms))
        return written

    # Requests.

    def init(self, version: int = 5, **changed: Any) -> Given:
        given: dict[str, Any] = {"transactional_id": TID, "transaction_timeout_ms": TIMEOUT_MS}
        reply: InitProducerIdResponse = self.call(InitProducerIdRequest(**(given | changed)), version)
        return reply.error_code, reply.producer_id, reply.producer_epoch

    def producer(self, **changed: Any) -> tuple[int, int]:
        """A producer that has begun: its id and epoch."""
        error, *producer = self.init(**changed)
        assert error == ErrorCode.NONE
        return producer[0], producer[1]

    def add(
        self, producer: tuple[int, int], *partitions: tuple[str, int], version: int = 3, tid: str = TID
    ) -> list[int]:
        """The errors of all partitions."""
        asked = partitions or (("orders", 0),)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=tid,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics_of(*asked),
        )
        if version >= 4:
            request = AddPartitionsToTxnRequest(transactions=[batched(producer, *asked, tid=tid)])
        reply = self.call(request, version)
        results = [topic for each in reply.results_by_transaction for topic in each.topic_results]
        results += reply.results_by_topic_v3_and_below
        return [each.partition_error_code for topic in results for each in topic.results_by_partition]

    def verify(self, producer: tuple[int, int], *partitions: tuple[str, int]) -> list[int]:
        one = batched(producer, *partitions, verify_only=True)
        (result,) = self.call(AddPartitionsToTxnRequest(transactions=[one]), 5).results_by_transaction
        return [
            each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition
        ]

    def add_offsets(self, producer: tuple[int, int], version: int = 4, tid: str = TID) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=tid, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        error: int = self.call(request, version).error_code
        return error

    def end(self, producer: tuple[int, int], committed: bool, version: int = 4, tid: str = TID) -> Given:
        request = EndTxnRequest(
            transactional_id=tid, producer_id=producer[0], producer_epoch=producer[1], committed=committed
        )
        reply: EndTxnResponse = self.call(request, version)
        return reply.error_code, reply.producer_id, reply.producer_epoch

    def bring_to(self, state: TransactionStatus, version: int = 5) -> tuple[int, int]:
        """From nothing to `state`, by a client of EndTxn `version`; what the producer knows itself by."""
        producer = self.producer()
        if state is TransactionStatus.EMPTY:
            return producer
        assert self.add(producer, version=3 if version < 5 else 5) == [0]
        if state is TransactionStatus.ONGOING:
            return producer
        commits = state in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)
        error, *given = self.end(producer, commits, version)
        assert error == ErrorCode.NONE
        if state in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
            self.write_markers()
        assert self.state() is state
        return producer if version < 5 else (given[0], given[1])

    def wear_out(self) -> tuple[int, int]:
        """A producer with the last epoch that a producer is ever given."""
        producer_id, epoch = self.producer()
        while epoch < LAST_EPOCH - 1:
            producer_id, epoch = self.producer()
        return producer_id, epoch
