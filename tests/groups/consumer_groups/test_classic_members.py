"""When a classic member of a consumer group is told to join again (A59, A60)."""

from __future__ import annotations

import pytest

from coordinator.effects import CoordinatorRecord, Effects, Moment, SetTimer
from coordinator.groups.consumer.classic_members import heartbeat
from coordinator.groups.consumer.member import ClassicMember, ConsumerMember, OfferedProtocol
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.records import (
    member_tombstones,
    new_current_record,
    new_member_record,
    new_target_epoch_record,
    new_target_record,
)
from coordinator.groups.consumer.refusal import Refused
from coordinator.groups.consumer.replay import replay_record
from coordinator.groups.consumer.shard_groups import ConsumerGroups, ConsumerGroupSettings
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.timers import ClassicJoinTimer
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from tests.oracle.heartbeat_histories import Topics

TOPIC = b"T" * 16
OLD = ConsumerMember(
    "old",
    rebalance_timeout_ms=8_000,
    classic=ClassicMember(20_000, (OfferedProtocol("range", b""),)),
)
NEW = ConsumerMember("new")
JOIN = SetTimer(ClassicJoinTimer("g", "old"), 9_000)


class World:
    """A classic member that is to have two partitions, of which the other member has one."""

    def __init__(self, old: CurrentAssignment, target_epoch: int = 3) -> None:
        self.shard = ConsumerGroups(ConsumerGroupSettings(), Topics())
        self.add(
            new_member_record("g", OLD),
            new_member_record("g", NEW),
            new_target_record("g", "old", {TOPIC: (0, 1)}),
            new_target_epoch_record("g", target_epoch, 1),
            new_current_record("g", "old", old),
            new_current_record("g", "new", CurrentAssignment(2, 1, MemberState.STABLE, {TOPIC: {1: 2}})),
        )

    def add(self, *records: CoordinatorRecord) -> None:
        for record in records:
            replay_record(self.shard.groups, record.key, record.value)

    def beat(self, generation_id: int = 3) -> tuple[ErrorCode, list[SetTimer]]:
        request = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="old")
        effects = Effects()
        error = heartbeat(self.shard, self.shard.groups["g"], request, Moment(1_000, 1_000), effects)
        return error, [timer for timer in effects.timers if isinstance(timer.key, ClassicJoinTimer)]


STABLE = CurrentAssignment(3, 2, MemberState.STABLE, {TOPIC: {0: 3}})
WAITING = CurrentAssignment(3, 2, MemberState.UNRELEASED_PARTITIONS, {TOPIC: {0: 3}})
GIVING_UP = CurrentAssignment(3, 3, MemberState.UNREVOKED_PARTITIONS, {}, {TOPIC: {0: 3}})


def test_a_member_at_the_target_stays() -> None:
    assert World(STABLE).beat() == (ErrorCode.NONE, [])


def test_a_newer_target_calls_it() -> None:
    assert World(STABLE, target_epoch=4).beat() == (ErrorCode.REBALANCE_IN_PROGRESS, [JOIN])


def test_what_it_has_to_give_up_calls_it() -> None:
    assert World(GIVING_UP).beat() == (ErrorCode.REBALANCE_IN_PROGRESS, [JOIN])


def test_what_it_waits_for_calls_it_once_it_is_free() -> None:
    world = World(WAITING)
    assert world.beat() == (ErrorCode.NONE, [])
    world.add(*member_tombstones("g", "new"))
    assert world.beat() == (ErrorCode.REBALANCE_IN_PROGRESS, [JOIN])


def test_another_generation_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        World(STABLE).beat(generation_id=2)
    assert refused.value.error is ErrorCode.ILLEGAL_GENERATION
