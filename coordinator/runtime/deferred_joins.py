"""JoinGroups that carry a member id wait until the other requests of their turn of the loop were handled.

Such a join may be the last one that a join phase waits for, and then begins a generation. A member whose first
JoinGroup, still without an id, stands behind it in the same turn would not be in that generation: the next
rebalance would cost all members another JoinGroup. So the first requests are accepted before it: each makes a
pending id, for which the join phase waits. What waits here is handled in the order of arrival, a slice in each
turn, between which sockets are read. Deadlines that have passed wait for the joins that came before them.

Nothing of one connection overtakes its JoinGroup: a connection starts no request behind one that is unanswered.
Knows neither groups nor sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import structlog

from coordinator.effects import RequestContext

JOINS_PER_TURN: Final = 200
"""Joins handled in one turn: some 6 ms, and the end of a join phase as long as it takes."""

log = structlog.get_logger("muster.runtime")


class Joinable(Protocol):
    """The runner of a shard of groups."""

    def request(self, request: Any, context: RequestContext, /) -> None:
        """Handle one request."""


class DeferredJoins:
    """The queue of joins, one for each connection at most."""

    def __init__(
        self,
        soon: Callable[[Callable[[], None]], object],
        is_over: Callable[[], bool] = lambda: False,
        grant: Callable[[], None] = lambda: None,
    ) -> None:
        """`soon` has a function called in the next turn of the loop, before sockets are read.

        `is_over` says whether the turn has used up its share: then what is left waits for the next. `grant` asks
        for a least share, before a slice.
        """
        self._is_over, self._grant = is_over, grant
        self._soon = soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, runner: Joinable, request: Any, context: RequestContext) -> None:
        """Have `runner` handle `request` behind the other requests of this turn."""
        self.add_action(partial(runner.request, request, context))

    def add_action(self, action: Callable[[], None]) -> None:
        """Have `action` called behind the joins that wait now."""
        self._waiting.append(action)
        self._schedule()

    def handle_all(self) -> None:
        """Handle all that waits, as the daemon stops."""
        while self._waiting:
            self._handle_slice()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._on_turn)

    def _on_turn(self) -> None:
        self._is_scheduled = False
        self._grant()
        self._handle_slice()
        self._schedule()

    def _handle_slice(self) -> None:
        for _ in range(min(JOINS_PER_TURN, len(self._waiting))):
            action = self._waiting.popleft()
            try:
                action()
            except Exception:  # A bug of ours; the others that wait left their sockets with this one.
                log.exception("a deferred join failed")
            if self._is_over():
                return
