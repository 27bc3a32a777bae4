"""Bytes that come again and again, and of which only some 64-bit numbers differ from one time to the next.

Where those numbers lie is not declared but found: the codec writes the same message twice, once with 0 in their
place and once with -1, and where the two differ is a number. So this knows no schema, and cannot disagree with
one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct
from typing import Final

_NUMBER: Final = re.compile(rb"\xff{8}")


class Template:
    """The fixed bytes of a message, with places for 64-bit numbers: reads the numbers, or fills in others.

    For one thread at a time.
    """

    __slots__ = ("_blank", "_fixed", "_form")

    def __init__(self, zeros: bytes, ones: bytes) -> None:
        """Both are the message: `zeros` has 0 for each number, `ones` -1. ValueError if they differ elsewhere."""
        differing = bytes(a ^ b for a, b in zip(zeros, ones, strict=True))
        between = _NUMBER.split(differing)
        if any(any(fixed) for fixed in between):
            raise ValueError("the two differ in more than 64-bit numbers")
        self._form = Struct(">" + "q".join(f"{len(fixed)}s" for fixed in between))
        self._blank = list(self._form.unpack(zeros))  # The numbers in it are those that were filled in last.
        self._fixed = tuple(self._blank[::2])

    def read(self, data: bytes) -> tuple[int, ...] | None:
        """Return the numbers in `data`, of the message's length; None if any other byte is not the message's."""
        parts = self._form.unpack(data)
        return parts[1::2] if parts[::2] == self._fixed else None

    def fill(self, numbers: Sequence[int]) -> bytes:
        """Return the bytes of the message with these numbers."""
        self._blank[1::2] = numbers
        return self._form.pack(*self._blank)
