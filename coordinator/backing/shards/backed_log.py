"""The log of a shard whose batches go to Kafka: the part of `PartitionLog` that a runner and its `DurableLog` use.

Nothing of it is on a disk here. Offsets count from the owner's claim on, as the owner counts its own records: the
claims that it repeats take places in Kafka's log that it does not count, so they may lie below Kafka's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from protocol.records.batch import parse_header, set_base_offset
from storage.files import OnFlushed, StorageError
from storage.log.partition_log import Appended
from storage.producers.producer_state import ProducerState

NO_LEADER_EPOCH: Final = -1


STAGED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of all logs of a node together: Kafka takes nothing for a while now and then, and clients try on."""


class Room:
    """What all logs of a node have staged, and whether there may be more."""

    def __init__(self, limit_bytes: int = STAGED_BYTES_MAX) -> None:
        self.staged_bytes = 0
        self._limit_bytes = limit_bytes

    @property
    def is_left(self) -> bool:
        """Whether another write may be taken."""
        return self.staged_bytes < self._limit_bytes


class _Staged(NamedTuple):
    batch: bytearray
    record_count: int
    end_offset: int


@dataclass(slots=True)
class _InFlight:
    """A batch that was sent, whose outcome is not known yet."""

    end_offset: int
    number: int | None = None


class BackedLog:
    """Batches wait here until `hand_over` sends them, one after the other, and `written` says that one is kept."""

    log_start_offset = 0
    is_open = True
    is_written_behind = False
    failure: StorageError | None = None
    """Kafka's refusals end an ownership, and with it the log's epoch: see `BackedShard`."""

    def __init__(self, name: str, send: Callable[[bytearray, int], int], room: Room) -> None:
        """`send` takes a batch and the number of its records, and returns the number by which it is known."""
        self.room = room
        self.directory = Path(name)  # For messages.
        self.next_offset = self.durable_offset = 0
        self.producers: Any = SimpleNamespace(state=ProducerState(), settle=lambda: None)
        self._send = send
        self._staged: deque[_Staged] = deque()
        self._in_flight: _InFlight | None = None
        self._flush: tuple[int, OnFlushed] | None = None

    def begin(self, offset: int) -> None:
        """The owner's first record has this offset, or a later one."""
        self.next_offset = self.durable_offset = offset

    def append(self, batch: bytearray, *, wall_ms: int) -> Appended:
        """Stage a batch; a flush has to follow."""
        del wall_ms  # Kafka dates it.
        header = parse_header(batch)
        set_base_offset(batch, 0, NO_LEADER_EPOCH)  # Its place is the leader's to give, which insists on it.
        base_offset = self.next_offset
        self.next_offset += header.record_count
        self._staged.append(_Staged(batch, header.record_count, self.next_offset))
        self.room.staged_bytes += len(batch)
        return Appended(base_offset, self.next_offset - 1)

    def flush(self, done: OnFlushed) -> None:
        """Call `done` when all that is staged is kept, or the ownership is over. One flush at a time."""
        assert self._flush is None, "one flush at a time"
        self._flush = self.next_offset, done

    @property
    def has_work(self) -> bool:
        """Whether a flush has something to send."""
        return self._flush is not None and self._in_flight is None and bool(self._staged)

    def hand_over(self) -> None:
        """Send the next batch. Only while `has_work`, and while its owner can write."""
        staged = self._staged.popleft()
        self.room.staged_bytes -= len(staged.batch)
        # It is on its way before it is sent: what fails at that drops this log, which must not be undone by it.
        in_flight = self._in_flight = _InFlight(staged.end_offset)
        in_flight.number = self._send(staged.batch, staged.record_count)

    def written(self, number: int) -> None:
        """The batch of this number is kept."""
        in_flight, self._in_flight = self._in_flight, None
        assert in_flight is not None
        assert in_flight.number == number, "one batch at a time"
        self.durable_offset = in_flight.end_offset
        if self._flush is not None and self.durable_offset >= self._flush[0]:
            self._end_flush()

    def give_up(self) -> None:
        """Nothing that was not sent will be."""
        self._unstage()
        if self._in_flight is None:
            self.drop()

    def fail_back(self) -> None:
        """Raises StorageError: what was not kept is not cut off here, its owner reads all of it anew."""
        raise StorageError("fail back", self.directory, "its owner reads it anew")

    def drop(self) -> None:
        """The ownership is over: whatever is on its way, this node does not hear of it."""
        self._unstage()
        self._in_flight = None
        if self._flush is not None:
            self._end_flush()

    def _unstage(self) -> None:
        self.room.staged_bytes -= sum(len(each.batch) for each in self._staged)
        self._staged.clear()

    def _end_flush(self) -> None:
        assert self._flush is not None
        (_, done), self._flush = self._flush, None
        done(None)
