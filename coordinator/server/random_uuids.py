"""Random UUIDs for member ids, as text; the system is asked for the randomness of many at a time.

A storm of joins needs one for each newcomer, and `str(uuid4())` takes 8 us of it, most of them for a system call
and for an object of which only the text is used. Nothing is secret about a member id, but two must never be equal.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

AT_ONCE: Final = 256
"""UUIDs for which randomness is taken at a time: 4 KiB."""

_DIGITS: Final = 32
_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""The digit that has the two bits of the variant, by a random one (RFC 9562)."""


class RandomUuids:
    """Makes one UUID of version 4 with each call."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._digits = ""
        self._position = 0

    def __call__(self) -> str:
        if self._position == len(self._digits):
            self._digits, self._position = self._random_bytes(AT_ONCE * _DIGITS // 2).hex(), 0
        start = self._position
        self._position = start + _DIGITS
        taken = self._digits[start : self._position]
        variant = _VARIANTS[taken[16]]
        return f"{taken[:8]}-{taken[8:12]}-4{taken[13:16]}-{variant}{taken[17:20]}-{taken[20:]}"

    def forget(self) -> None:
        """Take other randomness for the next ones: a process that was forked must not make those of its parent."""
        self._digits, self._position = "", 0


random_uuid: Final = RandomUuids()
os.register_at_fork(after_in_child=random_uuid.forget)
