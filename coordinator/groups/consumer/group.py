"""A consumer group as its records say it is (KIP-848): epochs, members, targets, and who has which partition.

All of it is stored state, so it changes in `replay` alone; handlers read it and return records. What else a
group has, its timers and when its topics are to be looked at again, is soft and lost with a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from coordinator.groups.consumer.assignor_votes import AssignorVotes
from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.java_order import TimelineTable
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.partition_epochs import HeldPartitions
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.states import GroupState, MemberState, group_state
from coordinator.groups.consumer.subscriptions import Subscriptions

FIRST_EPOCH: Final = 1
"""Epoch of a group, and of its empty target, before there is any record."""

LEFT_EPOCH: Final = -1
"""Epoch of a member that is gone, and of a target that was removed."""

LEFT_FOR_NOW_EPOCH: Final = -2
"""Epoch of a static member that said that it will be back."""


@dataclass(slots=True)
class ConsumerGroup:
    """One consumer group. `members` and `currents` have the same keys."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_wall_ms: int = 0  # When the target was computed; 0: at no time that is known.
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    currents: dict[str, CurrentAssignment] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # Instance id to member id.
    # How many members are in each state and epoch.
    standings: dict[tuple[MemberState, int], int] = field(default_factory=dict)
    table: TimelineTable = field(default_factory=TimelineTable)  # The order of the members.
    held: HeldPartitions = field(default_factory=HeldPartitions)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    is_homogeneous: bool = (
        True  # As it was when a member last changed: an expression that goes later changes nothing.
    )
    assignor_votes: AssignorVotes = field(default_factory=AssignorVotes)
    classic_count: int = 0  # Members that use the classic protocol.
    classic_protocols: Counter[str] = field(
        default_factory=Counter
    )  # How many of them offer each of its protocols.
    has_partition_metadata: bool = False  # A record of before Kafka 4.1, which is to be removed.
    changes: int = 0  # Number of its records that were replayed, the one that removes it among them.

    @property
    def state(self) -> GroupState:
        """The state that is shown."""
        return group_state(self.epoch, self.assignment_epoch, self.standings)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has this instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def supports_classic_protocols(self, names: list[str]) -> bool:
        """Whether one of these is offered by all classic members."""
        if not self.members:
            return bool(names)
        return any(self.classic_protocols[name] == self.classic_count for name in names)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member subscribes to a topic, by its name or by an expression."""
        return topic in self.subscriptions.by_name or topic in self.subscriptions.by_match

    # What `replay` calls; nothing else does.

    def put_member(self, member: ConsumerMember, current: CurrentAssignment) -> None:
        """Add a member, or replace it. Raises PartitionHeldTwice."""
        before = self.members.get(member.member_id)
        if before is not None:
            former = self.currents[member.member_id]
            self.held.release(former)
            take_one(self.standings, former.standing)
        standing = current.standing
        self.standings[standing] = self.standings.get(standing, 0) + 1
        self._count(before, member)
        self.members[member.member_id] = member
        self.currents[member.member_id] = current
        self.table.put(member.member_id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.held.enter(current)
        self.is_homogeneous = self.subscriptions.are_homogeneous(len(self.members))

    def remove_member(self, member_id: str) -> None:
        """Remove a member that is there."""
        member, current = self.members.pop(member_id), self.currents.pop(member_id)
        self.held.release(current)
        take_one(self.standings, current.standing)
        self.table.remove(member_id)
        self._count(member, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        self.is_homogeneous = self.subscriptions.are_homogeneous(len(self.members))

    def _count(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self.subscriptions.change(before, after)
        self.assignor_votes.change(before, after)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.classic is not None:
                self.classic_count += step
                for name in {each.name for each in member.classic.protocols}:
                    self.classic_protocols[name] += step


def take_one(counts: dict[tuple[MemberState, int], int], key: tuple[MemberState, int]) -> None:
    """Count one less; a key without any is left out."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
