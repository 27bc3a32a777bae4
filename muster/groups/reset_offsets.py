"""Plans a reset of a group's offsets: for which partitions, and to which offsets. Commits nothing.

The targets are those of Kafka's own tool. An offset outside the log is drawn to its nearer end, but for one that
is to stay what it is. A shift needs an offset to start from: it is refused where a topic was named and one of its
partitions has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from muster.cluster import Cluster, ClusterError
from muster.groups.admin import NO_OFFSET, offsets_at, partitions_of
from muster.groups.offsets import Move, committed_offsets
from muster.sentences import shown_id
from protocol.messages.list_offsets import EARLIEST, LATEST
from protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first offset of each partition."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The end of each partition."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """The same offset on each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToTimestamp:
    """The first record that is not older than a time; the log's end if there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """Move by this number of records from the committed offset; back if negative."""

    records: int


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """What is committed, whether the log still has it; the log's end where nothing is."""


@dataclass(frozen=True, slots=True)
class ToPlanned:
    """An offset of its own on each partition; the others are left out."""

    offsets: Mapping[TopicPartition, int]


Target: TypeAlias = ToEarliest | ToLatest | ToOffset | ToTimestamp | ShiftBy | ToCurrent | ToPlanned


def parse_datetime(text: str) -> int:
    """An ISO 8601 time in ms since 1970; without a zone it is in UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int] | None]:
    """The partitions by topic in texts like `topic` or `topic:0,2`; None for all of them. Raises ValueError."""
    wanted: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (
            colon and not all(number.isascii() and number.isdigit() for number in numbers.split(","))
        ):
            raise ValueError(f"{text!r} must be TOPIC or TOPIC:PARTITION,PARTITION,...")
        named = frozenset(map(int, numbers.split(","))) if colon else None
        before = wanted.get(topic, frozenset())
        wanted[topic] = None if named is None or before is None else named | before
    return wanted


async def plan_reset(
    cluster: Cluster, group_id: str, topics: Mapping[str, frozenset[int] | None] | None, target: Target
) -> list[Move]:
    """The moves of a reset; `topics` None means the partitions that the group has committed, or that a plan has.

    Raises ClusterError.
    """
    committed = await committed_offsets(cluster, group_id)
    if isinstance(target, ToPlanned):
        topics = _topics_of(target.offsets)
    leaders = await _chosen_leaders(cluster, _topics_of(committed) if topics is None else topics)
    if isinstance(target, ShiftBy):
        _require_committed(group_id, leaders, committed)
    earliest = await offsets_at(cluster, leaders, EARLIEST)
    latest = await offsets_at(cluster, leaders, LATEST)
    targets = await _target_offsets(cluster, leaders, target, committed, earliest, latest)
    return [
        Move(
            where.topic,
            where.partition,
            committed.get(where),
            offset if _stays(target, where, committed) else _clamped(offset, earliest[where], latest[where]),
        )
        for where, offset in sorted(targets.items())
    ]


def _topics_of(offsets: Iterable[TopicPartition]) -> dict[str, frozenset[int] | None]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for where in offsets:
        numbers[where.topic].add(where.partition)
    return {topic: frozenset(found) for topic, found in numbers.items()}


def _stays(target: Target, where: TopicPartition, committed: Mapping[TopicPartition, int]) -> bool:
    return isinstance(target, ToCurrent) and where in committed


async def _chosen_leaders(
    cluster: Cluster, topics: Mapping[str, frozenset[int] | None]
) -> dict[TopicPartition, int]:
    leaders = await partitions_of(cluster, topics)
    missing = topics.keys() - {where.topic for where in leaders}
    for topic, numbers in topics.items():
        missing |= {f"{topic}:{n}" for n in numbers or () if TopicPartition(topic, n) not in leaders}
    if missing:
        raise ClusterError(f"not in the cluster: {', '.join(sorted(missing))}")
    return {
        where: leader
        for where, leader in leaders.items()
        if (numbers := topics[where.topic]) is None or where.partition in numbers
    }


def _require_committed(
    group_id: str, leaders: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
) -> None:
    if lacking := sorted(leaders.keys() - committed.keys()):
        names = ", ".join(f"{where.topic}:{where.partition}" for where in lacking)
        raise ClusterError(f"group {shown_id(group_id)} has committed no offset to shift: {names}")


async def _target_offsets(
    cluster: Cluster,
    leaders: Mapping[TopicPartition, int],
    target: Target,
    committed: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match target:
        case ToEarliest():
            return {where: earliest[where] for where in leaders}
        case ToLatest():
            return {where: latest[where] for where in leaders}
        case ToOffset(offset):
            return dict.fromkeys(leaders, offset)
        case ShiftBy(records):
            return {where: committed[where] + records for where in leaders}
        case ToCurrent():
            return {where: committed.get(where, latest[where]) for where in leaders}
        case ToPlanned(offsets):
            return {where: offsets[where] for where in leaders}
        case ToTimestamp(timestamp_ms):
            found = await offsets_at(cluster, leaders, timestamp_ms)
            return {where: latest[where] if found[where] == NO_OFFSET else found[where] for where in leaders}


def _clamped(offset: int, earliest: int, latest: int) -> int:
    return min(max(offset, earliest), latest)
