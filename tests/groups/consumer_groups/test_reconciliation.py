"""One member's way from what it has to its target: each row is a heartbeat and what comes of it (A24 to A28)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from coordinator.groups.consumer.reconciliation import (
    FREE,
    CurrentAssignment,
    Goal,
    UnknownMemberState,
    reconcile,
)
from coordinator.groups.consumer.states import MemberState

STABLE, UNREVOKED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS
UNRELEASED, UNKNOWN = MemberState.UNRELEASED_PARTITIONS, MemberState.UNKNOWN

A, B = b"A" * 16, b"B" * 16
Epochs = Mapping[bytes, Mapping[int, int]]


def at(epoch: int, *partitions: int, topic: bytes = A) -> dict[bytes, dict[int, int]]:
    """Partitions of one topic, all assigned in one epoch."""
    return {topic: dict.fromkeys(partitions, epoch)} if partitions else {}


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat of a member whose target of epoch 11 is `target`; others hold `held`, in epoch 10."""

    before: CurrentAssignment
    target: Mapping[bytes, list[int]]
    after: CurrentAssignment
    owned: Mapping[bytes, list[int]] | None = None
    held: Mapping[bytes, list[int]] = field(default_factory=dict)
    subscribed: tuple[bytes, ...] = (A, B)
    names_topics: bool = True
    is_changed: bool = False
    epoch: int = 11

    def play(self) -> CurrentAssignment:
        own = {
            (topic, partition)
            for epochs in (self.before.assigned, self.before.pending_revocation)
            for topic, partitions in epochs.items()
            for partition in partitions
        }

        def epoch_of(topic: bytes, partition: int) -> int:
            if (topic, partition) in own:
                return self.before.member_epoch
            return 10 if partition in self.held.get(topic, ()) else FREE

        goal = Goal(self.epoch, self.target, self.subscribed, self.names_topics)
        return reconcile(self.before, goal, self.owned, epoch_of, is_subscription_changed=self.is_changed)


