"""`group.max.size` (docs/kafka.md 3.30 to 3.32)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from coordinator.groups.group_settings import GroupSettings
from protocol.errors import ErrorCode
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

MAX_SIZE = 2
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(group_max_size=MAX_SIZE))


def test_3_30_a_full_group_takes_no_new_member_and_existing_ones_pass(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, leader, follower)
    reply = Consumer(driver, "c").join()
    assert (reply.error_code, reply.member_id) == (FULL, "")
    assert driver.group().state is STABLE
    assert follower.join().error_code == ErrorCode.NONE


def test_3_30_a_full_group_that_does_not_rebalance_answers_81_before_79(driver: Driver) -> None:
    form_group(driver, Consumer(driver, "a"), Consumer(driver, "b"))
    Consumer(driver, "c", version=9).join()
    assert driver.group().pending_members == {}


def test_3_30_in_preparing_parked_joins_are_counted(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first, second)
    second.protocols = (("range", b"\x00\x01new"),)
    second.join()
    newcomer = Consumer(driver, "c")
    assert newcomer.join() is None  # `first` has not rejoined yet: there is room.
    assert driver.group().state is PREPARING_REBALANCE
    assert first.join().error_code == FULL
    assert set(driver.group().members) == {second.member_id, newcomer.member_id}


def test_3_31_a_loaded_group_over_its_size_is_rebalanced_and_sheds_the_last(driver: Driver) -> None:
    driver = Driver()
    first, second, third = (Consumer(driver, name) for name in "abc")
    form_group(driver, first, second, third)
    driver.settings = replace(driver.settings, group_max_size=MAX_SIZE)
    driver.restart()
    assert driver.group().state is PREPARING_REBALANCE
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    first.join(), second.join()
    assert third.join().error_code == FULL
    assert driver.group().state is COMPLETING_REBALANCE
    assert third.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_3_32_more_ids_than_the_maximum_are_handed_out_and_only_the_maximum_gets_in(driver: Driver) -> None:
    consumers = [Consumer(driver, f"c{i}") for i in range(MAX_SIZE + 1)]
    for consumer in consumers:
        reply = driver.replies.pop(consumer.send_join())
        assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
        consumer.member_id = reply.member_id
    assert [consumer.join() for consumer in consumers[:MAX_SIZE]] == [None] * MAX_SIZE
    assert consumers[-1].join().error_code == FULL
    assert driver.group().pending_members == {}  # 81 forgets the id.


def test_3_32_open_ids_take_no_room_in_a_stable_group(driver: Driver) -> None:
    form_group(driver, Consumer(driver, "a"))
    for name in ("b", "c", "d"):
        reply = driver.replies.pop(Consumer(driver, name).send_join())
        assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert len(driver.group().pending_members) == 3
