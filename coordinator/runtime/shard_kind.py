"""What a runner has to know of the kind of its shard: how its records and refusals look, and how it is loaded.

A shard is a function of its events and its log; there are shards of groups and shards of transactions. All that
drives them - batches, the disk, lives, loading - is the same for both, and what is not is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from coordinator.effects import Event, ProducerAndEpoch, Result, TimerKey
from protocol.errors import ErrorCode
from protocol.records.records import Batch
from protocol.records.records import Record as LogRecord
from protocol.records.run import RecordRun

Batches: TypeAlias = Iterable[tuple[Batch, memoryview]]


class ShardCore(Protocol):
    """A shard as its runner sees it: used from one thread, every time is an argument."""

    @property
    def size(self) -> int:
        """How many groups or transactional ids live here."""

    def handle(self, event: Event, now_ms: int) -> Result:
        """What `event` asks of the world."""

    def replay(self, entry: Any, offset: int, producer: ProducerAndEpoch | None = None) -> None:
        """Take in what the log has at `offset`, in order."""

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        """The whole log has been replayed; what bringing its state to life asks for."""

    def resume(self, now_ms: int) -> Result:
        """Writing is possible again, after a while in which timers and writing requests were kept away.

        Asks again for the records that `loaded` asked for, if they have not been written.
        """


S = TypeVar("S", bound=ShardCore)


class ShardTimer(NamedTuple):
    """The key of a shard's timer, with the epoch of the log in which it was set."""

    epoch: int
    key: TimerKey


@dataclass(frozen=True, slots=True)
class ShardKind(Generic[S]):
    """One kind of shards."""

    partition_name: str  # For the log lines: one partition of theirs,
    state_name: str  # and what is in it.
    new_shard: Callable[[int], S]  # By the number of the partition.
    replay_batches: Callable[[Batches, S], tuple[int, int]]
    """Replay a whole log into a fresh shard; how many records, how many of them unknown. Raises CorruptBatch,
    DecodeError."""
    encode: Callable[[Any, int], Sequence[LogRecord | RecordRun]]
    """What a shard of theirs appends, as it is written at a time of day. Raises EncodeError."""
    error_response: Callable[[Any, ErrorCode, int], Any]
    """The reply to a request of theirs, in an API version, that says one error of the log or the runner's."""
    loading_answer: Callable[[Any], ErrorCode]  # To a request that comes while the log is read.
    may_write: frozenset[type]
    """The requests that a shard does not take on while there is no room on the disk."""
