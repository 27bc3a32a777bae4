"""`/api/v1/group` and what is below it: one group as it is now, what it waits for, its rebalances, why, its lag.

All of it is read from the living group, and from the newest events in memory: an older history is on
`__group_events`. A group's id is a parameter, as it may be any text.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic import waited_members as classic_waited
from coordinator.groups.classic.describe_groups import describe_group as describe_classic_group
from coordinator.groups.classic.describe_groups import describe_member
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE
from coordinator.groups.consumer import waited_members as consumer_waited
from coordinator.groups.consumer.describe import describe_group as describe_consumer_group
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.waited_members import Waited, Waiting
from coordinator.groups.waited_members import heard_ms as heard_ms_by
from coordinator.history.events import worded
from coordinator.history.rebalances import RebalanceFold
from coordinator.http.exchange import Aside, HttpProblem, Question, Steps
from coordinator.http.explained import ExplainedGroup
from coordinator.http.group_list import Row, classic_row, consumer_row
from coordinator.http.parts import in_parts
from coordinator.http.sources import Sources
from coordinator.metrics.figures import GroupFigures
from coordinator.runtime.shard_states import ELSEWHERE, LOADING
from coordinator.shard.shard import Shard
from protocol.consumer import PROTOCOL_TYPE, decode_assignment
from protocol.errors import DecodeError
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeGroup
from protocol.messages.describe_groups import DescribedGroup

NAMED_MAX: Final = 100
"""The most members that are named as joined, and as missing; all members are listed beside them."""

EVENTS_MAX: Final = 1_000
"""The most events that one answer tells or goes by."""

MINUTES_MAX: Final = 60

FIRST_GENERATION: Final = 0
"""That of a classic group as its first member joins; one that was loaded from the log goes on with its own."""
FIRST_EPOCH: Final = 2
"""That of a consumer group with its first member."""


T = TypeVar("T")
Described: TypeAlias = DescribedGroup | ConsumerGroupDescribeGroup
Living: TypeAlias = tuple[Described, tuple[Member, ...]]
"""A description, and the members of a classic group, which it does not have yet."""


class GroupPages:
    """Answers what is asked of one group."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._runtime = sources.runtime
        self._now_ms, self._wall_ms = sources.runtime.now_ms, sources.runtime.wall_ms

    # /group

    def group(self, question: Question) -> Steps:
        """One group as it is now."""
        group_id = question.text("id")
        shard = self._shard(group_id)
        figures = self._sources.metrics.figures(group_id)
        if (classic := shard.groups.get(group_id)) is not None:
            fields = self._classic(classic, figures)
        elif (consumer := shard.consumer_groups.get(group_id)) is not None:
            fields = self._consumer(shard, consumer, figures)
        else:
            raise _no_such_group()
        yield from in_parts(fields)

    def _shard(self, group_id: str) -> Shard:
        """The group's shard. Raises HttpProblem while it is not loaded."""
        runner = self._runtime.runner_for(group_id)
        if runner.state is ELSEWHERE and self._sources.nodes is not None:
            place = self._sources.nodes.place_of(runner.partition)
            raise HttpProblem(421, f"Shard {runner.partition}, which has this group, {place}.")
        if runner.shard is None:
            state = "is loading" if runner.state is LOADING else "is out of service"
            raise HttpProblem(
                503, f"Shard {runner.partition}, which has this group, {state}.", {"Retry-After": "1"}
            )
        return runner.shard

    def _living(self, group_id: str) -> None:
        """Raise HttpProblem where there is no such group."""
        shard = self._shard(group_id)
        if group_id not in shard.groups and group_id not in shard.consumer_groups:
            raise _no_such_group()

    def _classic(self, group: Group, figures: GroupFigures | None) -> dict[str, Any]:
        now_ms = self._now_ms()
        row = classic_row(group)
        since = None if group.state_since_ms is None else now_ms - group.state_since_ms
        members = tuple(group.members.values())
        margins = {} if figures is None else figures.margins
        return {
            **_heading(row, since, group.leader),
            **_figures(figures),
            **_waiting(classic_waited.waiting_of(group, now_ms)),
            "member_count": len(members),
            "members": (
                _classic_member(each, group, now_ms, margins.get(each.member_id)) for each in members
            ),
        }

    def _consumer(self, shard: Shard, group: ConsumerGroup, figures: GroupFigures | None) -> dict[str, Any]:
        now_ms = self._now_ms()
        row = consumer_row(group, shard.consumers.settings.assignors[0])
        soft = shard.consumers.known_soft(group.group_id)
        since = None if soft is None or soft.course.since_ms is None else now_ms - soft.course.since_ms
        margins = {} if figures is None else figures.margins
        members = tuple(group.members.values())
        return {
            **_heading(row, since, None),
            **_figures(figures),
            **_waiting(consumer_waited.waiting_of(shard.consumers, group, now_ms)),
            "member_count": len(members),
            "members": (
                self._consumer_member(shard, group, each, margins.get(each.member_id)) for each in members
            ),
        }

    def _consumer_member(
        self, shard: Shard, group: ConsumerGroup, member: ConsumerMember, margin: float | None
    ) -> dict[str, Any]:
        current = group.currents.get(member.member_id)
        name_of = self._sources.topic_name
        assigned = {} if current is None else current.assigned
        settings = shard.consumers.settings.of(group.group_id)
        return {
            **_who(member.member_id, member.client_id, member.client_host, member.instance_id),
            "session_ms": member.session_timeout_ms(settings.session_timeout_ms),
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "heard_ms": consumer_waited.heard_ms_of(shard.consumers, group.group_id, member, self._now_ms()),
            "margin": margin,
            "epoch": None if current is None else current.member_epoch,
            "partitions": {
                name_of(topic_id) or topic_id.hex(): sorted(each) for topic_id, each in assigned.items()
            },
        }

    # /group/rebalances and /group/why

    def rebalances(self, question: Question) -> Steps:
        """The group's rebalances as the events in memory show them, and these events; the newest come first."""
        group_id = question.text("id")
        since_ms = question.number("from", 0, 0, 1 << 62)
        limit = question.number("limit", 50, 1, EVENTS_MAX)
        events = yield from self._events(group_id)
        if not events:  # One that is gone may have left some.
            self._living(group_id)
        fold = RebalanceFold()
        found = []
        for event in events:
            if not event.dropped_count:
                found += fold.add(event)
            yield None
        running = None if fold.running is None else fold.running.so_far(group_id)
        wanted = [each for each in reversed(found) if each.ended_at >= since_ms][:limit]
        newest = list(islice((event for event in reversed(events) if event.wall_ms >= since_ms), EVENTS_MAX))
        yield from in_parts(
            {
                "group": group_id,
                "running": None if running is None else running._asdict(),
                "rebalances": (each._asdict() for each in wanted),
                "events": (asdict(event) for event in newest),
                "kept_per_group": self._sources.settings.muster_history_events_per_group,
            }
        )

    def why(self, question: Question) -> Steps:
        """Why the group rebalanced last, or does now, in words; by the events in memory and the living group."""
        group_id = question.text("id")
        explain = self._sources.explain
        if explain is None:
            raise HttpProblem(501, "This daemon was started without words.")
        now_ms, history = self._wall_ms(), self._sources.history
        is_whole = history.is_whole(group_id)
        living, document = self._living_group(group_id)  # With the events, before others have the loop.
        events = yield from self._events(group_id)
        if not events and document is None:
            raise HttpProblem(404, "No events of such a group are in memory.")
        described = yield from _described(living)
        if document is not None:
            document["members"] = yield from _gathered(document["members"])
        newest = events[-EVENTS_MAX:]
        is_whole = is_whole and len(newest) == len(events) and _are_all(events)
        group = ExplainedGroup(group_id, now_ms, newest, is_whole, described, document)
        return (yield Aside(lambda: explain(group)))

    def _living_group(self, group_id: str) -> tuple[Living | None, dict[str, Any] | None]:
        """What Kafka's protocol says of the group, and `/api/v1/group` of it while it rebalances."""
        shard = self._runtime.runner_for(group_id).shard
        if shard is None:
            return None, None
        living: Living
        if (classic := shard.groups.get(group_id)) is not None:
            living = describe_classic_group(classic, ()), tuple(classic.members.values())
            document = self._classic(classic, None)
        elif (consumer := shard.consumer_groups.get(group_id)) is not None:
            living = describe_consumer_group(consumer, shard.consumers), ()
            document = self._consumer(shard, consumer, None)
        else:
            return None, None
        return living, None if document["waiting"] is None else document

    def _events(self, group_id: str) -> Generator[None, Any, list[GroupEvent]]:
        """The group's events in memory, oldest first, worded a few at a time."""
        return (yield from _gathered(map(worded, self._sources.history.rows(group_id))))

    # /group/lag

    def lag(self, question: Question) -> Steps:
        """The group's lag over time, as columns."""
        group_id = question.text("id")
        minutes = question.number("minutes", MINUTES_MAX, 1, MINUTES_MAX)
        self._living(group_id)
        found = self._sources.metrics.lag_history(group_id, minutes)
        yield None
        return {
            "group": group_id,
            "times_ms": found.times_ms,
            "records": found.records,
            "seconds": found.seconds,
        }


