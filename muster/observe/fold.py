"""Folds the records of `__consumer_offsets` into the events of groups: no I/O, no clock, a record at a time.

`Fold` has all groups, `GroupFold` one, of whichever kind it is at the time. A group's tombstone is held back until
the next record: with records of the other kind behind it in the same write the group has changed its kind, else it
is gone. Records that cannot be decoded are counted, and those of a known group are events. Commits only say when a
group was last heard of. Groups and members that are kept in memory are bounded: the groups that were heard of
longest ago are forgotten, and are then as if nothing was known of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import DEAD
from coordinator.groups.consumer.record_schemas import ConsumerGroupMetadataKey
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GroupMetadataKey
from muster.observe.classic import Generation, generation_events
from muster.observe.consumer import ConsumerGroupFold
from muster.observe.evidence import At, Change, Evidence, Step, difference, observed_event
from protocol.errors import DecodeError

MAX_GROUPS: Final = 100_000
"""Groups that are kept; a group that only commits is none of them."""

MAX_MEMBERS: Final = 1_000_000
"""Members of all groups that are kept, some 500 MB."""

_COMMIT_TYPES: Final = tuple(number.to_bytes(2, "big") for number in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT))


@dataclass(slots=True)
class GroupFold:
    """One group, as its records leave it: at most one of `classic` and `consumer` is known."""

    group_id: str
    classic: Generation | None = None
    consumer: ConsumerGroupFold | None = None
    known_at: int | None = None  # The offset of the newest classic generation's record.
    removed_at: At | None = None  # A tombstone of the group that is held back.
    is_unread: bool = False  # Its newest record could not be decoded.
    is_behind_unread: bool = False  # Nor could one since the newest generation or epoch that is known.
    heard_ms: int = 0

    @property
    def member_count(self) -> int:
        known = self.consumer or self.classic
        return len(known.members) if known else 0

    @property
    def is_known(self) -> bool:
        return self.consumer is not None or self.classic is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for the record that may come next."""
        return self.removed_at is None and (self.consumer is None or self.consumer.write.last is None)

    def take(self, key: Any, value: Any, at: At) -> list[GroupEvent]:
        """Take in a decoded record of the group, no commit; return the events that are complete with it."""
        self.is_unread = False
        if self.is_behind_unread:
            at = replace(at, is_behind_unread=True)
        if isinstance(key, GroupMetadataKey | ConsumerGroupMetadataKey):
            self.is_behind_unread = False
        if value is not None or not isinstance(key, GroupMetadataKey | ConsumerGroupMetadataKey):
            is_classic = isinstance(key, GroupMetadataKey)
            events = self._resolve_removal(is_classic, value, at)
            return events + (self._take_classic(value, at) if is_classic else self._take_part(key, value, at))
        events = self._resolve_removal(isinstance(key, GroupMetadataKey), value, at)
        is_of_its_kind = (self.classic if isinstance(key, GroupMetadataKey) else self.consumer) is not None
        if is_of_its_kind:
            if self.consumer is not None and self.consumer.write.epoch is not None:
                events += self.consumer.settle()
            self.removed_at = at
        return events

    def take_unreadable(self, reason: str, at: At) -> list[GroupEvent]:
        """Take in a record of the group that cannot be decoded: an event, unless the one before was that, too."""
        was_unread, self.is_unread, self.is_behind_unread = self.is_unread, True, True
        if was_unread:
            return []
        return [self._within(Change(CauseKind.RECORD_NOT_READ, Evidence.RECORD, reason), at)]

    def settle(self) -> list[GroupEvent]:
        """Return the events that only waited for a further record of the same write: there is none."""
        if self.removed_at is not None:
            return self._remove(self.removed_at, Evidence.TOMBSTONE)
        return self.consumer.settle() if self.consumer else []

    def _resolve_removal(self, is_classic: bool, value: Any, at: At) -> list[GroupEvent]:
        """Decide what the tombstone before this record was: of a change of kind, or of the group."""
        removed_at = self.removed_at
        if removed_at is None:
            return []
        was_classic = self.classic is not None
        if value is None or was_classic == is_classic or removed_at.wall_ms != at.wall_ms:
            return self._remove(removed_at, Evidence.TOMBSTONE)
        self.removed_at = None
        return []

    def _take_classic(self, value: Any, at: At) -> list[GroupEvent]:
        events: list[GroupEvent] = []
        if self.consumer is not None:
            self.classic, events = _downgraded(self.consumer, value, at)
            self.consumer, self.known_at = None, at.offset
            return events
        if self.classic is not None and value.generation < self.classic.number:
            events = self._remove(at, Evidence.NUMBERS)
        known_at, self.known_at = self.known_at, at.offset
        self.classic, found = generation_events(self.group_id, self.classic, value, known_at, at)
        return events + found

    def _take_part(self, key: Any, value: Any, at: At) -> list[GroupEvent]:
        """Take in a record of a consumer group."""
        events: list[GroupEvent] = []
        if self.consumer is None:
            if value is None:
                return []  # A part of a group of which nothing is known.
            self.consumer = _upgraded(self.group_id, self.classic)
            self.classic = None
        elif isinstance(key, ConsumerGroupMetadataKey) and value.epoch < (self.consumer.epoch or 0):
            anew = ConsumerGroupFold(self.group_id, members=dict(self.consumer.write.came))
            anew.write = self.consumer.write
            events = self._remove(at, Evidence.NUMBERS)
            self.consumer = anew
        return events + self.consumer.take(key, value, at)

    def _remove(self, at: At, evidence: Evidence) -> list[GroupEvent]:
        """Forget the group; return the event of that."""
        detail = (
            "inferred, its generations begin again" if evidence is Evidence.NUMBERS else "a tombstone of it"
        )
        event = self._within(Change(CauseKind.GROUP_REMOVED, evidence, detail), at, DEAD.value)
        self.classic = self.consumer = self.known_at = self.removed_at = None
        return [event]

    def _within(self, change: Change, at: At, to_state: str | None = None) -> GroupEvent:
        """The event of something that concerns the group as it is."""
        state, number = DEAD.value, 0
        if self.consumer is not None:
            state, number = self.consumer.state, self.consumer.epoch or 0
        elif self.classic is not None:
            state, number = self.classic.state, self.classic.number
        count = 0 if to_state == DEAD.value else self.member_count
        return observed_event(self.group_id, Step(state, to_state or state, number, count), change, at)

    def dump(self) -> list[Any]:
        """The fold for `load`, as values that fit into JSON. It must be settled."""
        classic = None if self.classic is None else self.classic.dump()
        consumer = None if self.consumer is None else self.consumer.dump()
        return [self.group_id, classic, consumer, self.known_at, self.is_unread, self.heard_ms]

    @classmethod
    def load(cls, dumped: list[Any]) -> GroupFold:
        group_id, classic, consumer, known_at, is_unread, heard_ms = dumped
        return cls(
            group_id,
            None if classic is None else Generation.load(classic),
            None if consumer is None else ConsumerGroupFold.load(consumer),
            known_at,
            is_unread=is_unread,
            is_behind_unread=is_unread,
            heard_ms=heard_ms,
        )


