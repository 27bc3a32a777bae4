"""When a node is to begin to own a shard: what it was advised, and what gives it pause."""

from __future__ import annotations


class Advice:
    """The newest advice about one shard. It says when to begin, and never that there is no other owner."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._wanted_since_ms = 0
        self._blocked_until_ms = 0

    def take(self, is_wanted: bool, now_ms: int) -> None:
        """New advice, which also says that losing to another node is a matter of the past."""
        if is_wanted and (not self.is_wanted or self._blocked_until_ms > now_ms):
            self._wanted_since_ms = now_ms
        self.is_wanted = is_wanted
        self._blocked_until_ms = 0

    def block(self, until_ms: int) -> None:
        """Another node has won: without new advice do not begin before then."""
        self._blocked_until_ms = until_ms

    def open_at_ms(self, patience_ms: int) -> int:
        """When to begin, if an owner that has to let go is given so long for it."""
        return max(self._blocked_until_ms, self._wanted_since_ms + patience_ms)
