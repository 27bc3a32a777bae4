"""A rebalance that is on: who has joined, who is waited for, and until when.

`Waiting` is what is shown of it, wherever it comes from. Here it is made of what every Kafka answers to
DescribeGroups and ConsumerGroupDescribe, and of the events so far. What only the coordinator knows is left open
and said to be not known: of a classic group which members have joined again, and when each was last heard. An
answer of the coordinator's own that has this is to fill in the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.history.rebalances import ASSIGNING, JOINING, LAST_PHASES, REBALANCING, SYNCING
from muster.groups.descriptions import CONSUMER, LEFT_FOR_NOW, GroupDescription, MemberDescription
from muster.groups.why.namesakes import NONE, Namesakes
from muster.groups.why.words import clock, member_name, name, names, poll_interval_is, span
from protocol.topic_partition import TopicPartition

_BY_JOIN_GROUP: Final = frozenset(
    kind.slug
    for kind in (
        CauseKind.MEMBER_JOINED,
        CauseKind.LEADER_REJOINED,
        CauseKind.MEMBER_METADATA_CHANGED,
        CauseKind.PARTITION_COUNTS_CHANGED,
        CauseKind.STATIC_MEMBER_REPLACED,
    )
)
"""Where one of these is the cause, the member behind it has sent its JoinGroup."""


@dataclass(frozen=True, slots=True)
class MissingMember:
    """A member that is, or may be, waited for; what is not known of it is None or empty."""

    member: str
    gives_up: tuple[str, ...] = ()  # Partitions of a consumer group that it has to give up first.
    awaits: tuple[str, ...] = ()  # Partitions that it is to get and does not have.
    is_away: bool = False  # A static member that has left for now, so that its place is kept.
    heard_ms: int | None = None  # How long ago its last heartbeat came: the coordinator alone knows.
    says: str | None = None  # What it says by what it sends: likewise.
    ends_in_ms: int | None = None  # Until it is waited for no more, if it has a time of its own: likewise.
    member_id: str = ""
    poll_interval_ms: int | None = (
        None  # Its max.poll.interval.ms, if it heartbeats and does not poll: likewise.
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a rebalance waits for now; times in ms since 1970."""

    state: str
    since_ms: int | None = None  # When the phase began; None: not known.
    until_ms: int | None = None  # When it ends at the latest.
    joined: tuple[str, ...] = ()
    missing: tuple[MissingMember, ...] = ()
    is_certain: bool = False  # Whether all of `missing` are waited for; else those that are, are among them.
    not_known: tuple[str, ...] = ()


def waiting_of(
    group: GroupDescription | None, events: list[GroupEvent], namesakes: Namesakes = NONE
) -> Waiting | None:
    """What the group waits for, by its description and the events of the rebalance so far; None if for nothing."""
    if group is None or group.state not in REBALANCING:
        return None
    if group.group_type == CONSUMER:
        return _of_consumer_group(group, events, namesakes)
    phase = _phase(group.state, events)
    arrived = {event.member_id for event in phase if event.cause in _BY_JOIN_GROUP}
    joined = [each for each in group.members if each.member_id in arrived and group.state == JOINING]
    missing = [each for each in group.members if each not in joined]
    begin = phase[0] if phase else None
    timeouts = [each.phase_timeout_ms for each in phase if each.phase_timeout_ms is not None]
    since_ms = None if begin is None else begin.wall_ms
    until_ms = phase[-1].wall_ms + timeouts[-1] if phase and timeouts and len(timeouts) > 1 else None
    if begin is not None and len(timeouts) == 1:
        until_ms = begin.wall_ms + timeouts[0]
    return Waiting(
        group.state,
        since_ms,
        until_ms,
        tuple(sorted(_name(each, namesakes) for each in joined)),
        _sorted(MissingMember(_name(each, namesakes), member_id=each.member_id) for each in missing),
        False,
        tuple(_not_known_of_classic(group.state, until_ms)),
    )


def _phase(state: str, events: list[GroupEvent]) -> list[GroupEvent]:
    """The events since the group took its state; empty if the one by which it did is missing."""
    phase: list[GroupEvent] = []
    for event in reversed(events):
        if event.to_state != state:
            return []
        phase.insert(0, event)
        if event.from_state != state:
            return phase
    return []


