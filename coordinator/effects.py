"""The inputs and outputs of the coordinator: events go in, and effects come out.

The coordinator is a function: `Shard.handle(event, now_ms)` returns a `Result`; the runtime carries it out. No
socket, file or clock is known here: `now_ms` is monotonic and drives timers, `wall_ms` is the time that is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

if TYPE_CHECKING:  # Readers of events need neither checksums nor codecs: Spark's executors may lack both.
    from protocol.records.control import Marker

new_tuple: Final = tuple.__new__
"""Makes a named tuple, from its class and all its fields, in half the time that calling the class takes. A commit
makes a handful, a fetch of offsets one for each partition."""

ReplyTo: TypeAlias = Hashable
"""Identifies one parked request: opaque here; the server's is a (connection, correlation id). Never a future."""


TimerKey: TypeAlias = Hashable
"""Identifies one timer of a shard: a dataclass of a `timers` module."""

ProducerAndEpoch: TypeAlias = tuple[int, int]
"""Producer id and epoch of a transactional batch."""


class Moment(NamedTuple):
    """The time of one event, on both clocks: ms of the monotonic one, and ms since the epoch."""

    now_ms: int
    wall_ms: int


class RequestContext(NamedTuple):
    """What a handler is given of a request beside its body."""

    reply_to: ReplyTo
    api_version: int
    client_id: str
    client_host: str  # "/127.0.0.1", as Kafka shows it.
    new_uuid: str = ""  # A fresh UUID to make a member id of; set for a request to join without one.
    describes: Callable[[str], bool] | None = None  # Which topics the client may know of; None: all.


class RequestReceived(NamedTuple):
    """A decoded request for one shard. `request` is an instance of a class of `protocol.messages`."""

    request: Any
    context: RequestContext
    wall_ms: int


class PreparedCommitReceived(NamedTuple):
    """An OffsetCommit that was not decoded: a current `PreparedCommit`, and the offsets of this request."""

    commit: Any
    offsets: Sequence[int]  # One for each partition of the commit, in its order.
    reply_to: ReplyTo
    wall_ms: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The deadline that a `SetTimer` set for `key` has passed."""

    key: TimerKey
    wall_ms: int


@dataclass(frozen=True, slots=True)
class AppendFinished:
    """`Result.then` handed back after its append; `error` is NONE once the records are durable."""

    then: object
    error: ErrorCode
    wall_ms: int


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """What a `Result.background` was done for: the outcome of its `run`."""

    outcome: object
    wall_ms: int


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic was deleted: the shard is to remove offsets committed for it (docs/kafka.md O23)."""

    topic: str  # Empty where only its id is known.
    topic_id: bytes
    wall_ms: int


@dataclass(frozen=True, slots=True)
class MarkerReceived:
    """A transaction coordinator ends the open transaction of a producer, as the log's producers allow it to."""

    marker: Marker
    wall_ms: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """`MarkersWanted.then` handed back once the marker is durable on every partition that still exists."""

    then: object
    wall_ms: int


Event: TypeAlias = (
    RequestReceived
    | PreparedCommitReceived
    | TimerFired
    | AppendFinished
    | WorkFinished
    | TopicDeleted
    | MarkerReceived
    | MarkersWritten
)


