"""A loop that always has more to do than a turn takes: deadlines and joins keep their share of it.

The loop and its clocks are the test's: what is done takes its time, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs

from coordinator.runtime.clock import STALL_MS, Clock
from coordinator.runtime.loop import Runtime
from coordinator.runtime.turn_share import DIRECT_S, LEAST_S, SLICE_S, TurnShare
from storage.flusher import Flusher

REQUEST_S = 0.0005
CLIENTS = 1_000
ROUND_MS = round(CLIENTS * REQUEST_S * 1000)
"""Time until each client's request was handled once, and the next one of each stands in the queue."""

TURN_S = DIRECT_S + SLICE_S + 2 * LEAST_S
"""What a turn may take: the direct share, the queue, and least shares of the joins and of the deadlines."""


AT_MOST: Final = 2 * (SLICE_S + LEAST_S) / LEAST_S
"""Time that work with a least share may take, to the work itself: as beside the queue alone, and as much again."""


class Busy:
    """A loop whose clients send the next request as soon as one is handled."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.joins: list[int] = []
        self.fired: list[int] = []
        self._ready: list[Callable[[], None]] = []
        self._alarms: list[tuple[float, SimpleNamespace, Callable[[], None]]] = []
        self.share = TurnShare(self.call_soon, lambda: self.now_s, lambda: int(self.now_s * 1e9))
        self.clock = Clock(lambda: int(self.now_s * 1e9), lambda: 0)
        self.flusher, loop = Flusher(1, self.call_soon), cast(Any, self)
        self.runtime = Runtime(self.clock, self.flusher, lambda _: None, 1 << 20, loop, turn=self.share)
        for _ in range(CLIENTS):
            self.share.later(self._client)

    def call_soon(self, action: Callable[..., None], *arguments: Any) -> None:
        self._ready.append(partial(action, *arguments))

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Any:
        handle = SimpleNamespace(is_cancelled=False)
        handle.cancel = lambda: setattr(handle, "is_cancelled", True)
        self._alarms.append((self.now_s + delay_s, handle, action))
        return handle

    def _client(self) -> None:
        self.now_s += REQUEST_S
        self.share.later(self._client)

    def join(self, number: int) -> None:
        """As `Runtime.join` does it, with this for the runner of the shard."""
        self.runtime._joins.add(self, number, cast(Any, None))

    def request(self, request: int, context: Any) -> None:
        self.now_s += REQUEST_S
        self.joins.append(request)

    def timer_fired(self, key: int) -> None:
        self.now_s += REQUEST_S
        self.fired.append(key)

    def turn(self) -> None:
        self.share.begin(self.now_s)
        due = [alarm for alarm in self._alarms if alarm[0] <= self.now_s]
        self._alarms = [alarm for alarm in self._alarms if alarm[0] > self.now_s]
        for _, handle, action in due:
            if not handle.is_cancelled:
                action()
        ready, self._ready = self._ready, []
        for action in ready:
            action()

    def run_ms(self, duration_ms: float) -> None:
        """Do turns for so long."""
        end_s = self.now_s + duration_ms / 1000
        while self.now_s < end_s:
            self.turn()


@pytest.fixture
def busy() -> Iterator[Busy]:
    made = Busy()
    yield made
    made.flusher.close()


def test_a_loop_that_is_busy_is_not_taken_for_one_that_was_stopped(busy: Busy) -> None:
    """Deadlines stand behind what was received before them; their clock goes on meanwhile."""
    assert ROUND_MS > STALL_MS
    for number in range(5):
        busy.runtime.set_timer(busy, number, busy.clock.now_ms() + ROUND_MS * number)
    with capture_logs() as logs:
        busy.run_ms(10 * ROUND_MS)
    assert logs == []
    assert busy.fired == list(range(5))
    assert busy.clock.now_ms() == int(busy.now_s * 1e9) // 1_000_000, "nothing was left out"


def test_joins_go_on_beside_all_else(busy: Busy) -> None:
    """One in a turn would be a minute for a group of thousands."""
    busy.run_ms(ROUND_MS)
    count = 400
    for number in range(count):
        busy.join(number)
    busy.run_ms(AT_MOST * count * REQUEST_S * 1000)
    assert busy.joins == list(range(count))


def test_deadlines_go_on_beside_all_else(busy: Busy) -> None:
    """They stand behind what was received before they were due, not behind what came since."""
    count = 400
    for number in range(count):
        busy.runtime.set_timer(busy, number, busy.clock.now_ms())
    busy.run_ms(ROUND_MS * TURN_S / SLICE_S + AT_MOST * count * REQUEST_S * 1000)
    assert busy.fired == list(range(count))


def test_a_turn_has_a_bound_with_all_of_them(busy: Busy) -> None:
    for number in range(400):
        busy.join(number)
        busy.runtime.set_timer(busy, number, busy.clock.now_ms())
    longest_s = 0.0
    while len(busy.fired) < 400:
        began_s = busy.now_s
        busy.turn()
        longest_s = max(longest_s, busy.now_s - began_s)
    assert longest_s <= TURN_S + 3 * REQUEST_S, "each part may be late by its last piece"
