"""A consumer group of which only classic members are left becomes a classic group again (A62, A63)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import CoordinatorRecord, Effects, Moment, RequestContext, SetTimer
from coordinator.groups.causes import CauseKind
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.join_group import GroupCreated
from coordinator.groups.classic.member import Member, OfferedProtocol, Parked
from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.classic.states import PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import JoinTimer, SessionTimer
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.classic_members import join, on_classic_timer
from coordinator.groups.consumer.classic_members import leave as leave_classic
from coordinator.groups.consumer.downgrade import GroupDowngraded, join_instead, on_downgrade_stored
from coordinator.groups.consumer.events import Course
from coordinator.groups.consumer.leave import on_revocation_timer, on_session_timer
from coordinator.groups.consumer.member import ClassicMember
from coordinator.groups.consumer.member import OfferedProtocol as Stored
from coordinator.groups.consumer.member_ids import member_id_of
from coordinator.groups.consumer.records import new_current_record, new_member_record
from coordinator.groups.consumer.replay import replay_record
from coordinator.groups.consumer.states import MemberState
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_schemas import GroupMetadataValue
from harness.doubles.courses import at_once
from harness.doubles.topics import Topics as TopicList
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity
from tests.groups.consumer_groups.migrating import (
    NOW,
    SUBSCRIPTION,
    TOPIC,
    World,
    assignment,
    classic_group,
    classic_member,
    joining,
    leaving,
)

GONE = ["-8 a", "-8 b", "-8 new", "-7 a", "-7 b", "-7 new", "-6", "-5 a", "-5 b", "-5 new", "-4", "-3", "2"]
LATER = Moment(60_000, 560_000)

DRAWN = "00000000-0000-0000-0000-00000000000a"
ADMIN = RequestContext("me", 5, "admin", "/h")
AGAIN = member_id_of(DRAWN)
"""The id that a member gets for it."""


def mixed(*, instance_id: str | None = None, members: tuple[Member, ...] = (), **settings: Any) -> World:
    """A group of two classic members that one of the new protocol has joined."""
    members = members or (classic_member("a", assignment(0, 1)), classic_member("b", assignment(2, 3)))
    world = World(classic_group(*members), **settings)
    assert world.beat(joining(instance_id=instance_id)).error_code == ErrorCode.NONE
    return world


def group_metadata(world: World) -> GroupMetadataValue:
    record = world.effects.records[-1]
    assert isinstance(record, CoordinatorRecord)
    assert isinstance(record.value, GroupMetadataValue)
    return record.value


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group() -> None:
    world = mixed()
    answer = world.beat(leaving())
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, -1)
    assert sorted(world.written) == sorted(GONE)
    assert [each.split()[0] for each in world.written] == [each.split()[0] for each in GONE]
    assert not world.shard.groups
    classic = world.shard.classic_groups["g"]
    assert (classic.state, classic.generation_id, classic.protocol_name) == (PREPARING_REBALANCE, 5, "range")
    assert classic.subscribed_topics == frozenset({TOPIC})
    assert world.effects.history[-1].cause.kind is CauseKind.GROUP_DOWNGRADED


def test_the_record_is_of_the_epoch_and_has_the_target_as_assignment() -> None:
    """The member that leaves had one partition of the target, which nobody has now."""
    world = mixed()
    targets = world.shard.groups["g"].targets
    wanted = {each: assignment(*next(iter(targets[each].values()))) for each in ("a", "b")}
    world.beat(leaving())
    value = group_metadata(world)
    assert (value.generation, value.protocol, value.protocol_type) == (5, "range", "consumer")
    assert {each.member_id: each.assignment for each in value.members} == wanted
    assert value.leader in wanted
    assert value.current_state_timestamp == NOW.wall_ms


def test_sessions_and_the_rebalance_go_on_by_the_timers_of_the_classic_kind() -> None:
    world = mixed()
    world.beat(leaving())
    timers = dict(world.effects.timers)
    assert {key: timers[key] for key in timers if isinstance(key, MemberSessionTimer)} == {
        MemberSessionTimer("g", each): None for each in ("a", "b", "new")
    }
    assert timers[SessionTimer("g", "a")] == timers[SessionTimer("g", "b")] == 21_000
    assert timers[JoinTimer("g")] == 9_000
    assert world.shard.known_soft("g") is None


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED])
def test_a_policy_that_does_not_name_the_downgrade_keeps_the_kind(policy: MigrationPolicy) -> None:
    assert_stays(mixed(), migration_policy=policy)


def test_more_than_a_classic_group_may_have_keep_the_kind() -> None:
    assert_stays(mixed(), classic_max_size=1)


def assert_stays(mixed_one: World, **settings: Any) -> None:
    world = World(**settings)
    world.shard.groups.update(mixed_one.shard.groups)
    world.beat(leaving())
    assert world.written == ["-8 new", "-7 new", "-5 new", "3"]
    assert not world.shard.classic_groups


def test_a_group_without_members_keeps_the_kind() -> None:
    world = World()
    world.beat(joining())
    world.beat(leaving())
    assert world.written == ["-8 new", "-7 new", "-5 new", "3"]


def test_as_long_as_another_of_the_new_protocol_is_there_nothing_changes() -> None:
    world = mixed()
    world.beat(joining("other"))
    world.beat(leaving())
    assert world.written == ["-8 new", "-7 new", "-5 new", "3"]
    world.beat(leaving("other"))
    assert world.written[-1] == "2"


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL])
def test_a_member_that_is_silent_leaves_a_classic_group(policy: MigrationPolicy) -> None:
    world = World(migration_policy=policy)
    world.shard.groups.update(mixed().shard.groups)
    world.shard.soft("g").begin_session("new", 0, 45_000, Effects())
    world.effects = Effects()
    on_session_timer(world.shard, MemberSessionTimer("g", "new"), LATER, world.effects)
    world.replay()
    assert world.shard.classic_groups["g"].state is PREPARING_REBALANCE
    assert world.effects.then == GroupDowngraded("g", Course())


def test_a_member_that_gives_nothing_up_in_time_leaves_a_classic_group() -> None:
    world = mixed()
    epoch = world.shard.groups["g"].currents["new"].member_epoch
    world.shard.soft("g").await_revocation("new", epoch, 6_000, Effects())
    world.effects = Effects()
    on_revocation_timer(world.shard, RevocationTimer("g", "new"), LATER, world.effects)
    world.replay()
    assert "g" in world.shard.classic_groups


@pytest.mark.parametrize("timer", [ClassicJoinTimer("g", "a"), ClassicSyncTimer("g", "a")])
def test_a_classic_member_that_is_late_changes_no_kind(timer: ClassicJoinTimer | ClassicSyncTimer) -> None:
    world = mixed()
    soft = world.shard.soft("g")
    begin = soft.await_join if isinstance(timer, ClassicJoinTimer) else soft.await_sync
    begin("a", LATER.now_ms, Effects())
    world.effects = Effects()
    on_classic_timer(world.shard, timer, LATER, world.effects)
    assert world.written == ["-8 a", "-7 a", "-5 a", "3"]


def test_an_admin_that_removes_members_of_both_kinds_leaves_the_rest_a_classic_group() -> None:
    world = mixed()
    world.effects = Effects()
    identities = [MemberIdentity(member_id=each) for each in ("new", "a")]
    errors = leave_classic(world.shard, world.shard.groups["g"], identities, ADMIN, NOW, world.effects)
    world.replay()
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert list(world.shard.classic_groups["g"].members) == ["b"]


def classic_join(world: World, topics: list[str]) -> JoinGroupResponse:
    """The static member comes back with the classic protocol, as a new process."""
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=topics), 1)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=20_000,
        rebalance_timeout_ms=8_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    world.effects = Effects()
    context = RequestContext("me", 9, "c", "/h", DRAWN)
    joining = join(world.shard, world.shard.groups["g"], request, context, NOW, world.effects)
    answer = at_once(joining, NOW)
    world.replay()
    return answer


def test_a_static_member_that_is_a_classic_one_now_has_its_assignment_without_a_rebalance() -> None:
    world = mixed(instance_id="i")
    (target,) = world.shard.groups["g"].targets["new"].values()
    answer = classic_join(world, [TOPIC])
    classic = world.shard.classic_groups["g"]
    assert (answer.error_code, answer.generation_id, answer.member_id) == (ErrorCode.NONE, 5, AGAIN)
    assert (classic.state, classic.generation_id) == (STABLE, 5)
    assert classic.static_members == {"i": AGAIN}
    assert classic.members[AGAIN].assignment == assignment(*target)
    assert world.written[:7] == [
        "-8 new",
        "-7 new",
        "-5 new",
        f"5 {AGAIN}",
        f"7 {AGAIN}",
        f"8 {AGAIN}",
        f"5 {AGAIN}",
    ]
    assert f"-8 {AGAIN}" in world.written
    assert "-8 new" not in world.written[7:]
    assert not any(isinstance(key, ClassicSyncTimer) for key, deadline in world.effects.timers if deadline)


def test_a_static_member_that_subscribes_to_something_else_brings_a_rebalance() -> None:
    """The generation stays that of before, and the member has none: it is to join again."""
    world = mixed(instance_id="i")
    assert classic_join(world, [TOPIC, "other"]).generation_id == 0
    classic = world.shard.classic_groups["g"]
    assert (classic.state, classic.generation_id) == (PREPARING_REBALANCE, 5)


def test_a_downgrade_that_is_not_stored_leaves_the_consumer_group_with_new_sessions() -> None:
    world = mixed()
    world.beat(leaving(), is_stored=False)
    classic = world.shard.classic_groups["g"]
    park(classic, "a")
    after = Effects()
    on_downgrade_stored(
        world.shard, GroupDowngraded("g", Course()), ErrorCode.MESSAGE_TOO_LARGE, LATER, after
    )
    assert not world.shard.classic_groups
    assert "new" in world.shard.groups["g"].members
    assert [(each.reply_to, each.response.error_code) for each in after.replies] == [
        ("join of a", ErrorCode.REBALANCE_IN_PROGRESS)
    ]
    timers = dict(after.timers)
    assert timers[SessionTimer("g", "a")] is timers[JoinTimer("g")] is None
    assert timers[MemberSessionTimer("g", "a")] == 80_000
    assert timers[MemberSessionTimer("g", "new")] == 105_000


def test_a_member_that_had_something_to_give_up_has_its_whole_time_for_it_again() -> None:
    world = mixed()
    current = replace(world.shard.groups["g"].currents["new"], state=MemberState.UNREVOKED_PARTITIONS)
    record = new_current_record("g", "new", current)
    replay_record(world.shard.groups, record.key, record.value)
    world.beat(leaving(), is_stored=False)
    after = Effects()
    on_downgrade_stored(
        world.shard, GroupDowngraded("g", Course()), ErrorCode.KAFKA_STORAGE_ERROR, LATER, after
    )
    assert SetTimer(RevocationTimer("g", "new"), 65_000) in after.timers


def test_the_protocol_is_one_that_all_members_offer() -> None:
    both = (OfferedProtocol("cooperative-sticky", SUBSCRIPTION), OfferedProtocol("range", SUBSCRIPTION))
    world = mixed(members=(classic_member("a"), classic_member("b", protocols=both)))
    world.beat(leaving())
    assert world.shard.classic_groups["g"].protocol_name == "range"


def test_a_group_that_no_classic_one_can_be_made_of_lets_its_member_go() -> None:
    """Of the protocol that all offer one has sent what is no subscription: its JoinGroup was read as its first.

    Kafka refuses the leave, and the end of a session for ever.
    """
    world = malformed()
    assert world.beat(leaving()).error_code == ErrorCode.NONE
    assert world.written == ["-8 new", "-7 new", "-5 new", "3"]
    assert not world.shard.classic_groups
    identities = [MemberIdentity(member_id="a")]
    errors = leave_classic(world.shard, world.shard.groups["g"], identities, ADMIN, NOW, Effects())
    assert errors == [ErrorCode.NONE]
    assert list(world.shard.classic_groups["g"].members) == ["b"], "what is left can be read"


def test_a_static_member_comes_back_to_a_group_that_no_classic_one_can_be_made_of() -> None:
    world = malformed(instance_id="i")
    answer = classic_join(world, [TOPIC])
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 5)
    assert not world.shard.classic_groups
    assert world.shard.groups["g"].members.keys() == {"a", "b", AGAIN}


def malformed(instance_id: str | None = None) -> World:
    """Two classic members that have one protocol in common, which one of them does not say anything in."""
    bad = (Stored("first", SUBSCRIPTION), Stored("range", b""))
    world = mixed(instance_id=instance_id)
    group = world.shard.groups["g"]
    member = replace(group.members["a"], classic=ClassicMember(20_000, bad))
    record = new_member_record("g", member)
    replay_record(world.shard.groups, record.key, record.value)
    return world


def park(classic: Group, member_id: str) -> None:
    classic.park_join(classic.members[member_id], Parked("join of a", 9), 0)


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
def test_a_downgrade_that_is_stored_is_over(outcome: ErrorCode) -> None:
    """So is one that the disk takes too long for: the group is a classic one by now."""
    world = mixed()
    world.beat(leaving())
    after = Effects()
    on_downgrade_stored(world.shard, GroupDowngraded("g", Course()), outcome, NOW, after)
    assert after.timers == []
    assert "g" in world.shard.classic_groups


def test_a_group_may_change_its_kind_again() -> None:
    world = mixed()
    world.beat(leaving())
    assert world.beat(joining()).member_epoch == 6
    assert world.refused == []
    assert SetTimer(JoinTimer("g"), None) in world.effects.timers


def join_the_empty(
    world: World, member_id: str = "", session_timeout_ms: int = 20_000
) -> tuple[ErrorCode, ShardGroups]:
    """A classic member joins a group that nobody is left in; it is answered an id."""
    world.beat(joining())
    world.beat(leaving())
    classic = ShardGroups(GroupSettings(), TopicList(t=4))
    classic.groups = world.shard.classic_groups
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=8_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    world.effects = Effects()
    context = RequestContext("me", 9, "c", "/h", DRAWN)
    join_instead(world.shard, classic, request, context, NOW, world.effects)
    world.replay()
    return world.effects.replies[-1].response.error_code, classic


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_group_without_members_gives_way_to_a_classic_one(policy: MigrationPolicy) -> None:
    world = World(migration_policy=policy)
    error, classic = join_the_empty(world)
    assert error == ErrorCode.MEMBER_ID_REQUIRED
    assert world.written == ["-6", "-4", "-3", "2"]
    assert world.effects.then == GroupCreated("g")
    assert not world.shard.groups
    assert world.shard.known_soft("g") is None
    assert classic.groups["g"].generation_id == 0


@pytest.mark.parametrize(
    ("member_id", "session_timeout_ms", "wanted"),
    [("known", 20_000, ErrorCode.UNKNOWN_MEMBER_ID), ("", 1, ErrorCode.INVALID_SESSION_TIMEOUT)],
)
def test_a_join_that_is_refused_leaves_a_group_without_members(
    member_id: str, session_timeout_ms: int, wanted: ErrorCode
) -> None:
    """Kafka forgets the group on a join with a member id, until it reads the log again."""
    world = World()
    error, classic = join_the_empty(world, member_id, session_timeout_ms)
    assert (error, world.written) == (wanted, [])
    assert "g" in world.shard.groups
    assert not classic.groups
