"""Infers what happened to a consumer group (KIP-848) from its records, of which each is one part of the group.

A write has the records of one request in a row: members that came or went, then the new epoch, the target and
what members have. `settle` ends it: when a record has another time, begins the next write, or nothing more was
read. A member's record says that it joined and its tombstone that it is gone, not why. Times are those of the
records, so that phases are known to the millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import DEAD
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from coordinator.groups.consumer.states import GroupState, MemberState, group_state
from muster.observe.classic import digest_of
from muster.observe.evidence import (
    FIRST_KNOWN,
    MISSING_FIRST,
    NOTHING_KNOWN,
    At,
    Change,
    Evidence,
    Member,
    Step,
    difference,
    gap_event,
    gone,
    joined,
    observed_event,
    replaced,
)

LISTED_MAX: Final = 200
"""The members that an event of a new epoch lists at most; of more, each was named as it came and as it went. A
record has one member, so without a bound a group of thousands would have them all listed as often as one joins."""

LEFT_FOR_NOW_EPOCH: Final = -2
"""The epoch of a static member that is away (KIP-848)."""

FIRST_STORED_EPOCH: Final = 2
"""A group's first epoch with a record is 1, or 2 from Kafka 4.3 on: none before either of them can be missing."""

REBALANCING: Final = frozenset((GroupState.ASSIGNING.value, GroupState.RECONCILING.value))


@dataclass(slots=True)
class Write:
    """What the records of the present write changed so far."""

    came: dict[str, Member] = field(default_factory=dict)
    left: dict[str, Member] = field(default_factory=dict)
    resubscribed: dict[str, Member] = field(default_factory=dict)
    away: list[str] = field(default_factory=list)
    epoch: int | None = None  # The new one.
    is_hash_new: bool = False
    is_expression_new: bool = False
    last: At | None = None


