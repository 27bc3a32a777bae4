"""A process that owns shards whose logs are on Kafka: its clock, its pauses, its crashes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from coordinator.backing.ownership import OwnershipTiming
from tests.simulation.timeline import Action, Timeline

DRIFT_MAX: Final = 0.000_45
"""A clock is off by less than half a thousandth, for two of them may differ by one."""


class Node:
    """What arrives while it is paused is handled when it goes on; what arrives while it is down never is."""

    def __init__(self, node_id: int, timeline: Timeline, random: Random) -> None:
        self.node_id = node_id
        self.timing = OwnershipTiming(lease_ms=random.choice((1_000, 3_000, 6_000)))
        self.shards: list[Any] = []
        self.incarnation = 0
        self.is_down = False
        self.is_paused = False
        self.reads_slowly_until_ms = 0
        self.frozen_at_ms: int | None = None
        self.tainted_until_ms = (
            -1
        )  # By its own clock: after its clock stood still its leases are worth nothing.
        self._timeline = timeline
        self._random = random
        self._offset_ms = random.randrange(10_000_000)
        self._rate = 1 + random.uniform(-DRIFT_MAX, DRIFT_MAX)
        self._missed: list[tuple[bool, int, Action]] = []

    # The clock.

    @property
    def now_ms(self) -> int:
        """Of its own clock, which goes on while it is paused, unless its whole machine is frozen."""
        true_ms = self._timeline.now_ms if self.frozen_at_ms is None else self.frozen_at_ms
        return self._offset_ms + int(true_ms * self._rate)

    def at(self, own_ms: int, action: Action) -> None:
        """Run this when its own clock says so."""
        true_ms = int((own_ms - self._offset_ms) / self._rate)
        self.guarded(lambda run: self._timeline.at(true_ms + 1, run), action)

    def after(self, delay_ms: int, action: Action) -> None:
        self.guarded(lambda run: self._timeline.after(delay_ms, run), action)

    # Lives.

    def guarded(self, schedule: Callable[[Action], object], action: Action) -> None:
        """Have this run, if it is the same life of the node by then, and only when it runs at all."""
        incarnation = self.incarnation
        schedule(lambda: self.arrive(action, incarnation))

    def arrive(self, action: Action, incarnation: int, *, is_client: bool = False) -> None:
        """Something came to this life of the node."""
        if self.is_down or incarnation != self.incarnation:
            return
        if self.is_paused:
            self._missed.append((is_client, incarnation, action))
        else:
            action()

    def pause(self, pause_ms: int, *, is_frozen: bool = False) -> None:
        if self.is_paused or self.is_down:
            return
        self.is_paused = True
        if is_frozen:
            self.frozen_at_ms = self._timeline.now_ms
        incarnation = self.incarnation
        self._timeline.after(pause_ms, lambda: self.go_on(incarnation))

    def go_on(self, incarnation: int) -> None:
        """Handle what came meanwhile: sockets in any order, the requests of clients among themselves in theirs."""
        if not self.is_paused or incarnation != self.incarnation:
            return
        self.is_paused = False
        if self.frozen_at_ms is not None:
            self._offset_ms -= int((self._timeline.now_ms - self.frozen_at_ms) * self._rate)
            self.frozen_at_ms = None
            self.tainted_until_ms = self.now_ms + self.timing.lease_ms
        for shard in self.shards:
            shard.note_expiry()
        missed, self._missed = self._missed, []
        shuffled = list(missed)
        self._random.shuffle(shuffled)
        requests = iter([each for each in missed if each[0]])
        for each in shuffled:
            is_client, life, action = next(requests) if each[0] else each
            self.arrive(action, life, is_client=is_client)

    def crash(self) -> None:
        self.is_down, self.is_paused, self.frozen_at_ms = True, False, None
        self.tainted_until_ms = -1
        self.incarnation += 1
        self._missed.clear()
        for shard in self.shards:
            shard.forget()

    def start(self) -> None:
        if self.is_down:
            self.is_down = False
            for shard in self.shards:
                shard.begin()
