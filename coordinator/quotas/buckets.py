"""What was counted, by bucket: as many as there is room for, and those only that were used in the last hour.

Client ids are the clients' own choice, so buckets are what a peer can make grow: at the bound, the one that was
unused for longest goes, and its client may burst anew, as with a client id of another name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

MAX_BUCKETS: Final = 10_000
"""Most buckets of one key: some 1.5 KiB each with all samples of a rate."""

UNUSED_MS: Final = 3_600_000
"""Time without use after which a bucket is dropped, as Kafka's sensors are."""

B = TypeVar("B", bound=Hashable)
C = TypeVar("C")


class Buckets(Generic[B, C]):
    """Counters of type C, each made by `new` when its bucket is first used."""

    def __init__(self, new: Callable[[], C]) -> None:
        self._new = new
        self._counters: OrderedDict[B, C] = OrderedDict()  # The one unused for longest comes first.
        self._used_ms: dict[B, int] = {}

    def __len__(self) -> int:
        return len(self._counters)

    def of(self, bucket: B, now_ms: int) -> C:
        """Return the counter of a bucket."""
        self._drop_unused(now_ms)
        counter = self._counters.get(bucket)
        if counter is None:
            if len(self._counters) >= MAX_BUCKETS:
                self._drop(next(iter(self._counters)))
            counter = self._counters[bucket] = self._new()
        else:
            self._counters.move_to_end(bucket)
        self._used_ms[bucket] = now_ms
        return counter

    def _drop_unused(self, now_ms: int) -> None:
        while self._counters:
            oldest = next(iter(self._counters))
            if now_ms - self._used_ms[oldest] <= UNUSED_MS:
                return
            self._drop(oldest)

    def _drop(self, bucket: B) -> None:
        del self._counters[bucket], self._used_ms[bucket]
