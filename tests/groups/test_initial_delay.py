"""The initial rebalance delay: members of one deployment come together (docs/kafka.md 3.11 to 3.15)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from coordinator.groups.group_settings import GroupSettings
from protocol.errors import ErrorCode
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver

DELAY_MS = 3_000


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(group_initial_rebalance_delay_ms=DELAY_MS))


def test_3_11_the_first_member_alone_waits_the_delay(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.join()
    driver.advance(DELAY_MS - 1)
    assert not driver.answered(consumer.parked)
    driver.advance(1)
    assert consumer.collect_join().generation_id == 1


def test_3_12_each_newcomer_buys_another_slice(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.join()
    driver.advance(DELAY_MS - 1)
    second.join()
    driver.advance(1)
    assert driver.group().state is PREPARING_REBALANCE
    driver.advance(DELAY_MS)
    assert driver.group().state is COMPLETING_REBALANCE
    assert driver.group().generation_id == 1


@pytest.mark.parametrize(
    ("rebalance_ms", "total_ms"),
    [
        (8_000, 3_000 + 3_000 + 2_000),
        (4_000, 3_000 + 1_000),
        (3_000, 3_000),
        (1_000, 3_000),
    ],
)
def test_3_12_slices_end_when_the_rebalance_timeout_is_used_up(
    driver: Driver, rebalance_ms: int, total_ms: int
) -> None:
    """A member joins in every slice, and still the phase lasts no longer than the first one's timeout."""
    start_ms = driver.now_ms
    Consumer(driver, "first", rebalance_ms=rebalance_ms).join()
    for i in range(200):
        driver.advance(100)
        if driver.group().state is COMPLETING_REBALANCE:
            break
        Consumer(driver, f"c{i}", rebalance_ms=rebalance_ms).join()
    assert driver.now_ms - start_ms == total_ms


def test_3_13_without_a_delay_the_first_member_is_answered_at_once(driver: Driver) -> None:
    driver = Driver(GroupSettings(group_initial_rebalance_delay_ms=0))
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.join()
    driver.advance(0)
    assert first.collect_join().generation_id == 1
    assert second.join() is None
    assert driver.last_event().from_state == "CompletingRebalance"


def test_3_14_a_member_that_leaves_does_not_end_the_delay_early(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.join(), second.join()
    second.leave()
    assert driver.replies.pop(second.parked).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.group().state is PREPARING_REBALANCE
    driver.advance(2 * DELAY_MS)
    assert first.collect_join().generation_id == 1


def test_all_members_leaving_during_the_delay_leave_an_empty_group(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.join()
    consumer.leave()
    driver.advance(DELAY_MS)
    assert (driver.group().state, driver.group().generation_id) == (EMPTY, 1)
    driver.assert_replay_agrees()


def test_3_15_a_group_that_emptied_gets_the_delay_again(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    again = Consumer(driver)
    again.join()
    driver.advance(DELAY_MS - 1)
    assert not driver.answered(again.parked)
    driver.advance(1)
    assert again.collect_join().generation_id == 3  # 2 was the empty one.
