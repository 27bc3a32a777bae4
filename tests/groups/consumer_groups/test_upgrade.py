"""A classic group becomes a consumer group with the first member of the new protocol (A54 to A57)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.effects import CoordinatorRecord, Effects, SetTimer
from coordinator.groups.classic.group import Group, PendingMember
from coordinator.groups.classic.member import OfferedProtocol, Parked
from coordinator.groups.classic.records import new_group_tombstone
from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import JoinTimer, SessionTimer, SyncTimer
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.timers import MemberSessionTimer
from coordinator.groups.consumer.upgrade import GroupUpgraded, on_upgrade_stored
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.groups.consumer_groups.migrating import (
    NOW,
    TOPIC_ID,
    World,
    assignment,
    classic_group,
    classic_member,
    joining,
    leaving,
)

DISABLED = "online upgrade is disabled"
MALFORMED = "the embedded consumer protocol is malformed"


def two_members(**fields: Any) -> Group:
    members = (classic_member("a", assignment(0, 1)), classic_member("b", assignment(2, 3)))
    return classic_group(*members, **fields)


def test_the_members_keep_what_they_have_and_the_new_one_gets_a_share_of_the_target() -> None:
    world = World(two_members())
    answer = world.beat(joining())
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 5)
    assert world.written == [
        "-2", "5 b", "5 a", "3", "7 b", "7 a", "6", "8 b", "8 a",
        "5 new", "3", "7 new", "7 b", "6", "8 new",
    ]  # fmt: skip
    group = world.shard.groups["g"]
    assert world.effects.records[0] == new_group_tombstone("g")
    assert group.currents["b"].assigned == {TOPIC_ID: {2: 4, 3: 4}}
    assert (group.epoch, group.currents["a"].member_epoch, group.classic_count) == (5, 4, 2)
    assert not world.shard.classic_groups


def test_the_first_records_are_of_the_generation_and_of_no_time() -> None:
    world = World(two_members())
    world.beat(joining())
    epoch, target = (
        record.value
        for record in (world.effects.records[3], world.effects.records[6])
        if isinstance(record, CoordinatorRecord) and record.value is not None
    )
    assert (epoch.epoch, target.assignment_epoch, target.assignment_timestamp) == (4, 4, 0)


def test_a_member_that_has_no_assignment_yet_and_a_topic_that_is_gone_are_nothing() -> None:
    world = World(classic_group(classic_member("a"), classic_member("b", assignment(0, topic="gone"))))
    world.beat(joining())
    group = world.shard.groups["g"]
    assert [current.assigned for current in (group.currents["a"], group.currents["b"])] == [{}, {}]


def test_a_partition_that_is_no_longer_there_is_left_out() -> None:
    """A topic that was made again may be smaller; an assignor that is given such a partition fails."""
    world = World(classic_group(classic_member("a", assignment(0, 3, 4))))
    world.beat(joining(subscribed_topic_names=["other"]))
    assert world.shard.groups["g"].currents["a"].assigned == {TOPIC_ID: {0: 4, 3: 4}}


def test_an_assignment_of_no_partition_and_without_user_data_is_one_as_any_other() -> None:
    world = World(classic_group(classic_member("a", assignment(user_data=b""))))
    assert world.beat(joining()).error_code == ErrorCode.NONE
    assert world.shard.groups["g"].currents["a"].assigned == {}


def test_the_topics_of_a_group_that_is_new_are_looked_at_again_with_the_next_heartbeat() -> None:
    world = World(two_members())
    world.beat(joining())
    soft = world.shard.soft("g")
    assert soft.is_stale(NOW.now_ms, 5, 0)
    world.beat(ConsumerGroupHeartbeatRequest(group_id="g", member_id="new", member_epoch=5))
    assert not soft.is_stale(NOW.now_ms, 5, 0)


def test_sessions_go_on_by_the_timers_of_the_new_kind() -> None:
    classic = two_members()
    classic.members["a"].session_timer_ms = 9_000
    classic.pending_members["p"] = PendingMember(8_000, 8_000)
    world = World(classic)
    world.beat(joining())
    assert world.effects.timers == [
        SetTimer(SessionTimer("g", "a"), None),
        SetTimer(MemberSessionTimer("g", "a"), 21_000),
        SetTimer(MemberSessionTimer("g", "b"), 21_000),
        SetTimer(SessionTimer("g", "p"), None),
        SetTimer(JoinTimer("g"), None),
        SetTimer(SyncTimer("g"), None),
        SetTimer(MemberSessionTimer("g", "new"), 46_000),
    ]


def waiting_group() -> Group:
    join, sync = Parked("join of a", 9), Parked("sync of b", 5)
    members = (
        classic_member("a", assignment(0), awaiting_join=join),
        classic_member("b", assignment(1), awaiting_sync=sync),
    )
    group = classic_group(*members, state=PREPARING_REBALANCE)
    group.pending_sync.add("b")
    group.sync_deadline_ms = 6_000
    return group


def test_members_that_wait_are_to_join_again() -> None:
    world = World(waiting_group())
    world.beat(joining())
    error = ErrorCode.REBALANCE_IN_PROGRESS
    assert world.refused == [("join of a", error), ("sync of b", error)]
    assert world.effects.replies[0].response.member_id == "a"


def test_an_empty_group_is_replaced_whatever_the_policy() -> None:
    classic = Group("g", state=EMPTY, generation_id=7)
    world = World(classic, migration_policy=MigrationPolicy.DISABLED)
    assert world.beat(joining()).member_epoch == 2
    assert world.written == ["-2", "5 new", "3", "7 new", "6", "8 new"]


def unlike(classic: Group, **fields: Any) -> Group:
    for name, value in fields.items():
        setattr(classic, name, value)
    return classic


@pytest.mark.parametrize(
    ("classic", "settings", "why"),
    [
        (two_members(), {"migration_policy": MigrationPolicy.DISABLED}, DISABLED),
        (two_members(), {"migration_policy": MigrationPolicy.DOWNGRADE}, DISABLED),
        (
            unlike(two_members(), protocol_type="connect"),
            {},
            "the group does not use the consumer embedded protocol",
        ),
        (two_members(), {"max_size": 1}, "the group size exceeds the consumer group maximum size"),
        (classic_group(classic_member("a", b"\0")), {}, MALFORMED),
        (
            classic_group(classic_member("a", protocols=(OfferedProtocol("range", b"\0"),))),
            {},
            MALFORMED,
        ),
        (
            classic_group(classic_member("a", assignment(0, user_data=b"u"))),
            {},
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        ),
    ],
)
def test_what_cannot_be_upgraded_is_refused_with_the_reason(
    classic: Group, settings: dict[str, Any], why: str
) -> None:
    world = World(classic, **settings)
    answer = world.beat(joining())
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {why}."
    assert_untouched(world, classic)


def assert_untouched(world: World, classic: Group) -> None:
    assert (world.effects.records, world.effects.timers, world.effects.then) == ([], [], None)
    assert len(world.effects.replies) == 1
    assert world.shard.classic_groups == {"g": classic}
    assert not world.shard.groups


@pytest.mark.parametrize("policy", [MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE])
def test_a_policy_that_names_the_upgrade_allows_it(policy: MigrationPolicy) -> None:
    assert World(two_members(), migration_policy=policy).beat(joining()).error_code == ErrorCode.NONE


def test_before_there_is_a_protocol_the_newcomer_is_to_try_again() -> None:
    """Kafka answers an unknown error here, for which consumers give up, and sends those that wait back."""
    join = Parked("join of a", 9)
    classic = classic_group(classic_member("a", awaiting_join=join), state=PREPARING_REBALANCE, protocol=None)
    world = World(classic)
    assert world.beat(joining()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert_untouched(world, classic)
    assert classic.members["a"].awaiting_join is join


def test_a_partition_that_two_members_were_given_is_no_failure_of_the_shard() -> None:
    classic = classic_group(classic_member("a", assignment(0)), classic_member("b", assignment(0)))
    world = World(classic)
    assert world.beat(joining()).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert_untouched(world, classic)


def test_a_full_group_refuses_the_newcomer_and_lets_those_that_wait_wait() -> None:
    """Kafka has answered these by then."""
    classic = waiting_group()
    world = World(classic, max_size=2)
    assert world.beat(joining()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert_untouched(world, classic)
    assert classic.joined_count == 1


@pytest.mark.parametrize(
    "request_",
    [ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=4), leaving("a")],
)
def test_a_request_that_is_no_join_does_not_find_a_consumer_group(
    request_: ConsumerGroupHeartbeatRequest,
) -> None:
    classic = two_members()
    world = World(classic)
    answer = world.beat(request_)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "Group g is not a consumer group."
    assert_untouched(world, classic)


def test_a_static_classic_member_may_be_the_one_that_joins() -> None:
    classic = two_members()
    classic.remove("b")
    classic.add(unlike_static("b"), "consumer")
    world = World(classic)
    answer = world.beat(joining(instance_id="i"))
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 4)
    assert world.written[9:12] == ["-8 b", "-7 b", "-5 b"]
    assert world.shard.groups["g"].currents["new"].assigned == {TOPIC_ID: {2: 4, 3: 4}}


def unlike_static(member_id: str) -> Any:
    member = classic_member(member_id, assignment(2, 3))
    member.group_instance_id = "i"
    return member


def test_an_upgrade_that_is_not_stored_leaves_the_classic_group_with_new_sessions() -> None:
    classic = waiting_group()
    world = World(classic)
    world.beat(joining(), is_stored=False)
    assert world.effects.then == GroupUpgraded(classic)
    after = Effects()
    on_upgrade_stored(world.shard, GroupUpgraded(classic), ErrorCode.MESSAGE_TOO_LARGE, NOW, after)
    assert world.shard.classic_groups == {"g": classic}
    assert world.shard.known_soft("g") is None
    assert not any(member.is_parked for member in classic.members.values())
    assert (classic.state, classic.generation_id) == (PREPARING_REBALANCE, 4)
    assert after.timers == [
        *(SetTimer(MemberSessionTimer("g", each), None) for each in ("a", "b", "new")),
        *(SetTimer(SessionTimer("g", each), 21_000) for each in ("a", "b")),
        SetTimer(JoinTimer("g"), 7_000),
        SetTimer(SyncTimer("g"), 6_000),
    ]


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_an_upgrade_that_is_stored_is_over(outcome: ErrorCode) -> None:
    """So is one that the disk takes too long for: the group is a consumer group by now."""
    classic = two_members()
    world = World(classic)
    world.beat(joining())
    after = Effects()
    on_upgrade_stored(world.shard, GroupUpgraded(classic), outcome, NOW, after)
    assert after.result() == Effects().result()
    assert not world.shard.classic_groups


@pytest.mark.parametrize("state", [STABLE, COMPLETING_REBALANCE])
def test_ids_that_were_handed_out_come_back_with_their_time(state: Any) -> None:
    classic = two_members(state=state)
    classic.pending_members["p"] = PendingMember(9_000, 8_000)
    world = World(classic)
    world.beat(joining(), is_stored=False)
    after = Effects()
    on_upgrade_stored(world.shard, GroupUpgraded(classic), ErrorCode.KAFKA_STORAGE_ERROR, NOW, after)
    assert after.timers[-1] == SetTimer(SessionTimer("g", "p"), 8_000)
