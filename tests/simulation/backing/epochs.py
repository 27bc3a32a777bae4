"""The coordinator that gives out producer epochs for one transactional id (InitProducerId), at its worst."""

from __future__ import annotations

from random import Random
from typing import Final

from coordinator.backing.claims import Writer
from tests.simulation.backing.log import DAY_MS
from tests.simulation.marks import Marks

EXPIRATION_MS: Final = 7 * DAY_MS
EPOCH_MAX: Final = 32_766


class Epochs:
    """A counter; every call costs an epoch, answered or not."""

    def __init__(self, random: Random, marks: Marks) -> None:
        self._random = random
        self._marks = marks
        self._used: set[int] = set()
        self._last_ms = 0
        self._unavailable_until_ms = 0
        self._writer = Writer(self._new_id(), random.choice((-1, -1, EPOCH_MAX - random.randrange(10))))

    def _new_id(self) -> int:
        """Brokers have blocks of ids, so a later one may be the lower."""
        while (producer_id := self._random.randrange(10_000)) in self._used:
            pass
        self._used.add(producer_id)
        return producer_id

    def init(self, now_ms: int) -> Writer | None:
        """An epoch that was never given before; None while there is no coordinator."""
        if now_ms < self._unavailable_until_ms:
            return None
        is_expired = now_ms - self._last_ms >= EXPIRATION_MS
        if is_expired or self._writer.epoch >= EPOCH_MAX:
            self._marks.reach("new_producer_id" if is_expired else "epochs_exhausted")
            self._writer = Writer(self._new_id(), -1)
        self._writer = Writer(self._writer.producer_id, self._writer.epoch + 1)
        self._last_ms = now_ms
        return self._writer

    def fail_until(self, until_ms: int) -> None:
        self._unavailable_until_ms = until_ms
