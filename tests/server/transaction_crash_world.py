"""A `CrashWorld` with a transaction coordinator: its log, its markers, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.data.markers import Markers
from coordinator.effects import MarkersWanted, RequestContext
from coordinator.groups.partitioning import partition_for
from coordinator.offsets.shard_offsets import CommitVerification
from coordinator.offsets.transactional_commit import TransactionalCommit
from coordinator.runtime.marker_sender import MarkerSender
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.transaction_shards import transaction_shards
from coordinator.topics.names import TRANSACTION_STATE_TOPIC
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.transaction_settings import TransactionDeps, TransactionSettings
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records.batch import walk
from protocol.records.records import Codec, read_records
from storage.files import Files
from tests.server.crash_world import SHARD_LOG, SHARDS, Account, CrashWorld, Listening
from tests.topics.requests import fetch, produce_request
from tests.topics.world import batch

CLASSIC = 3  # EndTxn and its like, before KIP-890.
READ_COMMITTED = 1


class TransactionCrashWorld(CrashWorld):
    """With a shard of transactions as well, whose markers are written."""

    def __init__(self, directory: Path, files: Files, is_synced: bool = True, tolerant: bool = False) -> None:
        super().__init__(directory, files, is_synced, tolerant)
        topic = self.registry.internal(TRANSACTION_STATE_TOPIC, 1, SHARD_LOG)
        markers = Markers(self.registry, lambda index: self.runners[index])
        self._sender = MarkerSender(markers.write, self, self.queue.append)
        (state,) = topic.partitions
        self.transactions = ShardRunner(
            transaction_shards(self._new_shard),
            state.index,
            state.durable_log,
            self,
            max_batch_bytes=1000,
            codec=Codec.NONE,
            commit_timeout_ms=5000,
        )
        self.given: set[int] = set()
        self._shrink_segments()
        self.read_shard(self.transactions, cut_back=False)
        self.settle()  # Markers of what was decided in a former life.

    def _new_shard(self, partition: int) -> TransactionShard:
        deps = TransactionDeps(
            next_producer_id=self.broker.producer_ids.take,
            partition_count=self.registry.partition_count,
            offsets_partition=lambda group_id: partition_for(group_id, SHARDS),
        )
        return TransactionShard(partition, TransactionSettings(), deps)

    def write_markers(
        self, wanted: MarkersWanted, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self._sender.write(wanted, done, is_wanted)

    # What clients do.

    def begin(self, name: str) -> InitProducerIdResponse:
        """A producer's id and epoch; what it left open before is aborted."""
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        for _ in range(3):  # Ids come by the block, and what was left open ends first.
            answer: InitProducerIdResponse = self._ask(request, 4)
            if answer.error_code not in (
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.CONCURRENT_TRANSACTIONS,
            ):
                break
        self.given.add(answer.producer_id)
        return answer

    def leave_open(self, name: str, topic: str, value: int) -> InitProducerIdResponse:
        """A transaction with one record of `topic`; the id and epoch of its producer."""
        begun = self.begin(name)
        assert begun.error_code == 0
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        result = self._ask(added, CLASSIC).results_by_topic_v3_and_below[0].results_by_partition[0]
        assert result.partition_error_code == 0
        records = batch(
            b"%d" % value,
            base_sequence=0,
            transactional=True,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
        )
        request = produce_request(records, topic)
        request.transactional_id = name
        assert self.ask(request, 9).responses[0].partition_responses[0].error_code == 0
        return begun

    def transact(self, name: str, group_id: str, topic: str, offset: int, *, is_committed: bool) -> None:
        """One record of `topic` and one offset of `group_id`, in a transaction that is committed or aborted."""
        self.accounts.setdefault(("offset", group_id, topic), Account())  # The group is there from here on.
        begun = self.leave_open(name, topic, offset)
        producer_id, epoch = begun.producer_id, begun.producer_epoch
        offsets = AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
        )
        assert self._ask(offsets, CLASSIC).error_code == 0
        entry = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        commit = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        assert self._commit_in_transaction(commit).topics[0].partitions[0].error_code == 0
        end = EndTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=is_committed
        )
        if not is_committed:
            assert self._ask(end, CLASSIC).error_code == 0
            return
        key = ("committed", topic)
        before = self.accounts[key].sent[-1] if key in self.accounts else None
        self._change(
            {key: (*(before or ()), offset), ("offset", group_id, topic): (offset, -1, "")},
            lambda on_reply: self._ask(end, CLASSIC, on_reply),
            lambda answer: answer.error_code,
        )

    def _commit_in_transaction(self, request: TxnOffsetCommitRequest) -> Any:
        """As `GroupApis.txn_offset_commit` hands it over once the coordinator knows of the partition."""
        shard = self.runners[partition_for(request.group_id, SHARDS)].shard
        assert shard is not None
        verification = CommitVerification(request.producer_id)
        shard.verifications.add(verification)
        verified = TransactionalCommit(request, ErrorCode.NONE, verification)
        return self.group_request(request.group_id, verified, CLASSIC)

    def _ask(self, request: Any, version: int, on_reply: Callable[[Any], None] = lambda _: None) -> Any:
        asker = Listening(on_reply)
        self.transactions.request(request, RequestContext(asker, version, "client", "/127.0.0.1"))
        self.settle()
        return asker.answer


def committed_values(world: CrashWorld, topic: str) -> tuple[int, ...] | None:
    """What a reader of committed records finds, with a client's own work: leaving out what was aborted."""
    if world.registry.get(topic) is None:
        return None
    open_aborts: set[int] = set()
    values: list[int] = []
    offset, end = 0, 1
    while offset < end:  # One segment at a time.
        answer = fetch(world, topic, offset=offset, isolation_level=READ_COMMITTED)
        assert answer.error_code == 0
        end = answer.last_stable_offset
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or [])
        data = bytes(answer.records or b"")
        for each in walk(data):
            while aborted and aborted[0][0] <= each.last_offset:
                open_aborts.add(aborted.pop(0)[1])
            if each.is_control:
                open_aborts.discard(each.producer_id)
            elif each.producer_id not in open_aborts:
                values += [int(bytes(record.value or b"")) for record in read_records(data, each)]
            offset = each.last_offset + 1
    return tuple(values) or None
