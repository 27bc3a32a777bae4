"""The rows of a consumer group's history: a change as it is recorded, from how the group stood to how it will.

The records that change a group are replayed after its event, so a row is given what they will have made of it. A
rebalance begins with a new epoch and is over when every member has what it is to have. Nothing here decides what
happens, nor words it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coordinator.effects import Effects, HistoryRow, Moment
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.states import GroupState
from coordinator.groups.consumer.waited_for import GivenUp, Releases, held_by

DEAD: Final = "Dead"
"""What a group is shown as that was removed, or of which nothing is known yet: as classic ones are."""

REMOVED_IDS_MAX: Final = 10
"""The most removed members that one row names; its `removed_count` counts them all."""

REBALANCING: Final = frozenset(
    (
        GroupState.ASSIGNING.value,
        GroupState.RECONCILING.value,
        PREPARING_REBALANCE.value,  # Of the classic group that an upgrade ends.
        COMPLETING_REBALANCE.value,
    )
)


class Standing(NamedTuple):
    """How a group stands after an event."""

    epoch: int
    state: GroupState
    member_count: int
    last: Mapping[str, Any] = {}  # If it is Stable: the fields that name the member that was waited for.


class _Before(NamedTuple):
    """How a course was before an event, of a group with so many changes."""

    changes: int
    since_ms: int | None
    rebalance_cause: str | None
    rebalance_ms: dict[str, int]


@dataclass(slots=True)
class Course:
    """How a group's rebalance went so far. A restart begins a new one, as for classic groups."""

    since_ms: int | None = None  # Since when the group is in its state; None: not known.
    rebalance_cause: str | None = None  # The slug of the cause that began it.
    rebalance_ms: dict[str, int] = field(default_factory=dict)  # In each state, so far.
    releases: Releases = field(default_factory=Releases)
    _before: _Before | None = None

    def begin_event(self, group: ConsumerGroup) -> None:
        """Be told of an event that may change the course, before it does.

        If the log refused the records of the one before, nothing has happened by it: then the group has not
        changed since, and its course is what it was.
        """
        before = self._before
        if before is not None and before.changes == group.changes:
            self.since_ms, self.rebalance_cause = before.since_ms, before.rebalance_cause
            self.rebalance_ms = before.rebalance_ms
            self.releases.go_back()
        self._before = _Before(group.changes, self.since_ms, self.rebalance_cause, self.rebalance_ms)
        self.releases.mark()

    def begin_anew(self, group: ConsumerGroup, cause: Cause, at: Moment) -> None:
        """Begin with a group as it was read from the log, be it in the middle of a rebalance."""
        self._before, self.since_ms = None, at.now_ms
        self.rebalance_cause = cause.kind.slug if group.state.value in REBALANCING else None
        self.releases.begin_anew(group.epoch)

    def take_over(self, classic: Group) -> None:
        """Begin with the classic group that is upgraded, be it in the middle of a rebalance."""
        self.since_ms = classic.state_since_ms
        self.rebalance_cause = classic.rebalance_cause
        self.rebalance_ms = dict(classic.rebalance_ms)

    def hand_over(self, state: str, classic: Group, at: Moment) -> None:
        """Let the classic group that a group in `state` becomes go on with its rebalance, if one is on."""
        if state in REBALANCING:
            spent_ms = self.rebalance_ms.get(state, 0) + self.spent_ms(at.now_ms)
            classic.rebalance_cause = self.rebalance_cause
            classic.rebalance_ms = self.rebalance_ms | {state: spent_ms}

    def spent_ms(self, now_ms: int) -> int:
        """How long the group is in its state."""
        return 0 if self.since_ms is None else max(now_ms - self.since_ms, 0)

    def rebalancing_ms(self, state: str, now_ms: int) -> int:
        """How long the rebalance of a group in `state` is on; 0 if none is."""
        if state not in REBALANCING:
            return 0
        return sum(self.rebalance_ms.values()) + self.spent_ms(now_ms)

    def removed(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], kind: CauseKind, now_ms: int
    ) -> None:
        """Note that members give up all that they have, as they are removed.

        That raises the epoch: a member that waits since the present one waited for them, also if several go.
        """
        if group.assignment_epoch == group.epoch:
            self.releases.begin_anew(group.epoch)
        after_ms = self.rebalancing_ms(group.state.value, now_ms)
        for member in members:
            held = tuple(held_by(group.currents[member.member_id]))
            self.releases.note(GivenUp(member, held, after_ms, kind))

    def record(
        self,
        group: ConsumerGroup,
        after: Standing,
        cause: Cause,
        at: Moment,
        effects: Effects,
        came_from: str | None = None,
    ) -> None:
        """Add the row of a group that comes from `came_from` (default: its state) and stands as `after` says."""
        before, to_state = came_from or group.state.value, after.state.value
        phase: dict[str, Any] = {}
        if before != to_state:
            spent_ms = self.spent_ms(at.now_ms)
            phase["phase_ms"] = {before: spent_ms}
            if before in REBALANCING:
                spent_before_ms = self.rebalance_ms.get(before, 0)
                self.rebalance_ms = self.rebalance_ms | {before: spent_before_ms + spent_ms}
            self.since_ms = at.now_ms
        is_new = after.epoch != group.epoch or before == DEAD
        if before not in REBALANCING and (is_new or to_state in REBALANCING):
            self.rebalance_cause = cause.kind.slug
        if to_state not in REBALANCING and (before in REBALANCING or is_new):
            phase |= {
                "rebalance_cause": self.rebalance_cause,
                "rebalance_ms": self.rebalance_ms,
                **after.last,
            }
            self.rebalance_cause, self.rebalance_ms = None, {}
            self.releases.begin_anew(after.epoch)
        effects.history.append(_row(group.group_id, after, before, cause, at, phase))


def _row(
    group_id: str, after: Standing, before: str, cause: Cause, at: Moment, phase: dict[str, Any]
) -> HistoryRow:
    removed_count = len(cause.removed)
    if removed_count > REMOVED_IDS_MAX:
        cause = cause._replace(removed=cause.removed[:REMOVED_IDS_MAX])
    state, member_count = after.state.value, after.member_count
    return HistoryRow(
        group_id,
        after.epoch,
        before,
        state,
        cause,
        at.wall_ms,
        member_count,
        removed_count,
        phase or None,
        True,
    )


def removal_row(group: ConsumerGroup, at: Moment, cause: Cause) -> HistoryRow:
    """Return the row of a group that is removed."""
    return HistoryRow(group.group_id, group.epoch, group.state.value, DEAD, cause, at.wall_ms, 0, 0)


def restart_row(group: ConsumerGroup, at: Moment, cause: Cause) -> HistoryRow:
    """Return the row of a group with members that was read from the log."""
    count = len(group.members)
    return HistoryRow(group.group_id, group.epoch, DEAD, group.state.value, cause, at.wall_ms, count, 0)