def _are_all(events: list[GroupEvent]) -> bool:
    """Whether the group began with the first of these, and was here all the time."""
    if not events:
        return True
    first = events[0]
    began = FIRST_GENERATION if first.to_state == PREPARING_REBALANCE.value else FIRST_EPOCH
    is_new = first.from_state == EMPTY.value and first.generation_id <= began
    return is_new and all(each.cause != CauseKind.COORDINATOR_RESTARTED.slug for each in events)


def _described(living: Living | None) -> Generator[None, Any, Described | None]:
    """The description, with the members that it does not have yet, a few at a time."""
    if living is None:
        return None
    group, members = living
    if isinstance(group, DescribedGroup):
        group.members = yield from _gathered(describe_member(each, None) for each in members)
    return group


def _gathered(items: Iterable[T]) -> Generator[None, Any, list[T]]:
    """All of them, made a few at a time."""
    found: list[T] = []
    for item in items:
        found.append(item)
        if len(found) % 50 == 0:
            yield None
    return found


def _no_such_group() -> HttpProblem:
    return HttpProblem(404, "There is no such group.")


def _heading(row: Row, since_ms: int | None, leader: str | None) -> dict[str, Any]:
    """What a group of either kind begins with; `since_ms` is how long it is in its state."""
    return {
        "group": row.group_id,
        "type": row.type,
        "state": row.state,
        "since_ms": since_ms,
        "generation": row.generation,
        "protocol": row.protocol,
        "leader": leader,
    }


