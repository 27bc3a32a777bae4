"""Static members: replaced, fenced, removed (KIP-345; docs/kafka.md 3.33 to 3.42)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import SessionTimer
from harness.doubles.core_driver import uuid_of
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer import SESSION_MS, Consumer, form_group, subscription
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def static(driver: Driver, instance_id: str, version: int = 9) -> Consumer:
    return Consumer(driver, f"client-{instance_id}", instance_id=instance_id, version=version)


def restarted(consumer: Consumer) -> Consumer:
    """The consumer's instance as a new process: it knows its instance id only."""
    again = Consumer(
        consumer.driver, consumer.client_id, instance_id=consumer.instance_id, version=consumer.version
    )
    again.protocols = consumer.protocols
    return again


def test_3_33_a_follower_comes_back_without_a_rebalance(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    again = restarted(follower)
    reply = again.join()
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.member_id)
    assert (reply.members, reply.skip_assignment) == ([], False)
    assert again.member_id != follower.member_id
    assert again.sync().assignment == follower.member_id.encode()  # What the old id was given.
    assert driver.group().state is STABLE
    driver.assert_replay_agrees()


def test_3_33_the_new_id_is_stored_before_it_is_answered(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    driver.hold_disk()
    again = restarted(follower)
    token = again.send_join()
    assert not driver.answered(token)
    driver.flush()
    again.collect_join()
    driver.restart()
    assert again.heartbeat() is ErrorCode.NONE
    assert follower.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_3_34_a_leader_is_asked_to_skip_the_assignment_since_version_9(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    again = restarted(leader)
    reply = again.join()
    assert (reply.skip_assignment, reply.leader) == (True, again.member_id)
    assert {m.member_id for m in reply.members} == {again.member_id, follower.member_id}
    assert driver.group().leader == again.member_id


def test_3_34_an_older_leader_is_shown_the_old_id_as_leader_so_that_it_follows(driver: Driver) -> None:
    leader, follower = static(driver, "a", version=8), static(driver, "b")
    form_group(driver, leader, follower)
    reply = restarted(leader).join()
    assert (reply.leader, reply.members) == (leader.member_id, [])


def test_3_35_a_change_of_the_chosen_protocol_costs_a_rebalance(driver: Driver) -> None:
    both = (("range", subscription("orders")), ("roundrobin", subscription("orders")))
    leader, follower = static(driver, "a"), static(driver, "b")
    leader.protocols = follower.protocols = both
    form_group(driver, leader, follower)
    again = restarted(follower)
    again.protocols = both[1:]
    assert again.join() is None
    assert driver.group().state is PREPARING_REBALANCE
    assert driver.last_event().reason == "static member replaced"


def test_3_36_while_completing_a_return_costs_a_rebalance(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    waiting = follower.send_sync()
    assert restarted(leader).join() is None
    assert driver.replies.pop(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().state is PREPARING_REBALANCE


def test_3_36_while_preparing_a_return_joins_the_phase(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    leader.join()
    again = restarted(follower)
    again.send_join()
    assert again.collect_join().generation_id == 2
    assert leader.collect_join().generation_id == 2


def test_3_37_a_request_that_waits_under_the_old_id_is_fenced(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    leader.join()
    parked = follower.send_join()
    again = restarted(follower)
    again.send_join()
    reply = driver.replies.pop(parked)
    assert (reply.error_code, reply.member_id) == (
        ErrorCode.FENCED_INSTANCE_ID,
        f"b-{uuid_of(parked)}",
    )


def test_3_37_a_sync_parked_under_the_old_id_is_fenced(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    parked = follower.send_sync()
    restarted(follower).join()
    assert driver.replies.pop(parked).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_3_37_the_old_id_is_fenced_with_its_instance_and_unknown_without(driver: Driver) -> None:
    leader, old = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, old)
    restarted(old).join()
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert old.heartbeat() is fenced
    assert old.sync().error_code == fenced
    assert old.commit(5) is fenced
    assert old.leave().members[0].error_code == fenced
    assert old.join().error_code == fenced
    old.instance_id = None
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert old.heartbeat() is unknown
    assert old.sync().error_code == unknown
    assert old.commit(5) is unknown
    assert old.leave().members[0].error_code == unknown
    assert old.join().error_code == unknown


def test_3_38_if_the_new_id_cannot_be_stored_the_old_one_is_back(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    again = restarted(follower)
    again.protocols = (("range", subscription("clicks")),)
    with driver.refusing_records(ErrorCode.KAFKA_STORAGE_ERROR):
        token = again.send_join()
    reply = driver.replies.pop(token)
    assert (reply.error_code, reply.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    assert follower.heartbeat() is ErrorCode.NONE
    assert driver.group().members[follower.member_id].protocols == follower.protocols
    assert SessionTimer("g", follower.member_id) in driver.timers
    driver.assert_replay_agrees()


def test_3_38_the_old_id_is_back_with_the_session_that_it_had(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    again = restarted(follower)
    again.session_ms = SESSION_MS * 3
    with driver.refusing_records(ErrorCode.KAFKA_STORAGE_ERROR):
        again.send_join()
    driver.advance(SESSION_MS - 1)
    leader.heartbeat()
    assert follower.member_id in driver.group().members
    driver.advance(1)
    assert list(driver.group().members) == [leader.member_id]


def test_a_rebalance_that_begins_before_the_id_is_durable_answers_the_returner(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    driver.hold_disk()
    again = restarted(follower)
    again.send_join()
    leader.send_join()  # A leader always rebalances: the returner is parked already.
    driver.flush()
    assert again.collect_join().generation_id == 2
    assert leader.collect_join().generation_id == 2


def test_3_39_a_static_member_that_knows_its_id_is_like_any_other(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    assert follower.join().generation_id == 1
    follower.protocols = (("range", subscription("clicks")),)
    assert follower.join() is None


@pytest.mark.parametrize(
    ("instance_id", "error"), [("a", ErrorCode.FENCED_INSTANCE_ID), ("x", ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_an_id_under_the_wrong_instance_is_refused(
    driver: Driver, instance_id: str, error: ErrorCode
) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    follower.instance_id = instance_id
    reply = follower.join()
    assert (reply.error_code, reply.member_id) == (error, follower.member_id)
    assert follower.heartbeat() is error


def test_3_40_a_silent_static_member_is_removed_by_its_session_only(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    driver.advance(SESSION_MS - 1)
    assert leader.heartbeat() is ErrorCode.NONE
    driver.advance(1)
    assert list(driver.group().members) == [leader.member_id]


def test_3_41_an_admin_removes_by_instance_id(driver: Driver) -> None:
    leader, follower = static(driver, "a"), static(driver, "b")
    form_group(driver, leader, follower)
    members = [MemberIdentity(member_id="", group_instance_id=name) for name in ("b", "unknown")]
    reply = driver.call(LeaveGroupRequest(group_id="g", members=members), 5)
    assert [m.error_code for m in reply.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert [m.group_instance_id for m in reply.members] == ["b", "unknown"]
    assert list(driver.group().members) == [leader.member_id]
    assert driver.last_event().reason == "removed by admin: client at /10.0.0.1"
    assert driver.last_event().group_instance_id == "b"


def test_3_42_a_static_member_that_misses_the_phase_may_still_be_assigned_to(driver: Driver) -> None:
    away = Consumer(driver, instance_id="away", session_ms=300_000)
    leader = static(driver, "a")
    form_group(driver, leader, away)
    leader.join()
    driver.advance(60_000)
    leader.collect_join()
    assert away.member_id in leader.members
    assert driver.group().state is COMPLETING_REBALANCE
    leader.sync()
    again = restarted(away)
    assert again.join().generation_id == 2
    assert again.sync().assignment == away.member_id.encode()
