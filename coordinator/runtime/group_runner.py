"""The runner of a shard of groups: a `ShardRunner` that also writes the markers that end transactions.

A transaction that committed offsets has its records in this log, and ends with a control batch in the same log.
The marker is appended after the open batch, replayed like a record, and is complete when it is durable: only
then do answers show what it decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.effects import MarkerReceived
from coordinator.runtime.shard_runner import NO_ROOM_ANSWER, ShardRunner, log
from coordinator.runtime.shard_states import ACTIVE, LOADING
from coordinator.shard.healing import healing_records
from coordinator.shard.shard import Shard
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker
from storage.producers.producer_checks import ProducerError, check_marker

MARKER_ANSWER: Final = dict.fromkeys(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Errors as the sender of markers expects them: it knows partition leaders, and tries again on this error."""


class GroupRunner(ShardRunner[Shard]):
    """Drives one shard of groups; all calls on the event-loop thread."""

    def write_marker(self, marker: Marker, done: OnDone) -> None:
        """Write a marker, which ends its producer's transaction here; call `done` when it is durable.

        Errors: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; those on which to try again are
        NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
        """
        self.gathered.handle()  # The marker stands behind them; and they may end the log's epoch.
        error = self._marker_error(marker)
        if error:
            done(MARKER_ANSWER.get(error, error))
            return
        # Before the event: if that ends the log's epoch, this waits like all else, and is answered with it.
        self.durable_log.when_durable(
            self.position + 1, lambda outcome: done(MARKER_ANSWER.get(outcome, outcome))
        )
        self.handle(MarkerReceived(marker, self._host.wall_ms()))

    def heal(self, keys: Iterable[bytes]) -> None:
        """Write again what is stored under these keys: another has written there, which this shard has not read.

        It changes nothing that is stored, so nothing is replayed. Only while the shard may write.
        """
        shard, wall_ms = self.shard, self._host.wall_ms()
        assert shard is not None, "what is not loaded knows nothing better"
        for record in healing_records(shard, keys, wall_ms):
            if not self._open_batch.add((record,), wall_ms):  # A key of others may be of any length.
                log.error("too large to be healed", partition=self.partition, size_bytes=record.size_bytes)
        self._host.on_dirty(self)

    def _marker_error(self, marker: Marker) -> ErrorCode:
        if self.state is not ACTIVE:
            is_loading = self.state is LOADING
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR
        if not self.may_write:
            return NO_ROOM_ANSWER
        state = self.log.producers.state
        assert state is not None, "a shard is loaded with the producers of its log"
        try:
            check_marker(state, marker)
        except ProducerError as refused:
            return refused.error
        return ErrorCode.NONE
