"""Pushes that wait to be decoded: one at a time, addresses in turn, and for a small share of the time.

Decoding is Python for the most part, so that a thread that decodes takes its time from the event loop. After each
push the queue rests for a multiple of the time that it took, whoever pushed it.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from coordinator.telemetry.payload import Said
from coordinator.topics.workers import Workers

MAX_WAITING: Final = 8
"""Pushes that may wait, so at most so many times `telemetry.max.bytes`; others are to come again."""

MAX_PER_ADDRESS: Final = 2
"""Of them, those from one address: another one's wait no longer for all that one pushes."""

REST: Final = 9
"""So many times the CPU time of a push passes until the next: decoding takes a tenth of one CPU at most."""


class Timer(Protocol):
    """What may still be called off."""

    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function on the event-loop thread after so many seconds: the loop's `call_later`."""


@dataclass(frozen=True, slots=True)
class Push:
    """One push: `decode` runs on a thread; `done` takes its outcome, or `drop` is called, on the loop's thread."""

    address: str
    decode: Callable[[], Said]
    done: Callable[[Future[Said]], None]
    drop: Callable[[], None]


class DecodeQueue:
    """The pushes that wait, by the address that they came from. All methods run on the event-loop thread."""

    def __init__(self, workers: Workers, later: Later, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """`cpu_s` returns the CPU time of the thread that calls it."""
        self._workers, self._later, self._cpu_s = workers, later, cpu_s
        self._waiting: OrderedDict[str, deque[Push]] = OrderedDict()  # The address whose turn it is first.
        self._count = 0
        self._is_decoding = False
        self._rest: Timer | None = None
        self._is_closed = False

    def has_room_for(self, address: str) -> bool:
        """Whether one more push from the address may wait."""
        if self._is_closed or self._count >= MAX_WAITING:
            return False
        return len(self._waiting.get(address, ())) < MAX_PER_ADDRESS

    def add(self, push: Push) -> None:
        """Decode a push that there is room for, when its turn comes."""
        self._waiting.setdefault(push.address, deque()).append(push)
        self._count += 1
        self._begin()

    def close(self) -> None:
        """Drop what waits. One that is being decoded still comes to its end."""
        self._is_closed = True
        if self._rest is not None:
            self._rest.cancel()
        waiting, self._count = self._waiting, 0
        self._waiting = OrderedDict()
        for pushes in waiting.values():
            for push in pushes:
                push.drop()

    def _begin(self) -> None:
        if self._is_decoding or self._rest is not None or not self._count:
            return
        push = self._next()
        spent_s = [0.0]

        def decode() -> Said:
            began_s = self._cpu_s()
            try:
                return push.decode()
            finally:
                spent_s[0] = self._cpu_s() - began_s

        self._is_decoding = True
        self._workers.submit(decode, lambda decoded: self._on_decoded(push, decoded, spent_s[0]))

    def _next(self) -> Push:
        address, pushes = self._waiting.popitem(last=False)
        push = pushes.popleft()
        self._count -= 1
        if pushes:
            self._waiting[address] = pushes  # Behind all others.
        return push

    def _on_decoded(self, push: Push, decoded: Future[Said], spent_s: float) -> None:
        self._is_decoding = False
        if not self._is_closed:
            self._rest = self._later(spent_s * REST, self._on_rested)
        push.done(decoded)

    def _on_rested(self) -> None:
        self._rest = None
        self._begin()
