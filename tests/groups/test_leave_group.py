"""LeaveGroup (docs/kafka.md 3.60 to 3.63)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def trio(driver: Driver) -> list[Consumer]:
    consumers = [Consumer(driver, "a"), Consumer(driver, "b", instance_id="i"), Consumer(driver, "c")]
    form_group(driver, *consumers)
    return consumers


@pytest.mark.parametrize("version", [0, 2])
def test_3_60_old_versions_know_one_member_and_one_error(
    driver: Driver, trio: list[Consumer], version: int
) -> None:
    assert trio[2].leave(version=version) == LeaveGroupResponse()
    assert trio[2].leave(version=version) == LeaveGroupResponse(error_code=UNKNOWN)


def test_3_60_a_batch_has_mixed_success_in_the_order_of_the_request(
    driver: Driver, trio: list[Consumer]
) -> None:
    first, static, third = trio
    members = [
        MemberIdentity(member_id="unknown"),
        MemberIdentity(member_id=third.member_id),
        MemberIdentity(member_id=first.member_id, group_instance_id="i"),
        MemberIdentity(member_id=static.member_id, group_instance_id="i"),
        MemberIdentity(member_id=""),
    ]
    reply = driver.call(LeaveGroupRequest(group_id="g", members=members), 3)
    errors = [UNKNOWN, ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE, UNKNOWN]
    assert reply == LeaveGroupResponse(
        members=[
            MemberResponse(member_id=m.member_id, group_instance_id=m.group_instance_id, error_code=error)
            for m, error in zip(members, errors, strict=True)
        ]
    )
    assert list(driver.group().members) == [first.member_id]


def test_3_61_a_batch_costs_one_rebalance(driver: Driver, trio: list[Consumer]) -> None:
    before = len(driver.history)
    members = [MemberIdentity(member_id=c.member_id, reason="scale down") for c in trio[1:]]
    driver.call(LeaveGroupRequest(group_id="g", members=members), 5)
    (event,) = driver.history[before:]
    assert (event.to_state, event.reason) == ("PreparingRebalance", "member left: 2 at once: scale down")


def test_3_62_a_parked_join_of_the_leaver_is_answered_25(driver: Driver, trio: list[Consumer]) -> None:
    trio[0].join()  # The leader: the group prepares.
    trio[2].join()
    trio[2].leave()
    reply = driver.replies.pop(trio[2].parked)
    assert (reply.error_code, reply.member_id) == (UNKNOWN, "")
    assert driver.group().state is PREPARING_REBALANCE


def test_a_parked_sync_of_the_leaver_is_answered_too(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    parked = follower.send_sync()
    follower.leave()
    assert driver.replies.pop(parked).error_code == UNKNOWN


def test_a_leave_that_makes_the_phase_complete_answers_the_others(
    driver: Driver, trio: list[Consumer]
) -> None:
    trio[0].join(), trio[1].join()
    trio[2].leave()
    assert trio[0].collect_join().generation_id == 2
    assert trio[1].collect_join().generation_id == 2


def test_3_63_the_reply_of_the_last_to_leave_waits_for_the_disk(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    driver.hold_disk()
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=consumer.member_id)])
    token = driver.send(request, 5)
    assert driver.group().state is EMPTY
    assert not driver.answered(token)
    driver.flush()
    assert driver.answered(token)


def test_a_group_that_is_not_there_has_no_members_to_leave(driver: Driver) -> None:
    batch = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m", group_instance_id="i")])
    assert driver.call(batch, 4) == LeaveGroupResponse(
        members=[MemberResponse(member_id="m", group_instance_id="i", error_code=UNKNOWN)]
    )
    assert driver.call(LeaveGroupRequest(group_id="g", member_id="m"), 1).error_code == UNKNOWN


@pytest.mark.parametrize("version", [0, 5])
def test_no_group_id_is_refused_as_a_whole(driver: Driver, version: int) -> None:
    reply = driver.call(LeaveGroupRequest(group_id=""), version)
    assert reply == LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)


def test_an_empty_batch_changes_nothing(driver: Driver, trio: list[Consumer]) -> None:
    assert driver.call(LeaveGroupRequest(group_id="g"), 5) == LeaveGroupResponse()
    assert len(driver.group().members) == 3
