"""The owner of the log of a topic's partition: after a failure the log is cut back on a thread, and serves on.

What producers sent counted what is cut off, so it is forgotten, and read again when next asked for. Where the log
cannot be cut back, or could not be opened at all, that is tried again, unless it is damaged.
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
    """A `LogOwner`; every method runs on the event-loop thread."""

    __slots__ = ("_durable_log", "_index", "_on_serving", "_topic", "_workers")

    def __init__(
        self,
        topic: str,
        index: int,
        durable_log: DurableLog,
        workers: Workers,
        on_serving: Callable[[], None],
    ) -> None:
        """`on_serving` is called when appends are taken again; the log's end may have gone back before."""
        self._topic = topic
        self._index = index
        self._durable_log = durable_log
        self._workers = workers
        self._on_serving = on_serving
        durable_log.claim(self)

    def begin(self) -> None:
        """Take appends, unless the log could not be opened."""
        self._report(self._durable_log.log.failure)

    def stage(self) -> None:
        """Nothing is gathered for a partition: every append is staged at once."""

    def on_failed(self, error: Exception | None) -> ErrorCode:
        if self._durable_log.is_closed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._durable_log.log.producers.state = None
        if error is not None and not (isinstance(error, StorageError) and error.is_no_room):
            log.error("partition failed", topic=self._topic, partition=self._index, error=str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR

    def recover(self, answer: ErrorCode) -> None:
        """Cut the log back on a thread, or open it."""
        epoch = self._durable_log.epoch
        self._workers.submit(self._durable_log.log.fail_back, lambda cut: self._on_cut_back(epoch, cut))

    def _on_cut_back(self, epoch: int, cut: Future[None]) -> None:
        if epoch != self._durable_log.epoch:
            return  # Its topic was to be deleted meanwhile.
        try:
            cut.result()
        except StorageError as error:
            self._report(error)
            return
        self._report(None)
        if self._durable_log.state is ACTIVE:
            self.on_resumed()

    def _report(self, error: StorageError | None) -> None:
        """What opening or cutting back came to; damage does not heal, and is left to an operator."""
        self._durable_log.recovered(error)
        if error is not None and not error.is_no_room:
            log.error("partition stays offline", topic=self._topic, partition=self._index, error=str(error))

    def on_resumed(self) -> None:
        log.info("partition serves again", topic=self._topic, partition=self._index)
        self._on_serving()
