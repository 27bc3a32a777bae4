"""Whom a rebalance of a consumer group waited for, and to give up what: noted while it is on, named as it ends.

A member comes to its target by its own requests, but may find that others still have what it is to get. So the
last is the member whose request ends a rebalance, or the one that gave up the last of what this one waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator.groups.causes import CauseKind, listed
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.topic_catalog import TopicImages

GIVEN_UP_MAX: Final = 10
"""The most partitions that one event names; its `last_given_up_count` counts them all."""

HOW_REMOVED: Final = {
    CauseKind.MEMBER_LEFT: "left",
    CauseKind.REMOVED_BY_ADMIN: "was removed by admin",
    CauseKind.SESSION_EXPIRED: "expired",
    CauseKind.REVOCATION_TIMEOUT: "did not give up in time",
    CauseKind.REJOIN_TIMEOUT: "did not join again in time",
    CauseKind.SYNC_TIMEOUT: "did not sync in time",
}
"""What a member did that gave something up by its removal, in the words of a reason."""

IdAndPartition: TypeAlias = tuple[bytes, int]
"""A partition, by the id of its topic."""


class GivenUp(NamedTuple):
    """What a member gave up at once, perhaps nothing; `after_ms` is the time since the rebalance began."""

    member: ConsumerMember
    partitions: tuple[IdAndPartition, ...]
    after_ms: int
    removed_by: CauseKind | None = None  # Why it was removed, if it gave them up by that.

    def named(self, topics: TopicImages) -> tuple[list[str], int]:
        """The partitions of topics that still exist, in order, as many as one event names; and how many they are.

        A member may have had all partitions of a large group: to sort ten thousand takes as long as a turn.
        """
        ids = {topic_id for topic_id, _ in self.partitions}
        names = {topic_id: topics.topic_name(topic_id) for topic_id in ids}
        existing = [
            (name, partition)
            for topic_id, partition in self.partitions
            if (name := names[topic_id]) is not None
        ]
        return [f"{topic}-{each}" for topic, each in nsmallest(GIVEN_UP_MAX, existing)], len(existing)

    def fields(self, named: tuple[list[str], int]) -> dict[str, Any]:
        """The fields of an event that say that this member was the last; with what `named` returned."""
        member, (names, count) = self.member, named
        return {
            "last_member_id": member.member_id,
            "last_group_instance_id": member.instance_id,
            "last_client_id": member.client_id,
            "last_client_host": member.client_host,
            "last_arrival_ms": self.after_ms,
            "last_given_up_count": count,
            "last_given_up": tuple(names),
        }

    def words(self, named: tuple[list[str], int]) -> str | None:
        """Who gave up what, as the detail of a reason; None if it gave up nothing."""
        member, (names, count) = self.member, named
        if not names:
            return None
        who = member.instance_id or member.client_id or member.member_id
        how = None if self.removed_by is None else HOW_REMOVED.get(self.removed_by, self.removed_by.text)
        return f"{listed(names, count)} came from {who}" + ("" if how is None else f", which {how}")


Noted: TypeAlias = dict[IdAndPartition, tuple[int, GivenUp]]
"""What was given up last, by partition, with a number that rises."""


class Mark(NamedTuple):
    """How releases were: the partitions, and what was noted of those that were noted otherwise since."""

    since_epoch: int
    by_partition: Noted
    former: dict[IdAndPartition, tuple[int, GivenUp] | None]


@dataclass(slots=True)
class Releases:
    """By which member each partition was given up last, of those that a member waits for in the present epoch.

    Bounded by the partitions that members had.
    """

    since_epoch: int = 0  # A member of a former epoch waits for nothing here: it has not come yet.
    _by_partition: Noted = field(default_factory=dict)
    _number: int = 0  # Of what was given up last.
    _marked: Mark | None = None

    def mark(self) -> None:
        """Have `go_back` come back to how it is now."""
        self._marked = Mark(self.since_epoch, self._by_partition, {})

    def go_back(self) -> None:
        """Forget what changed since `mark`. Raises AssertionError if that was not called since the last time."""
        marked, self._marked = self._marked, None
        assert marked is not None, "there is nothing to go back to"
        self.since_epoch, self._by_partition = marked.since_epoch, marked.by_partition
        for each, former in marked.former.items():
            if former is None:
                del self._by_partition[each]
            else:
                self._by_partition[each] = former

    def begin_anew(self, epoch: int) -> None:
        """Forget all that was given up; from `epoch` on members wait for what they do not get."""
        self.since_epoch = epoch
        self._by_partition = {}

    def note(self, given_up: GivenUp) -> None:
        """Note what was given up, behind all that was before."""
        noted, marked = self._by_partition, self._marked
        self._number += 1
        if marked is not None and marked.by_partition is noted:
            for each in given_up.partitions:
                marked.former.setdefault(each, noted.get(each))
        noted.update(dict.fromkeys(given_up.partitions, (self._number, given_up)))

    def last_of(self, partitions: Iterable[IdAndPartition]) -> GivenUp | None:
        """Return what was given up last, of that which any of these partitions was among."""
        found = [self._by_partition[each] for each in partitions if each in self._by_partition]
        return max(found, key=lambda numbered: numbered[0])[1] if found else None


def held_by(current: CurrentAssignment) -> set[IdAndPartition]:
    """What others cannot have because of a member: it has it, or has not confirmed that it gave it up."""
    held = (current.assigned, current.pending_revocation)
    return {(topic_id, each) for epochs in held for topic_id, of_topic in epochs.items() for each in of_topic}
