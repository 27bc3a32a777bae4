"""What must hold of a shard whose log is on another Kafka, whatever happens.

One writer: behind a claim whose node has served no other writes. Nothing that was acknowledged is lost. One voice:
who answers without an append has the newest claim of all that have done so. A key reads as one register does.
Only what a leader of the past has told an owner, or a clock that stood still, excuses an answer of the past.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from coordinator.backing.claims import PlacedClaim, Writer
from coordinator.backing.events import OutgoingBatch, Written
from tests.simulation.backing.log import Log, Stored
from tests.simulation.timeline import Timeline


class Watch:
    """Told of what happens as it happens; notes what must not."""

    def __init__(self, timeline: Timeline) -> None:
        self.violations: list[str] = []
        self.acked = self.read = self.served = 0
        self._timeline = timeline
        self._served: dict[str, list[tuple[int, Writer]]] = defaultdict(list)
        self._spoken: dict[str, int] = defaultdict(lambda: -1)
        self._floors: dict[tuple[int, str], int] = defaultdict(int)

    def violated(self, what: str) -> None:
        self.violations.append(f"{self._timeline.now_ms:,}: {what}")

    def floor_of(self, shard: int, key: str) -> int:
        """The most that a client was told."""
        return self._floors[shard, key]

    # The log.

    def on_committed(self, log: Log, stored: Stored) -> None:
        """No data behind a claim that has served by another than its node."""
        self._check_writer(log.name, stored)

    def _check_writer(self, name: str, stored: Stored) -> None:
        if stored.claim:
            return
        before = [writer for offset, writer in self._served[name] if offset < stored.base_offset]
        if not before or before[-1] != stored.writer:
            self.violated(f"{name}: {stored} is behind a claim of {before[-1:]}")

    def on_served(self, shard: Any, claim: PlacedClaim) -> None:
        """The new owner knows all that was written before its claim, and nobody writes behind it."""
        self.served += 1
        log: Log = shard.log
        self._served[log.name] = sorted([*self._served[log.name], (claim.offset, claim.writer)])
        state: dict[str, int] = {}
        is_newest = True
        for stored in log.history:
            if stored.base_offset > claim.offset:
                self._check_writer(log.name, stored)
                is_newest &= not stored.claim or stored.writer == claim.writer
            state.update(stored.commits)
        if is_newest and state != shard.living:
            self.violated(f"{log.name}: node {shard.node.node_id} serves {shard.living}, the log has {state}")

    # Answers.

    def on_spoken(self, shard: Any) -> None:
        """It answers without an append."""
        name, offset = shard.log.name, shard.claim_offset
        if offset >= self._spoken[name]:
            self._spoken[name] = offset
            if not shard.is_tainted and not self._is_behind(shard) and shard.living != shard.log.folded:
                self.violated(f"{name}: {shard.living} lives, the log has {shard.log.folded}")
        elif not shard.is_tainted:
            spoken = self._spoken[name]
            self.violated(
                f"{name}: node {shard.node.node_id} of claim {offset} speaks after that of {spoken}"
            )

    def _is_behind(self, shard: Any) -> bool:
        """Whether a newer claim has served, so the log may have more than this node has."""
        return bool(self._served[shard.log.name][-1][0] > shard.claim_offset)

    def on_written(self, shard: Any, batch: OutgoingBatch, written: Written) -> None:
        """What is acknowledged is in the log, in that place."""
        number, end_offset = written
        if batch.number != number:
            self.violated(f"{shard.log.name}: {batch} is on its way, and {written} is acknowledged")
            return
        found = next((each for each in reversed(shard.log.history) if each.end_offset <= end_offset), None)
        if found is None or found.end_offset != end_offset or found.commits != list(batch.content):
            self.violated(f"{shard.log.name}: {batch} is acknowledged, and {found} is there")

    def on_answered(self, shard: Any, request: Any, value: int) -> None:
        """A key never goes back behind what was known when it was asked for."""
        self.read += request.value is None
        self.acked += request.value is not None
        if value < request.floor and not shard.is_tainted:
            self.violated(f"{shard.log.name}: {request} shows {value} at node {shard.node.node_id}")
        place = request.shard, request.key
        self._floors[place] = max(self._floors[place], value)
