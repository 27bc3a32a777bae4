"""The uniform assignor: as equal as can be, and as sticky as that allows (A38 to A42)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from coordinator.groups.consumer.assignors.levels import Levels
from coordinator.groups.consumer.assignors.specs import Draft, MemberSpec, PartitionCounts, Target
from coordinator.groups.consumer.java_order import JavaTable, uuid_hash

MAX_ROUNDS = 16
"""Rounds over all topics that may move partitions; where subscriptions overlap it could go on for long."""


def assign_homogeneous(members: Sequence[MemberSpec], partition_counts: PartitionCounts) -> dict[str, Target]:
    """Targets of members that all subscribe to the same topics: their sizes differ by one at most.

    `members` come in the order of their table, and are at least one.
    """
    subscribed = JavaTable.of_list(uuid_hash, members[0].topic_ids, members[0].name_count)
    if not subscribed:
        return {}
    unassigned = _in_no_target(members, subscribed, partition_counts)
    minimum, extras = divmod(sum(partition_counts[topic_id] for topic_id in subscribed), len(members))
    drafts = {member.member_id: Draft(member.target) for member in members}
    unfilled: list[tuple[Draft, int]] = []
    for index, draft in enumerate(drafts.values()):
        is_extra = extras > 0
        left = _cut_to(draft, minimum + is_extra, subscribed, unassigned)
        if left and is_extra and len(members) - index > extras:
            left -= 1  # Enough members follow that may have more already.
            is_extra = False
        if left:
            unfilled.append((draft, left))
        extras -= is_extra
    rest = iter(unassigned)
    for draft, left in unfilled:
        for topic_id, partition in islice(rest, left):
            draft.add(topic_id, partition)
    return {member_id: draft.built() for member_id, draft in drafts.items()}


def _in_no_target(
    members: Sequence[MemberSpec], subscribed: JavaTable[bytes], partition_counts: PartitionCounts
) -> list[tuple[bytes, int]]:
    """The partitions of the subscribed topics that no member is to have, topics in the order of their set."""
    taken = {
        (topic_id, partition)
        for member in members
        for topic_id, partitions in member.target.items()
        for partition in partitions
    }
    every = (
        (topic_id, partition) for topic_id in subscribed for partition in range(partition_counts[topic_id])
    )
    return [each for each in every if each not in taken]


def _cut_to(
    draft: Draft, quota: int, subscribed: JavaTable[bytes], unassigned: list[tuple[bytes, int]]
) -> int:
    """Take from `draft` what is beyond `quota`, to the end of `unassigned`; return how many it lacks."""
    for topic_id in draft.topic_ids():
        if topic_id not in subscribed:
            draft.remove_topic(topic_id)
            continue
        partitions = draft.partitions(topic_id)
        for partition in partitions[quota:]:
            draft.remove(topic_id, partition)
            unassigned.append((topic_id, partition))
        quota -= min(quota, len(partitions))
    return quota


def assign_heterogeneous(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts
) -> dict[str, Target]:
    """Targets of members whose subscriptions differ: each topic's subscribers differ by as little as can be.

    `members` come in the order of their table.
    """
    computation = _Heterogeneous(members, partition_counts)
    if not computation.subscribers:
        return {}
    computation.keep_subscribed()
    computation.assign_rest()
    computation.balance()
    return {
        member.member_id: draft.built() for member, draft in zip(members, computation.drafts, strict=True)
    }


class _Heterogeneous:
    """Members go by their index. `owners` and `sizes` say what the drafts hold."""

    def __init__(self, members: Sequence[MemberSpec], partition_counts: PartitionCounts) -> None:
        self._members = members
        self._counts = partition_counts
        self.drafts = [Draft(member.target) for member in members]
        self.subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self._owners: dict[bytes, list[int | None]] = {
            topic_id: [None] * partition_counts[topic_id] for topic_id in self.subscribers
        }
        self._sizes = [0] * len(members)

    def keep_subscribed(self) -> None:
        """Free the partitions of topics that their members do not subscribe to any more."""
        for index, (member, draft) in enumerate(zip(self._members, self.drafts, strict=True)):
            subscribed = set(member.topic_ids)
            for topic_id in draft.topic_ids():
                if topic_id not in subscribed:
                    draft.remove_topic(topic_id)
                    continue
                partitions = member.target[topic_id]
                self._sizes[index] += len(partitions)
                for partition in partitions:
                    self._owners[topic_id][partition] = index

    def assign_rest(self) -> None:
        """Give what no member has to the subscribers that have least, topic by topic."""
        free = {
            topic_id: [partition for partition, owner in enumerate(owners) if owner is None]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._in_order(topic_id for topic_id, partitions in free.items() if partitions):
            levels = Levels(self.subscribers[topic_id], self._sizes)
            for partition in free[topic_id]:
                self._give(topic_id, partition, levels.next_receiver())

    def balance(self) -> None:
        """Move partitions between subscribers of a topic, until a whole round of topics moves none."""
        shared = self._in_order(
            topic_id for topic_id, indices in self.subscribers.items() if len(indices) > 1
        )
        last_moved = None
        for _ in range(MAX_ROUNDS):
            for topic_id in shared:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: bytes) -> int:
        """Return how many of the topic's partitions were moved."""
        levels = Levels(self.subscribers[topic_id], self._sizes)
        if levels.spread <= 1:
            return 0
        held: dict[
            int, list[int]
        ] = {}  # At the start: what is received in this turn is not given away again.
        for partition, owner in enumerate(self._owners[topic_id]):
            if owner is not None:
                held.setdefault(owner, []).append(partition)
        moved = 0
        while (donor := levels.next_donor()) is not None:
            if not held.get(donor):
                levels.set_aside_donor()
                continue
            partition = held[donor].pop()
            receiver = levels.next_receiver()
            if levels.are_level:
                break
            self.drafts[donor].remove(topic_id, partition)
            self._sizes[donor] -= 1
            self._give(topic_id, partition, receiver)
            moved += 1
        return moved

    def _give(self, topic_id: bytes, partition: int, receiver: int) -> None:
        per_subscriber = -(-self._counts[topic_id] // len(self.subscribers[topic_id]))
        self.drafts[receiver].add(topic_id, partition, int(per_subscriber / 0.75) + 1)
        self._owners[topic_id][partition] = receiver
        self._sizes[receiver] += 1

    def _in_order(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Sort by partitions for each subscriber, most first; then the fewest subscribers, then by id."""

        def rank(topic_id: bytes) -> tuple[float, int, int, int]:
            subscriber_count = len(self.subscribers[topic_id])
            msb, lsb = int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)
            return -self._counts[topic_id] / subscriber_count, subscriber_count, msb, lsb

        return sorted(topic_ids, key=rank)