def _figures(figures: GroupFigures | None) -> dict[str, Any]:
    if figures is None:
        return {"lag": None}
    lag = figures.lag
    return {
        "lag": {
            "records": lag.records,
            "seconds": lag.seconds,
            "trend": lag.trend,
            "topics": {
                topic: {"records": each.records, "seconds": each.seconds, "partitions": each.partitions}
                for topic, each in lag.topics.items()
            },
        },
        "rebalances": dict(figures.rebalances),
        "lost_ms": dict(figures.lost_ms),
        "last_rebalance_ms": figures.last_rebalance_ms,
        "last_cause": figures.last_cause,
        "commits": figures.commits,
        "margin": figures.margin,
    }


def _waiting(waiting: Waiting | None) -> dict[str, Any]:
    """What a rebalance waits for."""
    if waiting is None:
        return {"waiting": None}
    joined = list(islice(waiting.joined, NAMED_MAX))
    missing = [_waited(each) for each in islice(waiting.missing, NAMED_MAX)]
    counts = {"joined_count": waiting.joined_count, "missing_count": waiting.missing_count}
    return {"waiting": {"joined": joined, "missing": missing, "ends_in_ms": waiting.ends_in_ms, **counts}}


def _waited(waited: Waited) -> dict[str, Any]:
    return {
        **_who(waited.member_id, waited.client_id, waited.client_host, waited.group_instance_id),
        "heard_ms": waited.heard_ms,
        "is": waited.says.slug,
        "says": waited.says.text,
        "ends_in_ms": waited.ends_in_ms,
    }


def _who(member_id: str, client_id: str, client_host: str, instance_id: str | None) -> dict[str, Any]:
    return {
        "member": member_id,
        "client": client_id,
        "host": client_host.removeprefix("/"),
        "instance": instance_id,
    }


def _classic_member(member: Member, group: Group, now_ms: int, margin: float | None) -> dict[str, Any]:
    client_id, host = member.origin
    is_parked = member.is_parked  # Its session does not run then.
    heard = heard_ms_by(member.session_deadline_ms, member.session_timeout_ms, now_ms)
    return {
        **_who(member.member_id, client_id, host, member.group_instance_id),
        "session_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "heard_ms": 0 if is_parked else heard,
        "margin": margin,
        "partitions": _partitions(member, group),
    }


def _partitions(member: Member, group: Group) -> dict[str, list[int]] | None:
    """What the member was assigned; None where that is not for us to read."""
    if group.protocol_type != PROTOCOL_TYPE:
        return None
    if not member.assignment:
        return {}
    try:
        assigned = decode_assignment(member.assignment).assigned_partitions
    except DecodeError:
        return None
    return {each.topic: sorted(each.partitions) for each in assigned}
