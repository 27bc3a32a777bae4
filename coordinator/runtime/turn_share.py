"""How much of one turn of the event loop may go to work as it comes; what is beyond goes on in later turns.

A turn handles all that has happened since the last one, and that may be a thousand joins, or the replies to one
event of a group of thousands. As long as a turn has used little CPU, work is done where it comes up. Beyond that
it is put into a queue, in order, of which a slice is done in each turn; between the slices others are served. So
a turn has a bound, whatever comes. What may be put off is the caller's to say: an order to keep, such as that
of one connection, is kept by putting off all that follows as well.

CPU time is asked for where time has passed that could have used up the share, for a clock of CPU time is a system
call. Knows no sockets and no groups.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import structlog

log = structlog.get_logger("muster.runtime")

DIRECT_S: Final = 0.005
"""CPU seconds of a turn in which work is done as it comes up: some 25 joins, or 150 commits."""

SLICE_S: Final = 0.004
"""CPU seconds that go to the queue in each turn. With the other shares, with the answers that are written at a
turn's end, with a few ms for flushes, and with a collection of garbage, it makes less than 20 ms."""

LEAST_S: Final = 0.002
"""CPU seconds that joins, and timers that are due, are given in each turn, though all else has used it up: some 30
sessions that expire. One at a time, they would come to be faster than they are handled. The queue is given no more
after a piece of work that was long."""

LONG_S: Final = 0.006
"""CPU seconds beyond its share from which a piece of work was long: one event of a group of thousands."""

CHEAP: Final = 600
"""Heartbeats that were recognised by their bytes and whose answers are sent at once in one turn: 8 us each.
Without a bound a turn goes on for as long as a thousand clients send again within it, up to 48 times."""

CLOSINGS: Final = 100
"""Connections of clients that hung up, closed as they come up in one turn, and as many from a queue: 30 us each,
most of it the system's, behind the call that asks for it: the share does not see it."""

BUSY_SLICES: Final = 8
"""Slices after which `on_busy` is called, if none of them emptied the queue: some 300 joins."""

_ALWAYS: Final = 1 << 62


class Poll(Protocol):
    """The loop's poll for what is ready."""

    def end(self) -> None:
        """Have it report no more in this turn."""

    def go_on(self) -> None:
        """Have it report again."""

    def close(self) -> None:
        """Leave the loop as it was; before it is closed."""