def _not_known_of_classic(state: str, until_ms: int | None) -> Iterator[str]:
    if state == JOINING:
        yield "which of them have joined again, for Kafka's protocol does not say it"
    if state == SYNCING:
        yield "which of them have sent their SyncGroup; as a rule the leader's assignment is waited for"
    yield "when each was last heard: none has been silent for its whole session"
    if until_ms is None:
        yield "until when they are waited for"


def _of_consumer_group(group: GroupDescription, events: list[GroupEvent], namesakes: Namesakes) -> Waiting:
    names_by_id = {member.member_id: _name(member, namesakes) for member in group.members}
    owners = {where: names_by_id[member.member_id] for member in group.members for where in member.partitions}
    missing = {
        member.member_id: found
        for member in group.members
        if (found := _unreconciled(member, group, names_by_id[member.member_id], owners))
    }
    phase = _phase(group.state, events)
    return Waiting(
        group.state,
        phase[0].wall_ms if phase else None,
        None,
        tuple(sorted(shown for member_id, shown in names_by_id.items() if member_id not in missing)),
        _sorted(missing.values()),
        True,
        ("when each was last heard: none has been silent for its whole session",),
    )


def _sorted(missing: Iterable[MissingMember]) -> tuple[MissingMember, ...]:
    return tuple(sorted(missing, key=lambda each: (each.member, each.member_id)))


def _unreconciled(
    member: MemberDescription, group: GroupDescription, shown: str, owners: Mapping[TopicPartition, str]
) -> MissingMember | None:
    """The member as one that is waited for; None if it has what it is to have."""
    has, target = set(member.partitions), set(member.target_partitions or ())
    is_behind = (member.member_epoch or 0) < (group.group_epoch or 0)
    if has == target and not is_behind:
        return None
    awaits = [
        _partition(where) + (f" (of {owners[where]})" if where in owners else "")
        for where in sorted(target - has)
    ]
    gives_up = tuple(_partition(each) for each in sorted(has - target))
    is_away = member.member_epoch == LEFT_FOR_NOW
    return MissingMember(shown, gives_up, tuple(awaits), is_away, member_id=member.member_id)


def sentences(waiting: Waiting, now_ms: int) -> Iterator[str]:
    """The same in words, one sentence a line."""
    if waiting.since_ms is not None:
        line = f"It has been in {waiting.state} for {span(max(now_ms - waiting.since_ms, 0))}"
    else:
        line = f"It is in {waiting.state}, since when is not known"
    if waiting.until_ms is not None:
        left_ms = waiting.until_ms - now_ms
        ends = f"until {clock(waiting.until_ms, now_ms)} at the latest"
        line += f", {ends}, " + (f"which is in {span(left_ms)}" if left_ms > 0 else "which is over")
    yield f"{line}."
    if waiting.state == ASSIGNING:
        yield "The coordinator has yet to compute who is to have what: it does so with a member's next heartbeat."
    if waiting.joined:
        done = "Have what they are to have" if waiting.state in LAST_PHASES else "Joined"
        yield f"{done}: {names(waiting.joined)}."
    if waiting.is_certain:
        for each in waiting.missing[:NAMED_MAX]:
            yield f"Waited for: {_missing(each)}."
            if each.poll_interval_ms is not None:
                yield poll_interval_is(each.poll_interval_ms)
    elif waiting.missing:
        heads = "Waited for" if len(waiting.missing) == 1 else "Waited for, or joined again already"
        yield f"{heads}: {names([_missing(each) for each in waiting.missing])}."
    for unknown in waiting.not_known:
        yield f"Not known: {unknown}."


NAMED_MAX: Final = 10
"""The most members that are waited for of which each has a line of its own."""


def _missing(missing: MissingMember) -> str:
    parts = [missing.member + (", which has left for now" if missing.is_away else "")]
    if missing.says is not None:
        parts[0] += f", which {missing.says}"
    if missing.heard_ms is not None:
        parts.append(f"last heard {span(missing.heard_ms)} ago")
    if missing.gives_up:
        parts.append(f"which has to give up {names(missing.gives_up)}")
    if missing.awaits:
        parts.append(f"which is to get {names(missing.awaits)}")
    if missing.ends_in_ms is not None:
        parts.append(f"for {span(missing.ends_in_ms)} more")
    return ", ".join(parts)


def _name(member: MemberDescription, namesakes: Namesakes) -> str:
    client = (member.client_id, member.client_host)
    shown = member_name(member.group_instance_id, *client, member.member_id)
    return namesakes.told_apart(shown, member.member_id)


def _partition(where: TopicPartition) -> str:
    return f"{name(where.topic)}-{where.partition}"
