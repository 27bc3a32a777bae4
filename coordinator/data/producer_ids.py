"""Producer ids: numbers that no producer was ever given before, also across restarts (KIP-98).

Ids are handed out from blocks. The end of a block is first written to `producer-ids.json`, so a crash skips the
rest of the block and no id is given twice. A worker thread does the write; requests that come meanwhile wait for
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import structlog

from coordinator.topics.workers import Workers
from storage.files import Files, StorageError
from storage.sealed_json import read_sealed, write_sealed

FILE_NAME: Final = "producer-ids.json"
BLOCK_SIZE: Final = 1000  # As Kafka's: one write of the file for so many producers.
LAST_ID: Final = 2**63 - 1

OnProducerId = Callable[[int | None], None]
"""Called with a new id, or with None if the disk failed: then the producer may try again."""

log = structlog.get_logger("muster.topics")


class ProducerIds:
    """Hands out producer ids; every method runs on the event-loop thread, but `_write_next_block`."""

    def __init__(self, directory: Path, files: Files, workers: Workers) -> None:
        self._path = directory / FILE_NAME
        self._files = files
        self._workers = workers
        self._next = 0
        self._end = 0
        self._waiting: deque[OnProducerId] = deque()
        self._when_ready: list[Callable[[], None]] = []
        self._is_taking = False

    def give(self, on_id: OnProducerId) -> None:
        """Call `on_id` with an id that no producer had before: at once while the block lasts."""
        if self._next < self._end and not self._waiting:
            self._next += 1
            on_id(self._next - 1)
            return
        self._waiting.append(on_id)
        self._take_block()

    def take(self) -> int | None:
        """Return a new id; None if the block is used up: then the next block is requested."""
        if self._next < self._end:
            self._next += 1
            return self._next - 1
        self._take_block()
        return None

    def when_ready(self, done: Callable[[], None]) -> None:
        """Call `done` when `take` has an id, or the disk failed: at once, while the block lasts."""
        if self._next < self._end:
            done()
            return
        self._when_ready.append(done)
        self._take_block()

    def _take_block(self) -> None:
        if not self._is_taking:
            self._is_taking = True
            self._workers.submit(self._write_next_block, self._on_block_taken)

    def _write_next_block(self) -> int:
        """Write the next block's end to the disk and return the block's start; runs on a worker thread."""
        start = read_next_id(self._files, self._path.parent)
        if start > LAST_ID - BLOCK_SIZE:
            raise StorageError("read", self._path, "all producer ids have been used")
        write_sealed(self._files, self._path, {"next": start + BLOCK_SIZE})
        return start

    def _on_block_taken(self, taken: Future[int]) -> None:
        self._is_taking = False
        waiting, self._waiting = self._waiting, deque()
        try:
            self._next = taken.result()
        except StorageError as error:
            log.error("no producer ids", error=str(error))
            for on_id in waiting:
                on_id(None)
        else:
            self._end = self._next + BLOCK_SIZE
            for on_id in waiting:
                self.give(on_id)
        ready, self._when_ready = self._when_ready, []
        for done in ready:
            done()


def read_next_id(files: Files, directory: Path) -> int:
    """Return the first id of the next block, which no producer has. Raises StorageError."""
    return read_sealed(files, directory / FILE_NAME, "file of producer ids", _parse_next_id) or 0


def _parse_next_id(document: dict[str, Any]) -> int:
    start = document["next"]
    if type(start) is not int or start < 0:
        raise ValueError(f"next id {start!r}")
    return start
