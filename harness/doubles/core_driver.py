"""Carries out what a core without I/O asks for, without a log on a disk, sockets, threads or a clock.

`CoreDriver` hands events to one shard, of groups or of transactions, and its results to a method for each kind of
effect, in the order of `Result`'s fields; a kind of effect that a driver does not expect is an error, never
dropped. `ClockedDriver` is one whose time a test moves and which keeps timers and replies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from coordinator.effects import (
    Appendable,
    Event,
    GroupEvent,
    MarkersWanted,
    ProducerAndEpoch,
    Reply,
    ReplyTo,
    RequestContext,
    RequestReceived,
    Result,
    SetTimer,
    TimerFired,
    Work,
)
from coordinator.history.events import worded
from protocol.codec.codec import encode

WALL_START_MS = 1_700_000_000_000


def uuid_of(token: int) -> str:
    """The UUID that a request of this token brings, for a member id."""
    return str(UUID(int=token))


class Core(Protocol):
    """A shard of any kind, as far as a driver calls it."""

    def handle(self, event: Event, now_ms: int) -> Result: ...
    def loaded(self, now_ms: int, wall_ms: int) -> Result: ...


C = TypeVar("C", bound=Core)


class CoreDriver(ABC, Generic[C]):
    """Drives `shard`; a subclass decides what each kind of effect does."""

    shard: C

    def handle_at(self, event: Event, now_ms: int) -> Result:
        """Hand `event` to the shard, carry out its result, and return that result."""
        result = self.shard.handle(event, now_ms)
        self.carry_out(self.accepted(event, result))
        return result

    def carry_out(self, result: Result) -> None:
        for record in result.records:
            self.append(record, result.producer)
        if result.then is not None:  # Its append begins here; `then` is handed back when that has ended.
            self.await_append(result.then)
        for reply in result.replies:
            self.answer(reply)
        for timer in result.timers:
            self.set_timer(timer)
        for row in result.history:
            self.record_event(worded(row))
        for reply_to in result.superseded:
            self.supersede(reply_to)
        for wanted in result.markers:
            self.want_markers(wanted)
        for work in result.background:
            self.begin_work(work)
        if result.released is not None:
            self.handle_released(result.released)

    def accepted(self, event: Event, result: Result) -> Result:
        """The part of `result` that is carried out: all of it, unless a subclass's log refuses its records."""
        return result

    @abstractmethod
    def append(self, record: Appendable, producer: ProducerAndEpoch | None) -> None:
        """Keep the record and have the shard replay it."""

    @abstractmethod
    def answer(self, reply: Reply) -> None: ...

    @abstractmethod
    def set_timer(self, timer: SetTimer) -> None: ...

    def await_append(self, then: Any) -> None:
        """Hand `then` back as `AppendFinished`, after the rest of its result has been carried out."""
        raise AssertionError(f"nothing hands back {then}")

    def record_event(self, event: GroupEvent) -> None:
        raise AssertionError(f"nothing records {event}")

    def supersede(self, reply_to: ReplyTo) -> None:
        raise AssertionError(f"no request is superseded here: {reply_to}")

    def want_markers(self, wanted: MarkersWanted) -> None:
        raise AssertionError(f"nothing writes {wanted}")

    def begin_work(self, work: Work) -> None:
        raise AssertionError(f"nobody does {work}")

    def handle_released(self, group_id: str) -> None:
        raise AssertionError(f"nothing of {group_id} had to wait")


@dataclass(kw_only=True)
class ClockedDriver(CoreDriver[C]):
    """Time stands still until `advance`; every reply is kept, after encoding it in its request's version."""

    now_ms: int = 1_000
    timers: dict[Hashable, int] = field(default_factory=dict)
    replies: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tokens = count(1)
        self._versions: dict[Hashable, int] = {}
        self._answered: set[Hashable] = set()
        self.load()

    @abstractmethod
    def read_log(self) -> C:
        """A new shard that has replayed the log."""

    @property
    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms

    def load(self, wall_moves_ms: int = 0) -> None:
        """Start again on a shard that has replayed the log, with the wall clock moved by `wall_moves_ms`."""
        self.timers.clear()
        self.shard = self.read_log()
        self.carry_out(self.shard.loaded(self.now_ms, self.wall_ms + wall_moves_ms))

    def handle(self, event: Event) -> Result:
        return self.handle_at(event, self.now_ms)

    def send(self, request: Any, version: int, client_id: str = "client", host: str = "/10.0.0.1") -> int:
        """Hand `request` to the shard; return the token under which `replies` will have the reply."""
        token = next(self._tokens)
        self._versions[token] = version
        context = RequestContext(token, version, client_id, host, uuid_of(token))
        self.handle(RequestReceived(request, context, self.wall_ms))
        return token

    def call(self, request: Any, version: int, client_id: str = "client") -> Any:
        """Send `request` and return its reply, which the shard must give at once."""
        return self.replies.pop(self.send(request, version, client_id))

    def answered(self, token: Hashable | None) -> bool:
        return token in self.replies

    def answer(self, reply: Reply) -> None:
        assert reply.reply_to not in self._answered, "a request is answered once"
        self._answered.add(reply.reply_to)
        encode(reply.response, self._versions[reply.reply_to])
        self.replies[reply.reply_to] = reply.response

    def set_timer(self, timer: SetTimer) -> None:
        self.timers.pop(timer.key, None)
        if timer.deadline_ms is not None:
            self.timers[timer.key] = timer.deadline_ms

    def advance(self, ms: int) -> None:
        """Move time on by `ms`, firing every timer at its deadline."""
        target = self.now_ms + ms
        while due := [(deadline, i) for i, deadline in enumerate(self.timers.values()) if deadline <= target]:
            deadline, position = min(due)
            key = list(self.timers)[position]
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline)
            self.handle(TimerFired(key, self.wall_ms))
        self.now_ms = target
