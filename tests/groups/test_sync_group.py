"""SyncGroup: stored first, then answered to all (docs/kafka.md 3.43 to 3.52)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import SyncTimer
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.groups.consumer import REBALANCE_MS, Consumer, form_group
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def pair(driver: Driver) -> tuple[Consumer, Consumer]:
    """A leader and a follower of a group that is completing its first rebalance."""
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    return leader, follower


Pair = tuple[Consumer, Consumer]


def test_3_43_members_left_out_get_nothing_and_invented_ones_are_ignored(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    waiting = follower.send_sync()
    reply = leader.sync({leader.member_id: b"mine", "unknown": b"lost"})
    assert reply.assignment == b"mine"
    assert driver.replies.pop(waiting).assignment == b""
    stored = {m.member_id: m.assignment for m in driver.shard.stored["g"].members}
    assert stored == {leader.member_id: b"mine", follower.member_id: b""}


def test_3_44_no_member_gets_its_assignment_before_it_is_durable(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    driver.hold_disk()
    waiting = [follower.send_sync(), leader.send_sync()]
    assert not any(driver.answered(token) for token in waiting)
    assert driver.group().state is COMPLETING_REBALANCE
    driver.flush()
    assert all(driver.replies.pop(token).error_code == 0 for token in waiting)
    assert driver.group().state is STABLE


def test_3_45_a_follower_may_come_after_the_leader(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    assert leader.sync().assignment == leader.member_id.encode()
    assert driver.group().state is STABLE
    assert follower.sync().assignment == follower.member_id.encode()


def test_3_46_the_reply_names_the_protocol_and_a_refusal_does_not(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    assert leader.sync() == SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=leader.member_id.encode()
    )
    follower.generation_id += 1
    assert follower.sync() == SyncGroupResponse(
        error_code=ErrorCode.ILLEGAL_GENERATION, protocol_type=None, protocol_name=None, assignment=b""
    )


def test_3_47_a_stable_group_repeats_the_assignment(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    leader.sync(), follower.sync()
    log_end = len(driver.log)
    assert leader.sync({leader.member_id: b"another"}).assignment == leader.member_id.encode()
    assert len(driver.log) == log_end


def test_3_48_members_that_never_sync_are_removed(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    leader.sync()
    for _ in range(REBALANCE_MS // 5_000):
        driver.advance(5_000)
        leader.heartbeat(), follower.heartbeat()
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.group().state is PREPARING_REBALANCE
    assert list(driver.group().members) == [leader.member_id]
    assert driver.last_event().reason == "sync timeout: 1 member sent no SyncGroup"


def test_3_48_a_missing_leader_is_removed_and_parked_followers_rejoin(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    waiting = follower.send_sync()
    for _ in range(REBALANCE_MS // 5_000):
        driver.advance(5_000)
        leader.heartbeat()
    assert driver.replies.pop(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().leader == follower.member_id
    assert follower.join().generation_id == 2


def test_3_48_the_sync_timer_ends_with_the_last_sync(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    leader.sync()
    assert SyncTimer("g") in driver.timers
    follower.sync()
    assert SyncTimer("g") not in driver.timers


def test_3_49_if_the_assignment_cannot_be_stored_all_hear_it_and_rejoin(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    waiting = follower.send_sync()
    with driver.refusing_records(ErrorCode.MESSAGE_TOO_LARGE):
        refused = leader.send_sync()
    for token in (waiting, refused):
        reply = driver.replies.pop(token)
        assert (reply.error_code, reply.assignment) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    assert driver.group().state is PREPARING_REBALANCE
    assert driver.last_event().reason == "assignment not stored: UNKNOWN_SERVER_ERROR"
    leader.send_join()
    assert follower.join().generation_id == 2


def test_3_50_the_write_of_a_generation_that_has_passed_changes_nothing(driver: Driver, pair: Pair) -> None:
    leader, _ = pair
    driver.hold_disk()
    waiting = leader.send_sync()
    newcomer = Consumer(driver, "c", version=3)
    newcomer.send_join()
    driver.flush()
    assert driver.replies.pop(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().state is PREPARING_REBALANCE
    assert all(member.assignment == b"" for member in driver.group().members.values())


def test_3_51_a_leader_that_leaves_while_completing_hands_over(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    waiting = follower.send_sync()
    leader.leave()
    assert driver.replies.pop(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.join().leader == follower.member_id


def test_3_52_without_names_nothing_is_compared(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    assert leader.sync(version=4).error_code == ErrorCode.NONE
    follower.protocol_name = "roundrobin"
    assert follower.sync().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    follower.protocol_name, follower.protocol_type = "range", "connect"
    assert follower.sync().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)])
def test_version_5_must_name_type_and_protocol_before_anything_else_counts(
    driver: Driver, protocol_type: str | None, protocol_name: str | None
) -> None:
    request = SyncGroupRequest(
        group_id="", generation_id=1, member_id="m", protocol_type=protocol_type, protocol_name=protocol_name
    )
    assert driver.call(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_checks_come_in_kafkas_order(driver: Driver, pair: Pair) -> None:
    """No group id 24, no group 25, not a member 25, wrong generation 22, and only then the state."""

    def error(group_id: str, generation_id: int, member_id: str) -> int:
        request = SyncGroupRequest(group_id=group_id, generation_id=generation_id, member_id=member_id)
        code: int = driver.call(request, 4).error_code
        return code

    leader, _ = pair
    leader.send_join()
    leader.protocols = (("range", b"\x00\x01new"),)
    leader.send_join()
    assert driver.group().state is PREPARING_REBALANCE
    assert error("", 9, "x") == ErrorCode.INVALID_GROUP_ID
    assert error("absent", 9, "x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error("g", 9, "x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert error("g", 9, leader.member_id) == ErrorCode.ILLEGAL_GENERATION
    assert error("g", 1, leader.member_id) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_second_sync_replaces_the_first(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    first, second = follower.send_sync(), follower.send_sync()
    leader.sync()
    assert driver.superseded == [first]
    assert driver.replies.pop(second).error_code == ErrorCode.NONE


def test_a_leader_that_syncs_twice_before_the_disk_is_done_is_stored_as_it_is_answered(
    driver: Driver, pair: Pair
) -> None:
    leader, _ = pair
    driver.hold_disk()
    leader.send_sync({leader.member_id: b"first"})
    second = leader.send_sync({leader.member_id: b"second"})
    driver.flush()
    assert driver.replies.pop(second).assignment == b"second"
    assert driver.shard.stored["g"].members[0].assignment == b"second"


def test_an_empty_group_knows_no_members(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    assert consumer.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
