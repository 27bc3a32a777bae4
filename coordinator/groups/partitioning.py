"""Which partition of `__consumer_offsets` keeps a group: Java's string hash, as every broker computes it.

The number of partitions must never change under a log: the same group would be looked for elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_INT32_MIN: Final = -(2**31)

MAX_REMEMBERED: Final = 50_000
"""Number of group ids whose partition is cached instead of computed for each request: some 10 MB."""


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: sum of c[i] * 31^(n-1-i) over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for i in range(0, len(units), 2):
        hashed = (31 * hashed + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


@lru_cache(MAX_REMEMBERED)
def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition that keeps `group_id`; the hash -2**31, which has no absolute value in Java, is 0."""
    hashed = java_hash(group_id)
    return 0 if hashed == _INT32_MIN else abs(hashed) % partition_count