class Appendable(Protocol):
    """An entry of `Result.records`: a `CoordinatorRecord`, or the several records of a run or prepared commit."""

    @property
    def count(self) -> int:
        """Number of records that this entry is in the log."""
        ...


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record of the offsets log, typed: `key` and `value` are classes of `record_schemas`.

    A `value` of None is a tombstone.
    """

    key: Any
    value: Any | None
    count: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The commits of many partitions of one topic in one request, as columns; one log record for each.

    A commit with metadata or an expiry of its own is not part of a run, but a single record.
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


class Work(Protocol):
    """What takes too long between two events, and looks at nothing that changes: another thread does it."""

    def run(self) -> object:
        """Return the outcome, which is handed back as `WorkFinished`."""
        ...


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """The outcome of work that raised `error`, which concerns what it was for and no more; the runtime logs it."""

    error: Exception


@runtime_checkable
class SlicedWork(Protocol):
    """Work that may take as long as a client wants it to, so that it is done a slice at a time.

    `steps` yields again and again what it is at, the same object as long as that is the same step; if it is sent
    True it gives that step up. It returns the outcome.
    """

    def run(self) -> object: ...
    def steps(self) -> Generator[str, bool, object]: ...


def outcome_of(steps: Generator[str, bool, Any]) -> Any:
    """Take all the steps of a `SlicedWork`, however long that takes."""
    try:
        while True:
            next(steps)
    except StopIteration as ended:
        return ended.value


class Reply(NamedTuple):
    """The answer to one parked request.

    `reveals_stored` is False for answers that show nothing of the log (Heartbeat; a refusal): they are sent at
    once. All others are sent when the log is durable up to the last record that their handler had seen.
    """

    reply_to: ReplyTo
    response: Any
    reveals_stored: bool = True


class SetTimer(NamedTuple):
    """Set the timer `key` to `deadline_ms` (monotonic), replacing its deadline; None cancels it."""

    key: TimerKey
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class MarkersWanted:
    """Asks for `marker`, which ends a transaction, to be written to each of `partitions` until all have it."""

    marker: Marker
    partitions: tuple[TopicPartition, ...]
    then: object  # Handed back as `MarkersWritten`.


class HistoryRow(NamedTuple):
    """One change of a group as its handler records it: what happened, in plain values.

    A storm makes thousands while its joins wait to be answered. `coordinator.history` makes a `GroupEvent` of a
    row, with its reason in words, when it is read or written to the topic.
    """

    group_id: str
    generation_id: int
    from_state: str
    to_state: str
    cause: Any  # A `Cause`, with the first few of the members that it removed.
    wall_ms: int
    member_count: int
    removed_count: int
    phase: Mapping[str, Any] | None = None  # Further fields of the event, about the phase that ended.
    is_by_records: bool = False  # An effect of its `Result`'s records, so none if they are refused.


def rows_in_spite_of_refusal(rows: tuple[HistoryRow, ...]) -> tuple[HistoryRow, ...]:
    """Those that are true although the log refused the records: what a classic group did in memory."""
    return tuple(row for row in rows if not row.is_by_records)


@dataclass(frozen=True, slots=True)
class Observed:
    """What `muster observe` says of an event that it inferred from the records of another coordinator."""

    evidence: str  # A slug of `muster.observe.evidence.Evidence`: what the event, and so its cause, rests on.
    partition: int  # Of `__consumer_offsets`, and the offset of the record that showed it.
    offset: int
    leader_id: str | None = None
    members: tuple[Mapping[str, str | None], ...] | None = None  # Of the generation; None: not listed.
    missing_generations: tuple[int, int] | None = None  # The first and the last of those that are missing.


@dataclass(slots=True)  # Not frozen: one with so many fields would take four times as long to make.
class GroupEvent:
    """One line of a group's history, for people: what changed, why, and by which member or client."""

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
    last_member_id: str | None = None  # The last member to arrive, if the phase waited for members.
    cause: str = ""  # The slug of a `CauseKind`; "" in events of a version that had none.
    client_reason: str | None = None  # The client's own reason (KIP-800); `reason` includes it.
    last_client_id: str | None = None  # Client of the last member to arrive.
    last_client_host: str | None = None
    last_arrival_ms: int | None = None  # When: since the phase, or a consumer group's rebalance, began.
    last_group_instance_id: str | None = None
    last_given_up_count: int = 0  # Partitions that it gave up then.
    last_given_up: tuple[str, ...] = ()  # The first few of them, as "topic-partition".
    removed_count: int = 0  # Number of members that this removed from the group.
    removed_member_ids: tuple[str, ...] = ()  # The first few of the removed members.
    rebalance_cause: str | None = None  # If a rebalance ended: the slug of the cause that began it.
    rebalance_ms: dict[str, int] = field(default_factory=dict)  # And its time in each phase, all attempts.
    dropped_count: int = 0  # Events of any groups lost before this one: the queue was full.
    rebalance_timeout_ms: int | None = None  # Of the member; clients send their max.poll.interval.ms as that.
    session_timeout_ms: int | None = None  # Of the member, where it goes or is late;
    session_left_ms: int | None = None  # and how much of its session was left then.
    phase_timeout_ms: int | None = None  # If a phase of a classic group begins: how long it may last.
    observed: Observed | None = None  # None: the coordinator itself recorded the event.
    client_metrics: Mapping[str, int] | None = None  # What its client said of itself, where it goes.


