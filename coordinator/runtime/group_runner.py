"""The runner of a shard of groups: as any other, and it takes the markers that end transactions there.

A transaction that committed offsets has its records in this log, and ends with a control batch in the same log. So
the marker is written behind the batch that is open, replayed like a record, and is done when it is durable: from
then on whoever asks is told what it decided, and nobody before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator.effects import CommitRun, ProducerAndEpoch, Record
from coordinator.groups.classic.records import encode_commit_run
from coordinator.offsets.recommit import Recommit
from coordinator.runtime.held import Done
from coordinator.runtime.shard_runner import NO_ROOM_ANSWER, Asked, ShardRunner, ShardState
from coordinator.shard.shard import Shard
from coordinator.topics.producer_checks import ProducerError, check_marker
from protocol.errors import ErrorCode
from protocol.records.control import Marker, encode_marker
from protocol.records.records import Record as LogRecord
from protocol.records.run import RecordRun
from storage.files import StorageError

MARKER_ANSWER: Final = dict.fromkeys(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Whoever writes markers knows partitions, not their coordinators; it asks again on this one."""


class GroupRunner(ShardRunner[Shard]):
    """Drives one shard of groups; all calls on the event-loop thread."""

    @property
    def has_room(self) -> bool:
        """Whether the disk takes what the shard appends."""
        return not self._is_full

    def commit_again(
        self, recommit: Recommit, offsets: Sequence[int], reply_to: Any, answered: Callable[[], None]
    ) -> None:
        """Store these offsets of a commit that `may_be_stored`; the short way of `request`, with the same end.

        `answered` is called when they are durable. All else is answered through `reply_to`, as ever.
        """
        asked = self._current = Asked(reply_to, recommit.request, recommit.api_version)
        try:
            error = self._append_again(recommit, offsets)
        except Exception as failure:  # Ours or the log's, as in every event.
            self._fail_on(failure, recommit.request)
            return
        self._current = None
        if error:
            self._fail_one(asked, error)
        else:
            self._hold(lambda outcome: self._fail_one(asked, outcome) if outcome else answered())

    def _append_again(self, recommit: Recommit, offsets: Sequence[int]) -> ErrorCode:
        wall_ms, position = self._world.wall_ms(), self.position
        if not self._open.add(recommit.records(offsets, wall_ms), wall_ms):
            return ErrorCode.RECORD_LIST_TOO_LARGE
        recommit.replay(offsets, wall_ms, position)
        self._note_dirty()
        return ErrorCode.NONE

    def write_marker(self, marker: Marker, done: Done) -> None:
        """End the transaction of the marker's producer here; `done` is told when that is durable.

        Errors: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and, to be tried again,
        NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
        """
        error = self._marker_error(marker)
        if not error:
            error = self._append_marker(marker)
        if error:
            done(MARKER_ANSWER.get(error, error))
        else:
            self._hold(lambda outcome: done(MARKER_ANSWER.get(outcome, outcome)))

    def _marker_error(self, marker: Marker) -> ErrorCode:
        if self.shard is None:
            is_loading = self.state is ShardState.LOADING
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR
        if self._is_full:
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
        wall_ms = self._world.wall_ms()
        try:
            self._open.cut(wall_ms)
            batch = encode_marker(marker, base_offset=self.log.next_offset, wall_ms=wall_ms)
            self.log.append(batch, wall_ms=wall_ms)
            self.shard.end_transaction(marker)
        except Exception as error:  # Ours or the log's, as in every event.
            self._fail_on(error, marker)
            is_disk = isinstance(error, StorageError)
            return ErrorCode.KAFKA_STORAGE_ERROR if is_disk else ErrorCode.UNKNOWN_SERVER_ERROR
        self._note_dirty()
        return ErrorCode.NONE

    def _encoded(self, record: Record | CommitRun, wall_ms: int) -> LogRecord | RecordRun:
        if isinstance(record, CommitRun):
            return encode_commit_run(record, wall_ms)
        return super()._encoded(record, wall_ms)

    def _replay(self, record: Record | CommitRun, offset: int, producer: ProducerAndEpoch | None) -> None:
        assert self.shard is not None
        if isinstance(record, CommitRun):
            assert producer is None, "a transaction commits record by record"
            self.shard.replay_run(record, offset)
        elif producer is None:
            self.shard.replay(record, offset)
        else:
            self.shard.replay_transactional(producer, record, offset)
