"""The runner of a shard of groups: a `ShardRunner` that also writes the markers that end transactions.

A transaction that committed offsets has its records in this log, and ends with a control batch in the same log.
The marker is appended after the open batch, replayed like a record, and is complete when it is durable: only
then do answers show what it decided.
"""

from __future__ import annotations

from typing import Final

from coordinator.runtime.shard_runner import ACTIVE, LOADING, NO_ROOM_ANSWER, ShardRunner
from coordinator.shard.shard import Shard
from protocol.errors import ErrorCode, OnDone
from protocol.records.control import Marker, encode_marker
from storage.files import StorageError
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
        error = self._marker_error(marker)
        if not error:
            error = self._append_marker(marker)
        if error:
            done(MARKER_ANSWER.get(error, error))
        else:
            self.durable_log.when_durable(
                self.position, lambda outcome: done(MARKER_ANSWER.get(outcome, outcome))
            )

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

    def _append_marker(self, marker: Marker) -> ErrorCode:
        assert self.shard is not None
        wall_ms = self._host.wall_ms()
        try:
            self._open_batch.cut(wall_ms)
            batch = encode_marker(marker, base_offset=self.log.next_offset, wall_ms=wall_ms)
            self.durable_log.append(batch, wall_ms)
            self.shard.replay(marker, self.log.next_offset - 1)
        except Exception as error:  # The disk's or a bug, as in `ShardRunner._handle`.
            self._fail_on(error, marker)
            is_disk = isinstance(error, StorageError)
            return ErrorCode.KAFKA_STORAGE_ERROR if is_disk else ErrorCode.UNKNOWN_SERVER_ERROR
        self._host.on_dirty(self)
        return ErrorCode.NONE