HEARTBEATS = {
    "a stable member at its target's epoch keeps what it has": Heartbeat(
        CurrentAssignment(11, 10, STABLE, at(9, 1, 2)),
        {A: [1, 2]},
        CurrentAssignment(11, 10, STABLE, at(9, 1, 2)),
    ),
    "a new epoch with the same target is taken over": Heartbeat(
        CurrentAssignment(10, 9, STABLE, at(9, 1, 2)),
        {A: [1, 2]},
        CurrentAssignment(11, 10, STABLE, at(9, 1, 2)),
    ),
    "what is new comes with the target's epoch, what is kept keeps its own": Heartbeat(
        CurrentAssignment(10, 9, STABLE, at(9, 1)),
        {A: [1, 2]},
        CurrentAssignment(11, 10, STABLE, {A: {1: 9, 2: 11}}),
    ),
    "what is to go is asked for first, in the old epoch": Heartbeat(
        CurrentAssignment(10, 9, STABLE, at(9, 1, 2)),
        {A: [2, 3]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
    ),
    "what the member says it does not own needs no confirmation": Heartbeat(
        CurrentAssignment(10, 9, STABLE, at(9, 1, 2)),
        {A: [2, 3]},
        CurrentAssignment(11, 10, STABLE, {A: {2: 9, 3: 11}}),
        owned={A: [2]},
    ),
    "a member that does not say what it owns has not confirmed": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
        {A: [2, 3]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
    ),
    "nor has one that still owns it": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
        {A: [2, 3]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
        owned={A: [1, 2]},
    ),
    "once it is confirmed the member goes on to the target": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
        {A: [2, 3]},
        CurrentAssignment(11, 10, STABLE, {A: {2: 9, 3: 11}}),
        owned={A: [2]},
    ),
    "to the newest target, which may take more away": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2, 3), at(9, 1)),
        {A: [3]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 3), at(9, 2)),
        owned={A: [2, 3]},
    ),
    "what it gave up itself is free for it again": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
        {A: [1, 2]},
        CurrentAssignment(11, 10, STABLE, {A: {1: 11, 2: 9}}),
        owned={A: [2]},
    ),
    "what others hold is waited for": Heartbeat(
        CurrentAssignment(10, 9, STABLE, at(9, 1)),
        {A: [1, 2, 3]},
        CurrentAssignment(11, 10, UNRELEASED, {A: {1: 9, 2: 11}}),
        held={A: [3]},
    ),
    "and comes as soon as it is free": Heartbeat(
        CurrentAssignment(11, 10, UNRELEASED, {A: {1: 9, 2: 11}}),
        {A: [1, 2, 3]},
        CurrentAssignment(11, 11, STABLE, {A: {1: 9, 2: 11, 3: 11}}),
    ),
    "waiting goes on at the target's epoch": Heartbeat(
        CurrentAssignment(11, 11, UNRELEASED, at(9, 1)),
        {A: [1, 3]},
        CurrentAssignment(11, 11, UNRELEASED, at(9, 1)),
        held={A: [3]},
    ),
    "while it waits a newer target may take away": Heartbeat(
        CurrentAssignment(10, 9, UNRELEASED, at(9, 1, 2)),
        {A: [2]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 2), at(9, 1)),
    ),
    "a topic that is not subscribed any more is not of the target": Heartbeat(
        CurrentAssignment(10, 9, STABLE, {A: {1: 9}, B: {1: 9}}),
        {A: [1], B: [1]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 1), at(9, 1, topic=B)),
        subscribed=(A,),
    ),
    "it goes at once when the subscription changes, before there is another target": Heartbeat(
        CurrentAssignment(11, 10, STABLE, {A: {1: 9}, B: {1: 9}}),
        {A: [1], B: [1]},
        CurrentAssignment(11, 11, UNREVOKED, at(9, 1), at(9, 1, topic=B)),
        subscribed=(A,),
        is_changed=True,
    ),
    "and adds to what is to go already": Heartbeat(
        CurrentAssignment(10, 10, UNREVOKED, {A: {1: 9}, B: {1: 9}}, at(9, 2)),
        {A: [1], B: [1]},
        CurrentAssignment(10, 10, UNREVOKED, at(9, 1), {A: {2: 9}, B: {1: 9}}),
        subscribed=(A,),
        is_changed=True,
    ),
    "if the member has given it up already, it is just gone": Heartbeat(
        CurrentAssignment(11, 10, STABLE, {A: {1: 9}, B: {1: 9}}),
        {A: [1], B: [1]},
        CurrentAssignment(11, 11, STABLE, at(9, 1)),
        owned={A: [1]},
        subscribed=(A,),
        is_changed=True,
    ),
    "a change that takes nothing away changes nothing": Heartbeat(
        CurrentAssignment(11, 10, STABLE, at(9, 1)),
        {A: [1]},
        CurrentAssignment(11, 10, STABLE, at(9, 1)),
        subscribed=(A,),
        is_changed=True,
    ),
    "one to no topics at all counts as a step even of a member without partitions": Heartbeat(
        CurrentAssignment(11, 10, STABLE),
        {},
        CurrentAssignment(11, 11, STABLE),
        subscribed=(),
        names_topics=False,
        is_changed=True,
    ),
    "a member in an unknown state begins anew, without partitions": Heartbeat(
        CurrentAssignment(9, 8, UNKNOWN),
        {A: [1]},
        CurrentAssignment(11, 9, STABLE, at(11, 1)),
        owned={},
    ),
}


@pytest.mark.parametrize("heartbeat", HEARTBEATS.values(), ids=HEARTBEATS)
def test_a_heartbeat(heartbeat: Heartbeat) -> None:
    assert heartbeat.play() == heartbeat.after


@pytest.mark.parametrize("owned", [None, {A: [1]}])
def test_a_member_in_an_unknown_state_that_may_have_partitions_is_refused(
    owned: Mapping[bytes, list[int]] | None,
) -> None:
    before = CurrentAssignment(9, 8, UNKNOWN, at(9, 1))
    with pytest.raises(UnknownMemberState):
        Heartbeat(before, {A: [1]}, before, owned=owned).play()