@dataclass(slots=True)
class ConsumerGroupFold:
    """One consumer group: how its records leave it, and the rebalance that runs."""

    group_id: str
    epoch: int | None = None
    target_epoch: int = -1
    metadata_hash: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    currents: dict[str, tuple[int, int]] = field(default_factory=dict)  # State and epoch of each member.
    state: str = DEAD.value  # As the last event said.
    since_ms: int | None = None  # Since when; None: not known.
    rebalance_cause: str | None = None
    rebalance_ms: dict[str, int] = field(default_factory=dict)
    known_at: int | None = None  # The offset of the newest epoch's record.
    change_of_kind: Change | None = None  # If it was a classic group until the present write.
    write: Write = field(default_factory=Write)

    def take(self, key: Any, value: Any, at: At) -> list[GroupEvent]:
        """Take in a record, which is no tombstone of the group itself; return the events of writes that end."""
        events = self.settle() if self._begins_a_write(key, value, at) else []
        match key:
            case ConsumerGroupMemberMetadataKey():
                self._take_member(key.member_id, value)
            case ConsumerGroupMetadataKey():
                self._take_epoch(value, at)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = -1 if value is None else value.assignment_epoch
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._take_current(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                self.write.is_expression_new = True
        self.write.last = at
        return events

    def settle(self) -> list[GroupEvent]:
        """End the present write; return what it did. Members that came or went without an epoch wait for one."""
        write, at = self.write, self.write.last
        if at is None or (self.epoch is None and write.epoch is None):
            return []
        if write.epoch is not None:
            self.write = Write()
            return self._new_epoch(write, write.epoch, at)
        self.write = Write(came=write.came, left=write.left)
        known = [self.members[each] for each in write.away if each in self.members]
        changes = [Change(CauseKind.STATIC_MEMBER_AWAY, Evidence.RECORD, None, each) for each in known]
        return self._steps([*self._replacements(), *changes], at)

    def _begins_a_write(self, key: Any, value: Any, at: At) -> bool:
        write = self.write
        if write.last is None:
            return False
        if write.last.wall_ms != at.wall_ms:
            return True
        is_removal = value is None and isinstance(key, ConsumerGroupCurrentMemberAssignmentKey)
        is_first = isinstance(key, ConsumerGroupMemberMetadataKey | ConsumerGroupMetadataKey)
        return write.epoch is not None and (is_removal or is_first)

    def _take_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        known = self.members.pop(member_id, None)
        if value is None:
            self.currents.pop(member_id, None)
            if known is not None and self.write.came.pop(member_id, None) is None:
                self.write.left[member_id] = known
            return
        topics = [*value.subscribed_topic_names, f"\0{value.subscribed_topic_regex or ''}"]
        names = (member_id, value.instance_id, value.client_id, value.client_host)
        member = self.members[member_id] = Member(*names, digest_of(topics), value.rebalance_timeout_ms)
        if known is None:
            self.write.came[member_id] = member
        elif known.subscribed != member.subscribed:
            self.write.resubscribed[member_id] = member

    def _take_epoch(self, value: ConsumerGroupMetadataValue, at: At) -> None:
        if value.epoch == self.epoch:
            self.metadata_hash = value.metadata_hash
            return
        self.write.epoch = value.epoch
        self.write.is_hash_new = self.epoch is not None and value.metadata_hash != self.metadata_hash
        self.write.last = at
        self.metadata_hash = value.metadata_hash

    def _take_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        if value is None:
            self.currents.pop(member_id, None)
            return
        before = self.currents.get(member_id)
        self.currents[member_id] = (value.state, value.member_epoch)
        if value.member_epoch == LEFT_FOR_NOW_EPOCH and before != self.currents[member_id]:
            self.write.away.append(member_id)

    def _replacements(self) -> list[Change]:
        """Static members that came back under another id, which takes no epoch."""
        write = self.write
        found = difference(write.left.values(), write.came.values())
        for old, new in found.replaced:
            del write.left[old.member_id], write.came[new.member_id]
        return [replaced(old, new, Evidence.RECORD) for old, new in found.replaced]

    def _new_epoch(self, write: Write, epoch: int, at: At) -> list[GroupEvent]:
        """The events of a new epoch: of what is missing before it, and of why it is there."""
        before, self.epoch = self.epoch, epoch
        events: list[GroupEvent] = []
        changes = self._changes_of(write, before)
        if before is None and epoch <= FIRST_STORED_EPOCH:
            self.state = GroupState.EMPTY.value
        elif before is None:
            changes = [FIRST_KNOWN]
            events.append(gap_event(self.group_id, NOTHING_KNOWN, (MISSING_FIRST, epoch - 1), None, at))
        elif epoch > before + 1:
            gone_and_came = sum(change.gain for change in changes)
            step = Step(self.state, self.state, before, len(self.members) - gone_and_came)
            events.append(gap_event(self.group_id, step, (before + 1, epoch - 1), self.known_at, at))
        self.known_at = at.offset
        return events + self._steps(changes, at, is_new_epoch=True)

    def _changes_of(self, write: Write, before: int | None) -> list[Change]:
        """Why there is a new epoch; at least one change."""
        found = difference(write.left.values(), write.came.values())
        changes = [
            *gone(found.gone, "its records were removed", Evidence.TOMBSTONE),
            *(replaced(old, new, Evidence.RECORD) for old, new in found.replaced),
            *(joined(member, None, Evidence.RECORD) for member in found.joined),
        ]
        if (kind := self.change_of_kind) is not None:
            self.change_of_kind = None
            by = found.joined[0] if found.joined else None
            rest = [each for each in changes if by is None or each.member is not by]
            return [kind._replace(member=by), *rest]
        return changes or self._changes_of_the_same(write, before)

    def _changes_of_the_same(self, write: Write, before: int | None) -> list[Change]:
        """Why the same members have a new epoch."""
        if write.resubscribed:
            kind, detail = CauseKind.MEMBER_METADATA_CHANGED, "it subscribes to other topics"
            return [Change(kind, Evidence.RECORD, detail, each) for each in write.resubscribed.values()]
        if write.is_expression_new:
            return [Change(CauseKind.EXPRESSION_RESOLVED, Evidence.RECORD)]
        if write.is_hash_new:
            return [Change(CauseKind.TOPICS_CHANGED, Evidence.RECORD, "the hash of its topics is another")]
        detail = f"the same members and topics as in epoch {before}"
        return [Change(CauseKind.CAUSE_UNKNOWN, Evidence.MEMBERS, detail)]

    def _steps(self, changes: list[Change], at: At, *, is_new_epoch: bool = False) -> list[GroupEvent]:
        """The events of changes, the first of which takes the group to the state that its records show now."""
        after = self._state_by_records()
        if not changes and after != self.state:
            changes = [_step_of_its_own(self.state, after)]
        left = sum(change.gain for change in changes)
        events: list[GroupEvent] = []
        for change in changes:
            left -= change.gain
            is_first = not events
            phase = self._go(after, change, at, is_new=is_new_epoch and is_first)
            before = phase.pop("before")
            step = Step(before, after, self.epoch or 0, max(len(self.members) - left, 0))
            shown = {"members": self._listed()} if is_first and is_new_epoch else {}
            events.append(observed_event(self.group_id, step, change, at, phase, **shown))
        return events

    def _go(self, to_state: str, change: Change, at: At, *, is_new: bool) -> dict[str, Any]:
        """Go to a state; return the fields of the event about the phase, and rebalance, that end with it."""
        before, phase = self.state, dict[str, Any](before=self.state)
        if before != to_state:
            if self.since_ms is not None:
                spent_ms = max(at.wall_ms - self.since_ms, 0)
                phase["phase_ms"] = {before: spent_ms}
                if before in REBALANCING:
                    self.rebalance_ms[before] = self.rebalance_ms.get(before, 0) + spent_ms
            self.state, self.since_ms = to_state, at.wall_ms
        if before not in REBALANCING and (is_new or to_state in REBALANCING):
            self.rebalance_cause = change.kind.slug
        if to_state not in REBALANCING and (before in REBALANCING or is_new):
            phase |= {"rebalance_cause": self.rebalance_cause, "rebalance_ms": self.rebalance_ms}
            self.rebalance_cause, self.rebalance_ms = None, {}
        return phase

    def _state_by_records(self) -> str:
        standings = [self.currents.get(each, _NOT_STORED) for each in self.members]
        members = [(MemberState.of_byte(state), epoch) for state, epoch in standings]
        return group_state(self.epoch or 0, self.target_epoch, members).value

    def _listed(self) -> tuple[dict[str, str | None], ...] | None:
        if len(self.members) > LISTED_MAX:
            return None
        return tuple(member.shown() for member in self.members.values())

    def dump(self) -> dict[str, Any]:
        """The fold for `load`, as values that fit into JSON. It must be settled."""
        fields = {name: getattr(self, name) for name in _PLAIN}
        write = [_members(self.write.came), _members(self.write.left)]
        return fields | {"members": _members(self.members), "write": write}

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> ConsumerGroupFold:
        fold = cls(**{name: dumped[name] for name in _PLAIN})
        fold.currents = {name: (state, epoch) for name, (state, epoch) in fold.currents.items()}
        came, left = map(_by_id, dumped["write"])
        fold.members, fold.write = _by_id(dumped["members"]), Write(came, left)
        return fold


_PLAIN: Final = (
    "group_id",
    "epoch",
    "target_epoch",
    "metadata_hash",
    "currents",
    "state",
    "since_ms",
    "rebalance_cause",
    "rebalance_ms",
    "known_at",
)
_NOT_STORED: Final = (MemberState.STABLE.value, -1)


def _members(members: dict[str, Member]) -> list[list[Any]]:
    return [list(member) for member in members.values()]


def _by_id(dumped: list[list[Any]]) -> dict[str, Member]:
    return {each[0]: Member(*each) for each in dumped}


def _step_of_its_own(before: str, after: str) -> Change:
    """The change that takes a group from state to state without a new epoch, as its members get there."""
    if after == GroupState.STABLE.value:
        return Change(CauseKind.MEMBERS_RECONCILED, Evidence.RECORD)
    if before == GroupState.ASSIGNING.value:
        return Change(CauseKind.ASSIGNMENT_COMPUTED, Evidence.RECORD)
    return Change(CauseKind.CAUSE_UNKNOWN, Evidence.NOTHING, "records show another state")
