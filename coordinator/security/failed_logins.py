"""Failed logins of the newest minute, by address and user: how much later than the first each further one ends.

F3. No name is locked out: a right password is as fast as ever, whatever was tried before it. No sockets; the time
is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

LONGEST_DELAY_MS: Final = 5_000
"""Beyond it a delay is not doubled: who waits longer has a connection fewer, and may take another address."""

REMEMBERED_MS: Final = 60_000
"""How long a failure counts."""

MOST_REMEMBERED: Final = 10_000
"""Pairs of address and user that are remembered, 200 bytes each; beyond it the longest silent one is forgotten."""


class FailedLogins:
    """The failures of all listeners together."""

    def __init__(self) -> None:
        # A dict is slow to drop its oldest.
        self._failures: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        """Time of the last failure and their number, by a digest: a name may have half a MiB. Newest last."""

    def __len__(self) -> int:
        return len(self._failures)

    def count(self, ip: str, user: str, now_ms: int) -> int:
        """Count a failure; return how many there were before, none of them a minute after the one before it."""
        key = blake2b(f"{ip}\0{user}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        at_ms, number = self._failures.pop(key, (now_ms, 0))
        if now_ms - at_ms >= REMEMBERED_MS:
            number = 0
        self._failures[key] = (now_ms, number + 1)
        self._forget(now_ms)
        return number

    def _forget(self, now_ms: int) -> None:
        """Drop those that are over, and beyond the bound the oldest: they stand in the order of their times."""
        while True:
            oldest = next(iter(self._failures))
            is_over = now_ms - self._failures[oldest][0] >= REMEMBERED_MS
            if not is_over and len(self._failures) <= MOST_REMEMBERED:
                return
            del self._failures[oldest]


def delay_ms(first_ms: int, failures_before: int) -> int:
    """Return the delay of a failure, where the first one's is `first_ms`, as the settings say: 0 stays 0."""
    doubled_ms = first_ms << min(failures_before, LONGEST_DELAY_MS.bit_length())
    return max(first_ms, min(doubled_ms, LONGEST_DELAY_MS))