class Result(NamedTuple):
    """The effects of one event; the runtime carries them out in the order of the fields.

    Only `marker` comes sooner, right behind the records. `a + b` asks for all of `a` and then all of `b`. At most
    one of them may have a `then`.
    """

    records: Records = ()  # Appended to the offsets partition as one atomic batch, and replayed.
    replies: tuple[Reply, ...] = ()  # Sent once the log is durable up to what this handler has seen.
    timers: tuple[SetTimer, ...] = ()  # Armed at `deadline_ms`; cancelled if that is None.
    history: tuple[HistoryRow, ...] = ()  # What happened and why, for people.
    then: object | None = None  # Handed back as `AppendFinished` with the outcome of the append.
    superseded: tuple[ReplyTo, ...] = ()  # Parked requests that a newer one replaced: never answered (3.26).
    markers: tuple[MarkersWanted, ...] = ()  # Begun when the records, and all before them, are durable.
    atomic: bool = True  # False: the records may be cut into several batches, so none is ever too large.
    producer: ProducerAndEpoch | None = None  # The records are a transactional batch of this producer (O14).
    marker: Marker | None = None  # Appended behind the records as a control batch, and replayed.
    background: tuple[Work, ...] = ()  # Begun when all else is done; not waited for.
    released: str | None = None  # A group of which the events that the shard held back are to be handled.

    def __add__(self, other: Result) -> Result:  # type: ignore[override]  # Results add up; a tuple's own `+` joins fields.
        """A result that asks for both, this one first."""
        if self is NOTHING or other is NOTHING:
            return other if self is NOTHING else self
        return combine((self, other))


class Effects:
    """Collects the effects of one event, in the order in which handlers append them; `result` is all of them.

    One object for each event, handed on and appended to: the effects of a join come from five functions, and to
    add up a `Result` of each took a fifth of its time.
    """

    __slots__ = ("atomic", "background", "history", "records", "replies", "superseded", "then", "timers")

    def __init__(self) -> None:
        self.records: list[Appendable] = []
        self.replies: list[Reply] = []
        self.timers: list[SetTimer] = []
        self.history: list[HistoryRow] = []
        self.superseded: list[ReplyTo] = []
        self.background: list[Work] = []
        self.then: object | None = None
        self.atomic = True

    def reply(self, reply_to: ReplyTo, response: Any, reveals_stored: bool = True) -> None:
        """Answer one parked request, as `Reply` says."""
        self.replies.append(new_tuple(Reply, (reply_to, response, reveals_stored)))

    def set_timer(self, key: TimerKey, deadline_ms: int | None) -> None:
        """Set the timer `key`, or cancel it if there is no deadline."""
        self.timers.append(new_tuple(SetTimer, (key, deadline_ms)))

    def hand_back(self, then: object) -> None:
        """Have `then` handed back with the outcome of the append; one event waits for one append."""
        assert self.then is None, "one event waits for one append"
        self.then = then

    def add(self, result: Result) -> None:
        """Append all that `result` asks for, which is no transactional batch."""
        assert result.producer is None, "a transactional batch is the only effect of its event"
        assert result.marker is None, "a marker is the only effect of its event"
        assert not result.markers, "no event of a group has markers written"
        self.records += result.records
        self.replies += result.replies
        self.timers += result.timers
        self.history += result.history
        self.superseded += result.superseded
        self.background += result.background
        if result.then is not None:
            self.hand_back(result.then)
        self.atomic = self.atomic and result.atomic

    def result(self) -> Result:
        """Return the effects collected so far."""
        return new_tuple(
            Result,
            (
                tuple(self.records),
                tuple(self.replies),
                tuple(self.timers),
                tuple(self.history),
                self.then,
                tuple(self.superseded),
                (),
                self.atomic,
                None,
                None,
                tuple(self.background),
                None,
            ),
        )


def combine(results: Iterable[Result]) -> Result:
    """Return one result that asks for all of `results`, in order; at most one may have a `then`."""
    parts = tuple(results)
    records: list[Appendable] = []
    replies: list[Reply] = []
    timers: list[SetTimer] = []
    history: list[HistoryRow] = []
    superseded: list[ReplyTo] = []
    markers: list[MarkersWanted] = []
    thens: list[object] = []
    producers: set[ProducerAndEpoch | None] = set()
    background: list[Work] = []
    for part in parts:
        if part.records:
            records += part.records
            producers.add(part.producer)
        replies += part.replies
        timers += part.timers
        history += part.history
        superseded += part.superseded
        markers += part.markers
        background += part.background
        thens += () if part.then is None else (part.then,)
        assert part.marker is None, "a marker is the only effect of its event"
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
        all(part.atomic for part in parts),
        producers.pop() if producers else None,
        None,
        tuple(background),
    )


NOTHING: Final = Result()