class TurnShare:
    """The share of the turn that is under way, and the queue of what was put off. Event-loop thread only.

    A turn begins with `begin`, called by who sees the loop's turns; if nobody does, with the first work in it.
    """

    __slots__ = (
        "_ask_at_ns",
        "_began_s",
        "_busy_slices",
        "_call_soon",
        "_closings",
        "_closings_left",
        "_cpu_s",
        "_had_long",
        "_has_boundaries",
        "_is_over",
        "_is_scheduled",
        "_is_unlimited",
        "_limit_s",
        "_now_ns",
        "_queue",
        "cheap_left",
        "has_unread",
        "on_busy",
        "poll",
    )

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        cpu_s: Callable[[], float] = time.thread_time,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`cpu_s` is the CPU time of the loop's thread, `now_ns` any clock that runs no slower."""
        self._call_soon = call_soon
        self._cpu_s = cpu_s
        self._now_ns = now_ns
        self._queue: deque[Callable[[], None]] = deque()
        self._closings: deque[Callable[[], None]] = deque()
        self._closings_left = 0
        self._is_scheduled = False
        self._has_boundaries = False
        self._is_unlimited = False
        self._is_over = False
        self._had_long = False
        self._began_s: float | None = None
        self._limit_s = DIRECT_S
        self._ask_at_ns = 0
        self.poll: Poll | None = None
        """The poll that a turn ends once it has used up its share; None: it reports all that is ready."""
        self.has_unread = False
        """Whether this turn has ended its poll, so that sockets may be ready that nobody has looked at."""
        self.on_busy: Callable[[], None] | None = None
        """Called now and then while more is put off than is done."""
        self._busy_slices = 0
        self.cheap_left = 0
        """Answers so cheap that they are counted and not timed; who sends one takes one off."""

    def begin(self, cpu_s: float) -> None:
        """Begin a turn; the loop's thread has used `cpu_s` by now."""
        if self._is_unlimited:
            return
        self._has_boundaries = True
        if self.has_unread:
            self.has_unread = False
            assert self.poll is not None
            self.poll.go_on()
        self._began_s, self._limit_s = cpu_s, DIRECT_S
        self._ask_at_ns = 0
        self._is_over = self._had_long = False
        self.cheap_left = CHEAP
        self._closings_left = CLOSINGS

    def is_over(self) -> bool:
        """Whether what comes up from here on in this turn has to be put off, if it can be."""
        return self._now_ns() >= self._ask_at_ns and self._has_used_up()

    def grant(self) -> None:
        """Leave at least LEAST_S of this turn, for work that stands in a queue of its own."""
        if self._began_s is None or self._is_unlimited:
            return
        least_s = self._cpu_s() - self._began_s + LEAST_S
        if least_s > self._limit_s:
            self._limit_s = least_s
            self._ask_at_ns, self._is_over = 0, False

    def has_cheap(self) -> bool:
        """Whether one more cheap answer may be sent in this turn, where `cheap_left` says that none may."""
        if self._began_s is None and not self._is_unlimited:
            self._begin_unseen()
        if self.cheap_left > 0:
            return True
        self._end_poll()
        return False

    def _end_poll(self) -> None:
        if self.poll is not None and not self.has_unread:
            self.has_unread = True
            self.poll.end()

    def _has_used_up(self) -> bool:
        if self._is_over or self._is_unlimited:
            return self._is_over
        if self._began_s is None:
            self._begin_unseen()
        assert self._began_s is not None
        left_s = self._limit_s - (self._cpu_s() - self._began_s)
        if left_s <= 0:
            self._is_over = True
            self._end_poll()
            self._had_long = self._had_long or left_s <= -LONG_S
        self._ask_at_ns = self._now_ns() + int(left_s * 1e9)
        return self._is_over

    def _begin_unseen(self) -> None:
        """Begin a turn of a loop whose turns nobody reports; it ends with what the loop has to do next."""
        self._began_s, self._limit_s = self._cpu_s(), DIRECT_S
        self.cheap_left, self._closings_left = CHEAP, CLOSINGS
        self._call_soon(self._end_unseen)

    def _end_unseen(self) -> None:
        if not (self._has_boundaries or self._is_unlimited):
            self._began_s = None
            self._is_over = self._had_long = False
            self._ask_at_ns = self.cheap_left = self._closings_left = 0

    # What was put off.

    @property
    def has_put_off(self) -> bool:
        return bool(self._queue)

    def later(self, action: Callable[[], None]) -> None:
        """Do `action` behind all that was put off before it, and not within this call.

        It may put off its own rest, which follows in the same slice if that lasts.
        """
        self._queue.append(action)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._do_slice)

    def _do_slice(self) -> None:
        """Do what was put off, in order, until the slice is used up or the queue is empty."""
        queue = self._queue
        if not self._is_unlimited:
            self._began_s, self._limit_s = self._cpu_s(), LEAST_S if self._had_long else SLICE_S
            self._ask_at_ns, self._is_over = 0, False
        while queue:
            self._do(queue.popleft())
            if queue and self.is_over():
                self._call_soon(self._do_slice)
                self._count_busy()
                break
        else:
            self._is_scheduled = False
            self._busy_slices = 0
        if not (self._has_boundaries or self._is_unlimited):
            self._call_soon(self._end_unseen)

    def _count_busy(self) -> None:
        self._busy_slices += 1
        if self._busy_slices >= BUSY_SLICES and self.on_busy is not None:
            self._busy_slices = 0
            self.on_busy()

    def may_close(self) -> bool:
        """Whether one more connection whose client hung up may be closed in this turn; it counts."""
        if self._began_s is None and not self._is_unlimited:
            self._begin_unseen()
        self._closings_left -= 1
        if self._closings_left >= 0:
            return True
        self._end_poll()
        return False

    def close_later(self, close: Callable[[], None]) -> None:
        """Call `close` in one of the next turns, behind those that wait already."""
        if not self._closings:
            self._call_soon(self._close_some)
        self._closings.append(close)

    def _close_some(self) -> None:
        for _ in range(min(CLOSINGS, len(self._closings))):
            self._do(self._closings.popleft())
        if self._closings:
            self._call_soon(self._close_some)

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:  # A bug of ours; what was put off behind it belongs to others.
            log.exception("work that was put off failed")

    def stop(self) -> None:
        """Do all that was put off, and put off nothing from here on: the loop is about to stop."""
        self._is_unlimited, self._is_over = True, False
        self._ask_at_ns, self.cheap_left = _ALWAYS, _ALWAYS
        self._closings_left = _ALWAYS
        while self._queue or self._closings:
            self._do((self._queue or self._closings).popleft())


def unlimited(call_soon: Callable[[Callable[[], None]], object]) -> TurnShare:
    """Return a share that is never used up, for a loop whose turns nobody waits for."""
    share = TurnShare(call_soon)
    share.stop()
    return share
