"""Log lines at a bounded rate: some a second, and with the next one how many more there were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

SECOND_MS: Final = 1000


class BoundedLog:
    """Writes lines of one kind, `per_second` at most."""

    def __init__(self, write: Callable[..., object], now_ms: Callable[[], int], per_second: int) -> None:
        """`write(text, **fields)` writes a line; `now_ms` is monotonic."""
        self._write, self._now_ms, self._per_second = write, now_ms, per_second
        self._second_ms = -SECOND_MS
        self._left = 0
        self._more = 0

    def write(self, text: str, fields: Callable[[], dict[str, Any]]) -> None:
        """Write a line, or count it as one more; its fields are asked for only if it is written."""
        now_ms = self._now_ms()
        if now_ms - self._second_ms >= SECOND_MS:
            self._second_ms, self._left = now_ms, self._per_second
        if not self._left:
            self._more += 1
            return
        self._left -= 1
        more, self._more = self._more, 0
        self._write(text, **fields(), **({"and_more": more} if more else {}))
