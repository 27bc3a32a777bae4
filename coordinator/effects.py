"""What goes into the coordinator and what comes out: events, and the effects they ask for.

The coordinator is a function: `Shard.handle(event, now_ms)` returns a `Result`, and the runtime
carries it out. Nothing here knows a socket, a file or a clock; every time is an argument.
`now_ms` is monotonic and drives timers; `wall_ms` is the time of day and is what gets stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:  # Readers of events need neither checksums nor codecs: Spark's executors may lack both.
    from protocol.records.control import Marker

new_tuple: Final = tuple.__new__
"""Makes a named tuple in half of the time that its own class takes, all fields given. A commit makes a handful, a
fetch of offsets one for each partition."""

ReplyTo: TypeAlias = Hashable
"""Names one parked request: opaque here, a (connection, correlation id) to the server. Never a future."""


TimerKey: TypeAlias = Hashable
"""Names one deadline of a shard: one of the dataclasses in the `timers` module of its core."""


ProducerAndEpoch: TypeAlias = tuple[int, int]
"""Who writes a transactional batch: producer id and epoch."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of one event, on both clocks: ms of the monotonic one, and ms since the epoch."""

    now_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a handler may know of a request beside its body."""

    reply_to: ReplyTo
    api_version: int
    client_id: str
    client_host: str  # "/127.0.0.1", as Kafka shows it.
    new_uuid: str = ""  # A fresh UUID, given with JoinGroup only: member ids are made of it.


class RequestReceived(NamedTuple):
    """A decoded request for one shard. `request` is a message class of `protocol.messages`."""

    request: Any
    context: RequestContext
    wall_ms: int


class PreparedCommitReceived(NamedTuple):
    """An OffsetCommit that was not decoded: of a `PreparedCommit` that is current, with offsets of its own."""

    commit: Any
    offsets: Sequence[int]  # One for each partition of the commit, in its order.
    reply_to: ReplyTo
    wall_ms: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The deadline that a `SetTimer` armed under `key` has come."""

    key: TimerKey
    wall_ms: int


@dataclass(frozen=True, slots=True)
class AppendFinished:
    """`Result.then` handed back: NONE when its records are durable, else what the append failed with."""

    then: object
    error: ErrorCode
    wall_ms: int


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone: offsets committed for it go too (docs/kafka.md O23)."""

    topic: str
    topic_id: bytes
    wall_ms: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """`MarkersWanted.then` handed back: the marker is durable on every partition that still exists."""

    then: object
    wall_ms: int


Event: TypeAlias = (
    RequestReceived | PreparedCommitReceived | TimerFired | AppendFinished | TopicDeleted | MarkersWritten
)


class Appendable(Protocol):
    """What a Result may append: a `CoordinatorRecord`, or several records of the log in a form of their own."""

    @property
    def count(self) -> int:
        """Number of records of the log."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record of the offsets log, typed: `key` and `value` are classes of `record_schemas`.

    A `value` of None is a tombstone.
    """

    key: Any
    value: Any | None
    count: ClassVar[int] = 1  # A run has more.


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits of many partitions of one topic in one request, by columns: as many records of the log.

    None has a note, or an expiry of its own; those are single records.
    """

    group_id: str
    topic: str
    topic_id: bytes
    commit_wall_ms: int
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]

    @property
    def count(self) -> int:
        """Number of records in this run."""
        return len(self.partitions)


Records: TypeAlias = tuple[Appendable, ...]


class Reply(NamedTuple):
    """An answer to one parked request.

    `reveals_stored` is False for answers that show nothing the log holds (Heartbeat; a refusal): those leave at
    once. All others leave when the log is durable up to what their handler had seen.
    """

    reply_to: ReplyTo
    response: Any
    reveals_stored: bool = True


class SetTimer(NamedTuple):
    """Arm `key` at `deadline_ms` (monotonic), replacing what it had; None cancels it."""

    key: TimerKey
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class MarkersWanted:
    """A transaction has ended: write `marker` to each of `partitions` until all have it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]
    then: object  # Handed back as `MarkersWritten`.


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """One line of a group's history, for people: what changed, why, and who made it change."""

    group_id: str
    generation_id: int
    from_state: str
    to_state: str
    reason: str
    wall_ms: int
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    member_count: int = 0
    phase_ms: dict[str, int] = field(default_factory=dict)  # Time spent in the phase that ended, by its name.
    last_member_id: str | None = None  # The last to arrive, where a phase waited for members.
    cause: str = ""  # The slug of a `CauseKind`; "" in events of a version that had none.
    client_reason: str | None = None  # What the client itself said (KIP-800); `reason` has it as well.
    last_client_id: str | None = None  # Client of the last to arrive, with its host and when it came.
    last_client_host: str | None = None
    last_arrival_ms: int | None = None  # Since the phase began.
    removed_count: int = 0  # Members that are members no longer through this.
    removed_member_ids: tuple[str, ...] = ()  # The first few of these members.
    rebalance_cause: str | None = None  # Where a rebalance ended: the slug of what began it.
    rebalance_ms: dict[str, int] = field(default_factory=dict)  # And its time in each phase, all attempts.
    dropped_count: int = 0  # Events that are missing here, of any groups: the queue to the topic was full.


class Result(NamedTuple):
    """What one event asks of the world; the runtime does it in this order.

    Results add up: `a + b` asks for all of `a` and then all of `b`. At most one of them may name `then`.
    """

    records: Records = ()  # Appended to the offsets partition as one atomic batch, and replayed.
    replies: tuple[Reply, ...] = ()  # Sent once the log is durable up to what this handler has seen.
    timers: tuple[SetTimer, ...] = ()  # Armed at `deadline_ms`; cancelled if that is None.
    history: tuple[GroupEvent, ...] = ()  # What happened and why, for people.
    then: object | None = None  # Handed back as `AppendFinished` with the outcome of the append.
    superseded: tuple[ReplyTo, ...] = ()  # Parked requests that a newer one replaced: never answered (3.26).
    markers: tuple[MarkersWanted, ...] = ()  # Begun when the records, and all before them, are durable.
    atomic: bool = True  # False: the records may be cut into several batches, so none is ever too large.
    producer: ProducerAndEpoch | None = None  # The records are a transactional batch of this one's (O14).

    def __add__(self, other: Result) -> Result:  # type: ignore[override]
        """A result that asks for both, this one first."""
        if self is NOTHING or other is NOTHING:
            return other if self is NOTHING else self
        return combine((self, other))


def combine(results: Iterable[Result]) -> Result:
    """All of `results`, in order; at most one of them may name `then`."""
    # Field by field and without generators: a join adds up five of these, and took a fifth of its time for that.
    records: list[Appendable] = []
    replies: list[Reply] = []
    timers: list[SetTimer] = []
    history: list[GroupEvent] = []
    superseded: list[ReplyTo] = []
    markers: list[MarkersWanted] = []
    thens: list[object] = []
    producers: set[ProducerAndEpoch | None] = set()
    atomic = True
    for part in results:
        if part.records:
            records += part.records
            producers.add(part.producer)
        replies += part.replies
        timers += part.timers
        history += part.history
        superseded += part.superseded
        markers += part.markers
        if part.then is not None:
            thens.append(part.then)
        atomic = atomic and part.atomic
    assert len(producers) <= 1, "a batch is of one producer"
    assert len(thens) <= 1, "one event waits for one append"
    return Result(
        tuple(records),
        tuple(replies),
        tuple(timers),
        tuple(history),
        thens[0] if thens else None,
        tuple(superseded),
        tuple(markers),
        atomic,
        producers.pop() if producers else None,
    )


NOTHING: Final = Result()
