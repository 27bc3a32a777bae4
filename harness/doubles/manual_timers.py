"""A clock and timers that a test moves by hand.

`RuntimeWorld` is built on it, and so are tests of parts that need no more of the runtime than that.
"""

from __future__ import annotations

from typing import Any


class ManualTimers:
    """A double of `DeadlineHost`: time stands still until a test moves it."""

    def __init__(self, time_ms: int = 1_000) -> None:
        self.time_ms = time_ms
        self.timers: dict[tuple[Any, Any], int] = {}
        """The deadlines of the timers that are set, by owner and key."""
        self.calls: list[tuple[Any, Any, int | None]] = []
        """The owner, key and deadline of every call of `set_timer`, in order."""

    def now_ms(self) -> int:
        return self.time_ms

    def set_timer(self, owner: Any, key: Any, deadline_ms: int | None) -> None:
        self.calls.append((owner, key, deadline_ms))
        if deadline_ms is None:
            self.timers.pop((owner, key), None)
        else:
            self.timers[owner, key] = deadline_ms

    def fire_due(self, within_ms: int = 0) -> None:
        """Fire now all that is due `within_ms` from now, unless a timer that fired before has cancelled it."""
        due_ms = self.time_ms + within_ms
        for key in [key for key, deadline_ms in self.timers.items() if deadline_ms <= due_ms]:
            if self.timers.pop(key, None) is not None:
                owner, timer = key
                owner.timer_fired(timer)

    def advance_to(self, time_ms: int) -> None:
        """Move the time on, and fire what is due on the way, each timer at its time."""
        while due := [
            (deadline_ms, key) for key, deadline_ms in self.timers.items() if deadline_ms <= time_ms
        ]:
            deadline_ms, key = min(due, key=lambda each: each[0])
            del self.timers[key]
            self.time_ms = max(self.time_ms, deadline_ms)
            owner, timer = key
            owner.timer_fired(timer)
        self.time_ms = time_ms
