"""What the history says of consumer groups: no epoch without a row, and who was waited for, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from coordinator.effects import HistoryRow, Result
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.groups.consumer.group import ConsumerGroup

CLASSIC = (PREPARING_REBALANCE.value, COMPLETING_REBALANCE.value)


class ConsumerRows:
    """One for a whole simulation. Members are known for ever: one that is gone may have been waited for."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._epochs: defaultdict[str, set[int]] = defaultdict(
            set
        )  # The last that was seen, and those of rows since.
        self._members: defaultdict[str, set[str]] = defaultdict(set)

    def on_loaded(self, group: ConsumerGroup) -> None:
        """A group was read from the log, which may have less than rows said."""
        self._epochs[group.group_id] = {group.epoch}

    def before(self, group: ConsumerGroup) -> None:
        """The group is seen between two events that concern it."""
        epochs = self._epochs[group.group_id]
        if group.epoch not in epochs:
            self._violated(
                f"{group.group_id} is in epoch {group.epoch} without a row, there are those of {epochs}"
            )
        self._epochs[group.group_id] = {group.epoch}
        self._members[group.group_id].update(group.members)

    def after(self, result: Result) -> None:
        """An event added these records and these rows."""
        for record in result.records:
            key: Any = getattr(record, "key", None)
            if hasattr(key, "member_id"):
                self._members[key.group_id].add(key.member_id)
        for row in result.history:
            self._epochs[row.group_id].add(row.generation_id)
            if row.phase is not None and row.from_state not in CLASSIC:
                self._check_last(row, dict(row.phase))

    def _check_last(self, row: HistoryRow, phase: dict[str, Any]) -> None:
        last, waited_ms = phase.get("last_member_id"), phase.get("last_arrival_ms")
        if last is not None and last not in self._members[row.group_id]:
            self._violated(f"{row.group_id} waited for {last}, which was never a member: {row}")
        if waited_ms is not None and not 0 <= waited_ms <= sum(phase["rebalance_ms"].values()):
            self._violated(f"{row.group_id} waited for longer than the rebalance took: {row}")
        if phase.get("rebalance_cause") is not None and row.member_count and last is None:
            self._violated(f"nobody was waited for in {row}")
