"""Infers what happened to a classic group from its GroupMetadata records, each of which is a whole generation.

A record is written when the leader's assignment is stored, or as the group is empty. It has the time at which
the join phase ended (`current_state_timestamp`), so the time of syncing is known, and that of joining is not. Who
joined and who is gone is found by comparing members with those of the generation before. Why a member is gone, or
why the same members have a new generation, no record says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.states import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.groups.record_schemas import GroupMetadataValue, MemberMetadata
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
    observed_event,
)
from protocol.consumer import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import DecodeError

EAGER_ASSIGNORS: Final = ("range", "roundrobin", "sticky")
"""Kafka's assignors that give away every partition in every generation: if more are assigned, more are there. A
cooperative one holds back for a generation what is to move, which looks the same."""

_DIGEST_BYTES: Final = 8
_JOINING, _SYNCING = PREPARING_REBALANCE.value, COMPLETING_REBALANCE.value


@dataclass(slots=True)
class Generation:
    """The newest generation of a classic group that is known."""

    number: int
    leader: str | None = None
    protocol: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)  # By topic, one more than the highest assigned.

    @classmethod
    def of(cls, value: GroupMetadataValue) -> Generation:
        is_consumers = value.protocol_type == PROTOCOL_TYPE
        named = sorted(value.members, key=_name)  # Kafka stores them in no order.
        members = {each.member_id: _member(each, is_consumers) for each in named}
        partitions = _assigned(value.members) if is_consumers else {}
        return cls(value.generation, value.leader, value.protocol, members, partitions)

    @property
    def state(self) -> str:
        """The state in which the group was stored."""
        return STABLE.value if self.members else EMPTY.value

    def dump(self) -> list[Any]:
        """The generation for `load`, as values that fit into JSON."""
        members = [list(member) for member in self.members.values()]
        return [self.number, self.leader, self.protocol, members, self.partitions]

    @classmethod
    def load(cls, dumped: list[Any]) -> Generation:
        number, leader, protocol, members, partitions = dumped
        return cls(number, leader, protocol, {each[0]: Member(*each) for each in members}, partitions)


FIRST_OF_ALL: Final = "inferred, in the first generation"
"""Of a member that joined an empty group, which has no generation before."""


def generation_events(
    group_id: str, before: Generation | None, value: GroupMetadataValue, known_at: int | None, at: At
) -> tuple[Generation, list[GroupEvent]]:
    """What the record `value` shows, after the generation `before` of which the record was at `known_at`."""
    now = Generation.of(value)
    if before is None:
        if now.number > MISSING_FIRST:
            return now, _first_known(group_id, now, value, at)
        before = Generation(0)
        if now.number == 0 and not now.members:
            return now, []  # The group was made by a first JoinGroup.
    if now.number == before.number:
        now.partitions = before.partitions
        return now, _within(group_id, before, now, at)
    events = []
    if now.number > before.number + 1:
        step = Step(before.state, before.state, before.number, len(before.members))
        missing = (before.number + 1, now.number - 1)
        events.append(gap_event(group_id, step, missing, known_at, at))
    rebalance = _Rebalance(group_id, before, now, value.current_state_timestamp, at)
    return now, events + rebalance.events(_changes(before, now))


def _first_known(group_id: str, now: Generation, value: GroupMetadataValue, at: At) -> list[GroupEvent]:
    """Nothing is known of what was before: a group is shown as Dead then."""
    gap = gap_event(group_id, NOTHING_KNOWN, (MISSING_FIRST, now.number - 1), None, at)
    rebalance = _Rebalance(group_id, Generation(0), now, value.current_state_timestamp, at)
    return [gap, *rebalance.events([FIRST_KNOWN], DEAD.value)]


def _within(group_id: str, before: Generation, now: Generation, at: At) -> list[GroupEvent]:
    """A record of the same generation again: as a rule a static member is there under another id."""
    found = difference(before.members.values(), now.members.values())
    detail = f"a further record of generation {now.number}"
    step = Step(before.state, now.state, now.number, len(now.members))
    events = []
    for change in found.changes(detail, detail, Evidence.RECORD):
        shown = {"leader_id": now.leader, "members": _shown(now)}
        events.append(observed_event(group_id, step, change, at, **shown))
        step = step._replace(from_state=now.state)
    return events


@dataclass(frozen=True, slots=True)
class _Rebalance:
    """The rebalance from one stored generation to the next."""

    group_id: str
    before: Generation
    now: Generation
    joined_ms: int  # When its join phase ended; negative where an old broker stored no such time.
    at: At

    def events(self, changes: list[Change], from_state: str | None = None) -> list[GroupEvent]:
        """Its events: one for each change, at the latest time at which it may have been, and the one of its end.

        `from_state` is the state before; by default the one in which the generation before was stored.
        """
        phase = _SYNCING if self.now.members else _JOINING
        syncing_ms = self._syncing_ms()
        since = At(self.at.partition, self.at.offset, self.at.wall_ms - (syncing_ms or 0), self.at.hole_at)
        state, count = from_state or self.before.state, len(self.before.members)
        events = []
        for change in changes:
            count += change.gain
            step = Step(state, phase, self.now.number, count)
            events.append(observed_event(self.group_id, step, change, since))
            state = phase
        spent = {} if syncing_ms is None else {_SYNCING: syncing_ms}
        return [*events, self._end(phase, changes[0], spent)]

    def _syncing_ms(self) -> int | None:
        """How long members synced; None if that is not known."""
        if not self.now.members or not 0 <= self.joined_ms <= self.at.wall_ms:
            return None
        return self.at.wall_ms - self.joined_ms

    def _end(self, phase: str, began_by: Change, spent: dict[str, int]) -> GroupEvent:
        now = self.now
        kind = CauseKind.ASSIGNMENT_STORED if now.members else CauseKind.GROUP_EMPTIED
        stored = Change(kind, Evidence.RECORD, member=now.members.get(now.leader or ""))
        ended = {"phase_ms": spent, "rebalance_cause": began_by.kind.slug, "rebalance_ms": spent}
        step = Step(phase, now.state, now.number, len(now.members))
        shown = {"leader_id": now.leader, "members": _shown(now)}
        return observed_event(self.group_id, step, stored, self.at, ended, **shown)


def _changes(before: Generation, now: Generation) -> list[Change]:
    """Why there is a new generation, as far as two records show it; at least one change."""
    found = difference(before.members.values(), now.members.values())
    changes = found.changes(
        f"inferred, in generation {before.number} and not in {now.number}",
        f"inferred, not in generation {before.number}" if before.number else FIRST_OF_ALL,
        Evidence.MEMBERS,
    )
    return changes or _changes_of_the_same(before, now)


def _changes_of_the_same(before: Generation, now: Generation) -> list[Change]:
    """Why the same members have a new generation."""
    detail = f"inferred, subscribes to other topics than in generation {before.number}"
    subscribed = [
        Change(CauseKind.MEMBER_METADATA_CHANGED, Evidence.SUBSCRIPTIONS, detail, member)
        for member in now.members.values()
        if "" != member.subscribed != (before.members[member.member_id].subscribed or member.subscribed)
    ]
    if subscribed:
        return subscribed
    if now.members and now.protocol != before.protocol:
        detail = f"inferred, the assignor is {now.protocol} and was {before.protocol}"
        return [Change(CauseKind.MEMBER_METADATA_CHANGED, Evidence.SUBSCRIPTIONS, detail)]
    if now.protocol in EAGER_ASSIGNORS and (grown := _grown(before.partitions, now.partitions)):
        return [
            Change(CauseKind.PARTITION_COUNTS_CHANGED, Evidence.ASSIGNMENTS, f"inferred, {', '.join(grown)}")
        ]
    detail = f"the same {'members' if now.members else 'emptiness'} as in generation {before.number}"
    return [Change(CauseKind.CAUSE_UNKNOWN, Evidence.MEMBERS, detail)]


def _grown(before: dict[str, int], now: dict[str, int]) -> list[str]:
    """In words, the topics of which more partitions are assigned than before."""
    return [
        f"{count} partitions of {topic} are assigned, before {before[topic]}"
        for topic, count in now.items()
        if before.get(topic, count) < count
    ]


def _shown(generation: Generation) -> Any:
    return tuple(member.shown() for member in generation.members.values())


def _member(member: MemberMetadata, is_consumers: bool) -> Member:
    subscribed = _digest(member.subscription) if is_consumers else ""
    names = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
    return Member(*names, subscribed, member.rebalance_timeout, member.session_timeout)


def _name(member: MemberMetadata) -> tuple[str, str, str]:
    return member.group_instance_id or "", member.client_id, member.member_id


def _digest(subscription: bytes) -> str:
    """A digest of the topics subscribed to; "" for bytes that are no subscription."""
    try:
        topics = decode_subscription(subscription).topics
    except DecodeError:
        return ""
    return digest_of(topics)


def digest_of(texts: Iterable[str]) -> str:
    """A short digest of texts, whatever their order."""
    joined = "\0".join(sorted(texts))
    return blake2b(joined.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _assigned(members: Iterable[MemberMetadata]) -> dict[str, int]:
    """By topic, one more than the highest partition that is assigned; assignments that are none are left out."""
    found: dict[str, int] = {}
    for member in members:
        try:
            assigned = decode_assignment(member.assignment).assigned_partitions
        except DecodeError:
            continue  # Empty as a rule: a member without partitions.
        for each in assigned:
            found[each.topic] = max(found.get(each.topic, 0), *(one + 1 for one in each.partitions), 0)
    return found
