"""What a runner has to know of its kind of shard: its records, its error responses, and how it is loaded.

A shard is a function of its events and its log; there are shards of groups and shards of transactions. Their
runners - batches, the disk, failures, loading - are the same for both; the differences are in `ShardKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from coordinator.effects import Event, ProducerAndEpoch, Result, TimerKey
from protocol.errors import ErrorCode
from protocol.records.records import Batch
from protocol.records.records import Record as LogRecord
from protocol.records.run import Run

Batches: TypeAlias = Iterable[tuple[Batch, memoryview]]


class ShardCore(Protocol):
    """A shard as its runner sees it: used from one thread, every time is an argument."""

    @property
    def size(self) -> int:
        """Number of groups or transactional ids in this shard."""

    def handle(self, event: Event, now_ms: int) -> Result:
        """Return the effects of `event`."""

    def replay(self, entry: Any, offset: int, producer: ProducerAndEpoch | None = None) -> None:
        """Apply the entry that the log has at `offset`, in order."""

    def release(self, group_id: str) -> Event | None:
        """Return the next of a group's events that the shard held back (`Result.released`); None for none."""

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        """Begin to serve after the whole log has been replayed; return the effects of that."""

    def resume(self, now_ms: int) -> Result:
        """Begin to write again, after a time in which writing requests were refused and timers held back.

        Returns again the records that `loaded` returned, if they have not been written.
        """


S = TypeVar("S", bound=ShardCore)


class ShardTimer(NamedTuple):
    """The key under which a runner sets its shard's timer: with the epoch of the log at that time."""

    epoch: int
    key: TimerKey


class FinalState(NamedTuple):
    """The shard of a runner that was stopped, with the offset up to which it has replayed its log."""

    shard: Any
    position: int


@dataclass(frozen=True, slots=True)
class SnapshotKind(Generic[S]):
    """How the stored state of a kind of shards is left by a clean stop, and read by a start."""

    version: int  # Of what `encode` returns; another one is not read.
    encode: Callable[[S], Sequence[bytes | bytearray | memoryview]]
    restore: Callable[[memoryview, S], None]
    """Replays the state into a fresh shard. Raises DecodeError; the shard is then of no use."""


@dataclass(frozen=True, slots=True)
class ShardKind(Generic[S]):
    """A kind of shards: the functions and names that a runner needs."""

    partition_name: str  # What log lines call one of its partitions, such as "offsets partition".
    state_name: str  # What log lines call the state in it, such as "offsets".
    new_shard: Callable[[int], S]  # Creates an empty shard for a partition's number.
    replay_batches: Callable[[Batches, S], tuple[int, int]]
    """Replays a whole log into a fresh shard; returns the numbers of records and of unknown ones. Raises
    CorruptBatch, DecodeError."""
    encode: Callable[[Any, int], Sequence[LogRecord | Run]]
    """Encodes an entry of `Result.records`, as written at a wall time in ms. Raises EncodeError."""
    error_response: Callable[[Any, ErrorCode, int], Any]
    """Returns the error response to a request, in an API version."""
    loading_answer: Callable[[Any], ErrorCode]  # Returns the error for a request during loading.
    may_write: frozenset[type]
    """The classes of requests that are refused while the log is paused for want of disk space."""
    snapshots: SnapshotKind[S] | None = None  # None: the log is always replayed.
