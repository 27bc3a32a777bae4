"""How a member comes from what it has to what it is to have, in confirmed steps (KIP-848, A24 to A28).

A partition is given to a member only when no other has it any more, and is no other's before its holder
has confirmed that it gave it up, or was removed: so it never has two owners. What a member has, and what it has
to give up, is one value, `CurrentAssignment`, which is also what its record says; `reconcile` is a function from
one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from coordinator.groups.consumer.assignors.specs import Target
from coordinator.groups.consumer.states import MemberState

PartitionEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which it was assigned. No topic is without a partition."""

Partitions: TypeAlias = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""

FREE: Final = -1
"""The epoch of a partition that no member has."""


class UnknownMemberState(Exception):
    """A later version wrote the member's state, and it may have partitions: it has to join anew."""


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member has and where it stands: all that its record of type 8 says."""

    member_epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    @property
    def standing(self) -> tuple[MemberState, int]:
        """State and epoch, by which the group's state is reckoned."""
        return self.state, self.member_epoch

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has come to the target of this epoch, as far as anybody can see."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def at_epoch(self, epoch: int) -> CurrentAssignment:
        """The same at another epoch, or at the same once more; the former one is the previous then."""
        return replace(self, member_epoch=epoch, previous_epoch=self.member_epoch)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a member is to come to: its target, the target's epoch, and what it subscribes to at present.

    `subscribed` are the topics that exist; `names_topics` says whether it names any, be there such a topic or not.
    """

    epoch: int
    target: Target
    subscribed: Collection[bytes]
    names_topics: bool

    def wanted(self) -> dict[bytes, frozenset[int]]:
        """The target without topics that are no longer subscribed."""
        return {
            topic_id: frozenset(partitions)
            for topic_id, partitions in self.target.items()
            if topic_id in self.subscribed
        }


def reconcile(
    current: CurrentAssignment,
    goal: Goal,
    owned: Partitions | None,
    epoch_of: Callable[[bytes, int], int],
    *,
    is_subscription_changed: bool,
) -> CurrentAssignment:
    """Return the assignment after a heartbeat in which the member reports `owned` (None: it does not report).

    `epoch_of` returns the epoch of a partition's holder, or FREE. Raises UnknownMemberState.
    """
    match current.state:
        case MemberState.STABLE:
            goes_on = current.member_epoch != goal.epoch
        case MemberState.UNREVOKED_PARTITIONS:
            goes_on = not _owns(owned, current.pending_revocation)
        case MemberState.UNRELEASED_PARTITIONS:
            goes_on = True
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise UnknownMemberState
            goes_on = True
    if goes_on:
        return _towards(current, goal, owned, epoch_of)
    return _without_unsubscribed(current, goal, owned) if is_subscription_changed else current


def _towards(
    current: CurrentAssignment, goal: Goal, owned: Partitions | None, epoch_of: Callable[[bytes, int], int]
) -> CurrentAssignment:
    wanted = goal.wanted()
    kept, revoked = _split(current.assigned, wanted)
    if revoked and _owns(owned, revoked):
        # A member in an unknown state has nothing to give up, as `reconcile` has seen, so it never stays here.
        return replace(
            current.at_epoch(current.member_epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    is_waiting = False
    for topic_id, partitions in wanted.items():
        own = current.pending_revocation.get(topic_id, {})
        for partition in partitions.difference(kept.get(topic_id, ())):
            if partition in own or epoch_of(topic_id, partition) == FREE:
                kept.setdefault(topic_id, {})[partition] = goal.epoch
            else:
                is_waiting = True
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return CurrentAssignment(goal.epoch, current.member_epoch, state, kept, {})


def _without_unsubscribed(
    current: CurrentAssignment, goal: Goal, owned: Partitions | None
) -> CurrentAssignment:
    """Take away, before there is another target, what is of topics that the member no longer subscribes to."""
    still = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in goal.subscribed}
    kept, dropped = _split(current.assigned, still)
    if not dropped and (goal.names_topics or current.pending_revocation):
        return current
    pending = {topic_id: dict(epochs) for topic_id, epochs in current.pending_revocation.items()}
    for topic_id, epochs in dropped.items():
        pending.setdefault(topic_id, {}).update(epochs)
    at_epoch = current.at_epoch(current.member_epoch)
    if pending and _owns(owned, pending):
        return replace(
            at_epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=pending
        )
    return replace(at_epoch, assigned=kept)


def _split(
    epochs: PartitionEpochs, chosen: Mapping[bytes, Collection[int]]
) -> tuple[dict[bytes, dict[int, int]], dict[bytes, dict[int, int]]]:
    """The partitions that are chosen, and the others."""
    parts: tuple[dict[bytes, dict[int, int]], dict[bytes, dict[int, int]]] = ({}, {})
    for topic_id, of_topic in epochs.items():
        numbers = chosen.get(topic_id, ())
        first = {partition: epoch for partition, epoch in of_topic.items() if partition in numbers}
        if first:
            parts[0][topic_id] = first
        if len(first) < len(of_topic):
            parts[1][topic_id] = {each: epoch for each, epoch in of_topic.items() if each not in first}
    return parts


def _owns(owned: Partitions | None, revoked: PartitionEpochs) -> bool:
    """Whether a member may still have some of `revoked`: it says so, or does not say what it has."""
    if owned is None:
        return True
    return any(
        not revoked.get(topic_id, {}).keys().isdisjoint(partitions) for topic_id, partitions in owned.items()
    )
