"""Which partition of `__consumer_offsets` keeps a group: Java's string hash, as every broker computes it.

The number of partitions must never change under a log: the same group would be looked for elsewhere.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import mul
from typing import Final

_INT32_MIN: Final = -(2**31)
_UINT32: Final = 0xFFFFFFFF
_CHUNK: Final = 64
_POWERS: Final = tuple(pow(31, power, 2**32) for power in reversed(range(_CHUNK)))
_UTF16: Final = f"utf-16-{sys.byteorder[0]}e"

MAX_REMEMBERED: Final = 50_000
"""Number of group ids whose partition is cached instead of computed for each request: some 10 MB."""


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: sum of c[i] * 31^(n-1-i) over UTF-16 units, as a signed 32-bit number."""
    units = memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")
    hashed = 0
    for start in range(0, len(units), _CHUNK):  # Sums of products are half the time of a step for each unit.
        chunk = units[start : start + _CHUNK]
        powers = _POWERS[-len(chunk) :]
        hashed = (hashed * powers[0] * 31 + sum(map(mul, chunk, powers))) & _UINT32
    return hashed - 2**32 if hashed >= 2**31 else hashed


@lru_cache(MAX_REMEMBERED)
def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition that keeps `group_id`; the hash -2**31, which has no absolute value in Java, is 0."""
    hashed = java_hash(group_id)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count
