"""Owner of the log of a topic's partition: after a failure it cuts the log back and takes appends again.

The log is cut back on a thread. The producers' state included the batches that are cut off, so it is dropped, and
read from the log again when it is needed.
A log that cannot be cut back, or could not be opened at all, is tried again, unless it is damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import structlog

from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode
from storage.files import StorageError
from storage.log.durable_log import DurableLog
from storage.log.log_states import ACTIVE

log = structlog.get_logger("muster.topics")


class CutBack:
    """The `LogOwner` of one partition's log; every method runs on the event-loop thread."""

    __slots__ = ("_durable_log", "_index", "_on_appends_resumed", "_topic", "_workers")

    def __init__(
        self,
        topic: str,
        index: int,
        durable_log: DurableLog,
        workers: Workers,
        on_appends_resumed: Callable[[], None],
    ) -> None:
        """`on_appends_resumed` is called when the log, cut back after a failure, takes appends again."""
        self._topic = topic
        self._index = index
        self._durable_log = durable_log
        self._workers = workers
        self._on_appends_resumed = on_appends_resumed
        durable_log.claim(self)

    def begin(self) -> None:
        """Let the log take appends, unless it could not be opened."""
        self._report(self._durable_log.log.failure)

    def stage(self) -> None:
        """Do nothing: a topic's partition stages every append at once, and has none gathered."""

    def on_failed(self, error: Exception | None) -> ErrorCode:
        if self._durable_log.is_closed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._durable_log.log.producers.state = None
        if error is not None and not (isinstance(error, StorageError) and error.is_no_room):
            log.error("partition failed", topic=self._topic, partition=self._index, error=str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def recover(self, answer: ErrorCode) -> None:
        """Cut the log back to its durable end, or open it, on a thread."""
        epoch = self._durable_log.epoch
        self._workers.submit(self._durable_log.log.fail_back, lambda cut: self._on_cut_back(epoch, cut))

    def _on_cut_back(self, epoch: int, cut: Future[None]) -> None:
        if epoch != self._durable_log.epoch:
            return  # The deletion of the topic has begun meanwhile.
        try:
            cut.result()
        except StorageError as error:
            self._report(error)
            return
        self._report(None)
        if self._durable_log.state is ACTIVE:
            self.on_resumed()

    def _report(self, error: StorageError | None) -> None:
        """Report how opening or cutting back ended: `error`, or None; damage is left to an operator."""
        self._durable_log.recovered(error)
        if error is not None and not error.is_no_room:
            log.error("partition stays offline", topic=self._topic, partition=self._index, error=str(error))

    def on_resumed(self) -> None:
        log.info("partition serves again", topic=self._topic, partition=self._index)
        self._on_appends_resumed()
