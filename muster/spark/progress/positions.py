"""Compares the positions of a query and of its group. Plain values, no Spark, no Kafka.

A position is a partition's next offset, in a checkpoint as in a group: everything before it is done. A group may
be moved forwards silently, and backwards only if the user asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from protocol.topic_partition import TopicPartition

Positions: TypeAlias = Mapping[TopicPartition, int]

SHOWN_MAX: Final = 10
"""The number of partitions named in an error: a group may have thousands."""


class ProgressError(Exception):
    """Following a query is impossible from now on; the message is a sentence for the user."""


class CheckpointError(ProgressError):
    """The checkpoint is damaged, or of a kind that cannot be read."""


class LiveMembersError(ProgressError):
    """The group has members, which commit its offsets themselves."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a checkpoint's Kafka sources stand.

    `batch_id` is the newest finished batch and `offsets` are its end offsets. Before the first batch has ended
    it is None, and `offsets` are those the sources begin at: none, until the query's first start.
    """

    batch_id: int | None
    offsets: Positions

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known: neither what was read nor where reading begins."""
        return self.batch_id is None and not self.offsets


@dataclass(frozen=True, slots=True)
class OffsetConflict:
    """A partition in which the group is ahead of the checkpoint, whose offset is None if it knows nothing yet."""

    topic: str
    partition: int
    checkpoint_offset: int | None
    group_offset: int

    def __str__(self) -> str:
        here = "nothing yet" if self.checkpoint_offset is None else self.checkpoint_offset
        return f"{self.topic}-{self.partition} (checkpoint: {here}, group: {self.group_offset})"


class ConflictError(ProgressError):
    """A commit of the checkpoint's offsets would move the group backwards."""

    def __init__(self, group_id: str, conflicts: Sequence[OffsetConflict], advice: str) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(f"group {group_id} stands later than the checkpoint: {listed(conflicts)}. {advice}")


def conflicts(standing: Standing, group: Positions) -> list[OffsetConflict]:
    """The partitions in which a commit of `standing` would move `group` backwards, sorted.

    A checkpoint that knows nothing yet is in conflict with all that the group has: the query may begin anywhere,
    and as a rule begins at the beginning.
    """
    if standing.is_fresh:
        return [OffsetConflict(*where, None, offset) for where, offset in sorted(group.items())]
    return [
        OffsetConflict(*where, offset, group[where])
        for where, offset in sorted(standing.offsets.items())
        if offset < group.get(where, 0)
    ]


def due(standing: Standing, group: Positions) -> dict[TopicPartition, int]:
    """The offsets to commit: ends of the finished batch that the group does not have; empty before one."""
    if standing.batch_id is None:
        return {}
    return {where: offset for where, offset in standing.offsets.items() if group.get(where) != offset}


def earliest(positions: Sequence[Positions]) -> dict[TopicPartition, int]:
    """All positions as one; the earliest of a partition with several, which all have reached."""
    found: dict[TopicPartition, int] = {}
    for some in positions:
        for where, offset in some.items():
            found[where] = min(offset, found.get(where, offset))
    return found


def of_topics(positions: Positions, topics: frozenset[str] | None) -> dict[TopicPartition, int]:
    """The positions in `topics`; all of them if that is None."""
    return {where: offset for where, offset in positions.items() if topics is None or where.topic in topics}


def listed(things: Sequence[object]) -> str:
    """The first SHOWN_MAX of `things` as text, and how many more there are."""
    more = len(things) - SHOWN_MAX
    return ", ".join(str(thing) for thing in things[:SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")
