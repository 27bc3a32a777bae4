"""Sees what the transaction coordinator stores and answers, and says when a promise of transactions is broken.

A transaction that was decided keeps its outcome, in every life; an answer is covered by what is durable; a shard
that is read holds what its log says; no two transactional ids share a producer id. What a producer was promised
about its offsets is held against the log of the groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from coordinator.effects import Event, Result, TimerFired
from coordinator.transactions.record_schemas import TransactionLogValue
from coordinator.transactions.records import decode_record
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from coordinator.transactions.timers import TransactionTimer
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.records import parse_header, read_records
from tests.simulation.call import Call
from tests.simulation.log_facts import LogFacts, OffsetKey

if TYPE_CHECKING:
    from tests.simulation.disk import Log
    from tests.simulation.server import Server

OUTCOMES: Final = {
    PREPARE_COMMIT: True,
    COMPLETE_COMMIT: True,
    PREPARE_ABORT: False,
    COMPLETE_ABORT: False,
}
COMPLETED: Final = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}


class TransactionWitness:
    """`violated` is called with each promise that is broken."""

    def __init__(self, facts: LogFacts, violated: Callable[[str], None]) -> None:
        self.markers_again = 0  # Transactions that a load found decided and not completed.
        self._facts = facts
        self._violated = violated
        self._newest: dict[str, TransactionLogValue] = {}  # Of each transactional id, durable.
        self._owners: dict[int, str] = {}  # Of producer ids.
        self._due_at: dict[int, tuple[Any, Log, int]] = {}  # By call: answer, log, and how far it has seen.
        self._aborted: dict[OffsetKey, set[int]] = {}
        self._unsure: list[dict[OffsetKey, int]] = []

    # The log.

    def on_durable(self, log: Log, data: bytearray) -> None:
        """A batch of the transaction log is on the disk."""
        for each in read_records(data, parse_header(data)):
            record = decode_record(each.key, each.value)
            assert record is not None, "the daemon wrote what it cannot read"
            self._take(record.key.transactional_id, record.value)

    def _take(self, transactional_id: str, value: TransactionLogValue | None) -> None:
        before = self._newest.get(transactional_id)
        decided = None if before is None else COMPLETED.get(before.transaction_status)  # type: ignore[call-overload]
        if decided is not None and (value is None or value.transaction_status != decided):
            self._violated(f"{transactional_id} was decided as {before}, and is {value}")
        if value is None:
            self._newest.pop(transactional_id, None)
        else:
            self._newest[transactional_id] = value

    def on_loaded(self, shard: TransactionShard) -> None:
        """A shard was read: what the log says is what it holds."""
        held = {
            each.transactional_id: (each.producer_id, each.producer_epoch, int(each.state))
            for each in shard.transactions
        }
        said = {
            transactional_id: (value.producer_id, value.producer_epoch, value.transaction_status)
            for transactional_id, value in self._newest.items()
        }
        if held != said:
            self._violated(f"transactions were read as {held}, the log says {said}")
        self.markers_again += sum(status in COMPLETED for _, _, status in said.values())

    # Requests.

    def before_reply(self, result: Result, log: Log, position: int) -> None:
        """A shard has handled an event; what it stores ends at `position`."""
        for reply in result.replies:
            if reply.reveals_stored and isinstance(reply.reply_to, Call):
                self._due_at[id(reply.reply_to)] = (reply.response, log, position)

    def on_made(self, call: Call, response: Any) -> None:
        made, log, position = self._due_at.pop(id(call), (None, None, 0))
        if made is response and log is not None and log.durable_offset < position:
            self._violated(f"answered at {log.durable_offset}, had seen {position}: {call.request}")

    def on_answer(self, call: Call, response: Any) -> None:
        match call.request:
            case InitProducerIdRequest() if not response.error_code:
                transactional_id = call.request.transactional_id or ""
                owner = self._owners.setdefault(response.producer_id, transactional_id)
                if owner != transactional_id:
                    self._violated(f"{call.request} was given the producer id of {owner}")
            case EndTxnRequest() if not response.error_code:
                self._check_decided(call.request)

    def _check_decided(self, request: EndTxnRequest) -> None:
        newest = self._newest.get(request.transactional_id)
        outcome = None if newest is None else OUTCOMES.get(newest.transaction_status)  # type: ignore[call-overload]
        if outcome is not request.committed:
            self._violated(f"{request} was granted, on the disk is {newest}")

    def on_crash(self) -> None:
        self._due_at.clear()

    # What producers know.

    def on_aborted(self, held: dict[OffsetKey, int]) -> None:
        """A producer knows that these offsets never count."""
        for key, offset in held.items():
            self._aborted.setdefault(key, set()).add(offset)

    def on_unsure(self, held: dict[OffsetKey, int]) -> None:
        """A producer was fenced before it knew what became of these: all of them count, or none."""
        self._unsure.append(held)

    def check_outcomes(self) -> None:
        """In peace: of what was aborted nothing counts, and no transaction counts in part."""
        for key, offsets in self._aborted.items():
            if counted := offsets & self._facts.was_committed[key].keys():
                self._violated(f"{key} {counted} of aborted transactions count")
        for held in self._unsure:
            counts = {self._counts(key, offset) for key, offset in held.items()} - {None}
            if len(counts) > 1:
                self._violated(f"of one transaction some count, and some do not: {held}")

    def _counts(self, key: OffsetKey, offset: int) -> bool | None:
        """None if a tombstone took it along."""
        if offset in self._facts.was_committed[key]:
            return True
        was_held = self._facts.was_held[key].get(offset, 0)
        return None if self._facts.was_deleted.get(key, -1) > was_held else False


class WatchedTransactions(TransactionShard):
    """A shard that shows the witness what it does."""

    def __init__(self, server: Server, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._server = server

    def handle(self, event: Event, now_ms: int) -> Result:
        witness = self._server.witness
        try:
            result = super().handle(event, now_ms)
        except Exception as error:
            witness.violated(f"a bug: {error!r} on {event}")
            raise
        if isinstance(event, TimerFired) and isinstance(event.key, TransactionTimer) and result.records:
            witness.marks.reach("transaction_timed_out")
        runner = self._server.transaction_runners[self.partition]
        witness.transactions.before_reply(
            result, self._server.transaction_logs[self.partition], runner.position + len(result.records)
        )
        return result

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        result = super().loaded(now_ms, wall_ms)
        self._server.witness.transactions.on_loaded(self)
        return result