def _upgraded(group_id: str, classic: Generation | None) -> ConsumerGroupFold:
    """The consumer group that takes the place of a classic one, or that is new."""
    if classic is None:
        return ConsumerGroupFold(group_id)
    change = Change(CauseKind.GROUP_UPGRADED, Evidence.RECORD)
    if not classic.members:  # Its epochs begin anew.
        return ConsumerGroupFold(group_id, state=classic.state, change_of_kind=change)
    members = dict(classic.members)
    return ConsumerGroupFold(
        group_id, classic.number, members=members, state=classic.state, change_of_kind=change
    )


def _downgraded(consumer: ConsumerGroupFold, value: Any, at: At) -> tuple[Generation, list[GroupEvent]]:
    """The classic group that takes the place of a consumer group, and the events of that."""
    before = {**consumer.write.left, **consumer.members}
    for member_id in consumer.write.came:
        before.pop(member_id, None)
    now, number = Generation.of(value), consumer.epoch or 0
    found = difference(before.values(), now.members.values())
    detail = f"inferred, in epoch {number} and not in generation {now.number}"
    changes = found.changes(detail, f"inferred, not in epoch {number}", Evidence.MEMBERS)
    events, count = [], len(before)
    for change in changes:
        count += change.gain
        step = Step(consumer.state, consumer.state, number, count)
        events.append(observed_event(consumer.group_id, step, change, at))
    step = Step(consumer.state, now.state, now.number, len(now.members))
    shown = tuple(each.shown() for each in now.members.values())
    now.partitions = {}  # They are what members had in the consumer group, and not all that there are.
    change = Change(CauseKind.GROUP_DOWNGRADED, Evidence.RECORD)
    changed = observed_event(consumer.group_id, step, change, at, leader_id=now.leader, members=shown)
    return now, [*events, changed]


class Fold:
    """All groups. `unreadable` counts the records that could not be decoded, `forgotten` the groups let go."""

    def __init__(self, *, max_groups: int = MAX_GROUPS, max_members: int = MAX_MEMBERS) -> None:
        self.unreadable = 0
        self.forgotten = 0
        self._groups: OrderedDict[str, GroupFold] = OrderedDict()  # Longest not heard of first.
        self._unsettled: dict[str, None] = {}
        self._member_count = 0
        self._max_groups = max_groups
        self._max_members = max_members

    def __len__(self) -> int:
        return len(self._groups)

    def heard_ms(self, group_id: str) -> int | None:
        """When the group was last heard of; None if it is not known."""
        group = self._groups.get(group_id)
        return None if group is None else group.heard_ms

    def take(self, key: bytes | None, value: bytes | None, at: At) -> list[GroupEvent]:
        """Take in one record of the log; return the events that are complete with it, oldest first."""
        is_commit = (
            key is not None and key[:2] in _COMMIT_TYPES
        )  # Most records are: its value is not looked at.
        try:
            record = decode_record(key, None if is_commit else value)
        except DecodeError as error:
            return self._take_unreadable(key, str(error), at)
        if record is None:
            return []  # Of a kind of group that has no history here.
        if is_commit:
            if value is not None and (group := self._groups.get(record.key.group)):
                self._heard(group, at)
            return []
        group = self._group(record.key)
        before = group.member_count
        events = group.take(record.key, record.value, at)
        return events + self._after(group, before, at)

    def settle(self) -> list[GroupEvent]:
        """Return the events that waited for a further record of a write; call it where a batch of the log ends."""
        events = []
        for group_id in list(self._unsettled):
            if group := self._groups.get(group_id):
                before = group.member_count
                events += group.settle()
                self._member_count += group.member_count - before
                self._let_go_if_gone(group)
        self._unsettled.clear()
        return events

    def dump(self) -> list[Any]:
        """All groups for `load`, as values that fit into JSON. They must be settled."""
        assert not self._unsettled, "settle comes first"
        return [group.dump() for group in self._groups.values()]

    def load(self, dumped: list[Any]) -> None:
        """Go on from what `dump` returned."""
        for each in dumped:
            group = GroupFold.load(each)
            self._groups[group.group_id] = group
            self._member_count += group.member_count

    def _group(self, key: Any) -> GroupFold:
        group_id = key.group if isinstance(key, GroupMetadataKey) else key.group_id
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = GroupFold(group_id)
        return group

    def _take_unreadable(self, key: bytes | None, reason: str, at: At) -> list[GroupEvent]:
        self.unreadable += 1
        try:
            record = decode_record(key, None)
        except DecodeError:
            return []  # Not even the group can be told.
        if record is None:
            return []
        events = self._group(record.key).take_unreadable(reason, at)
        return events + self._forget_oldest()

    def _after(self, group: GroupFold, member_count: int, at: At) -> list[GroupEvent]:
        """Keep the books after a record of a group that had so many members before it."""
        self._member_count += group.member_count - member_count
        if group.is_settled:
            self._unsettled.pop(group.group_id, None)
            self._let_go_if_gone(group)
        else:
            self._unsettled[group.group_id] = None
        if group.group_id in self._groups:
            self._heard(group, at)
        return self._forget_oldest()

    def _let_go_if_gone(self, group: GroupFold) -> None:
        if not group.is_known:
            self._groups.pop(group.group_id, None)

    def _heard(self, group: GroupFold, at: At) -> None:
        group.heard_ms = max(group.heard_ms, at.wall_ms)
        self._groups.move_to_end(group.group_id)

    def _forget_oldest(self) -> list[GroupEvent]:
        """Forget the groups heard of longest ago, as many as are too many; return what they still waited for."""
        events = []
        while len(self._groups) > 1 and (
            len(self._groups) > self._max_groups or self._member_count > self._max_members
        ):
            _, oldest = self._groups.popitem(last=False)
            self._member_count -= oldest.member_count
            self._unsettled.pop(oldest.group_id, None)
            self.forgotten += 1
            events += oldest.settle()
        return events
