"""The sweep: what expires, when, and what never does (KIP-211; docs/kafka.md O17 to O22, 3.76)."""

from __future__ import annotations

import pytest

from coordinator.effects import TimerFired
from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import OffsetExpiryTimer
from coordinator.groups.group_settings import MS_PER_MINUTE, GroupSettings
from coordinator.offsets.expiry import OffsetSweep
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.groups.consumer import Consumer, form_group, subscription
from tests.groups.driver import Driver

RETENTION_MS = 10 * MS_PER_MINUTE
CHECK_MS = MS_PER_MINUTE


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(offsets_retention_minutes=10, offsets_retention_check_interval_ms=CHECK_MS))


def live(driver: Driver, ms: int, *consumers: Consumer) -> None:
    """Let `ms` pass while `consumers` beat."""
    for _ in range(ms // 5_000):
        driver.advance(5_000)
        for consumer in consumers:
            consumer.heartbeat()


def topics_left(driver: Driver, group_id: str = "g") -> set[str]:
    return set(driver.shard.offsets.topics_of(group_id))


def test_o18_a_simple_groups_offsets_age_from_their_commit_and_take_the_group_along(driver: Driver) -> None:
    Consumer(driver).commit(1)
    driver.advance(RETENTION_MS - CHECK_MS)
    assert topics_left(driver) == {"orders"}
    driver.advance(2 * CHECK_MS)
    assert topics_left(driver) == set()
    assert driver.shard.groups == {}
    assert driver.last_event().reason == "offsets expired: 1 offset"
    driver.restart()
    assert driver.shard.groups == {}


def test_o18_a_group_that_lost_its_members_keeps_offsets_from_that_moment(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.commit(1)
    live(driver, 2 * RETENTION_MS, consumer)
    consumer.leave()
    emptied_ms = driver.now_ms
    driver.advance(RETENTION_MS - CHECK_MS)
    assert topics_left(driver) == {"orders"}
    driver.restart()  # The time it emptied is stored.
    driver.advance(3 * CHECK_MS)
    assert driver.now_ms - emptied_ms < 2 * RETENTION_MS
    assert topics_left(driver) == set()
    assert driver.shard.groups == {}


def test_o18_members_keep_what_they_read_and_nothing_else(driver: Driver) -> None:
    consumer = Consumer(driver)  # Reads orders.
    form_group(driver, consumer)
    consumer.commit(1, "orders"), consumer.commit(1, "clicks")
    live(driver, RETENTION_MS + 2 * CHECK_MS, consumer)
    assert driver.group().state is STABLE
    assert topics_left(driver) == {"orders"}


def test_o18_nothing_expires_while_the_group_rebalances(driver: Driver) -> None:
    leader = Consumer(driver, "a", rebalance_ms=4 * RETENTION_MS)
    follower = Consumer(driver, "b", rebalance_ms=4 * RETENTION_MS)
    form_group(driver, leader, follower)
    leader.commit(1, "clicks")
    leader.join()
    live(driver, RETENTION_MS + 2 * CHECK_MS, follower)
    assert driver.group().state is PREPARING_REBALANCE
    assert topics_left(driver) == {"clicks"}


def test_o18_a_group_that_is_not_of_consumers_keeps_all_while_it_has_members(driver: Driver) -> None:
    worker = Consumer(driver, protocol_type="connect", protocols=(("compatible", b""),))
    form_group(driver, worker)
    worker.commit(1)
    live(driver, RETENTION_MS + 2 * CHECK_MS, worker)
    assert topics_left(driver) == {"orders"}


def test_o19_an_expiry_the_client_asked_for_overrides_the_retention(driver: Driver) -> None:
    for group_id, retention_ms in (("soon", 1), ("late", 3 * RETENTION_MS)):
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        request = OffsetCommitRequest(group_id=group_id, retention_time_ms=retention_ms, topics=[topic])
        driver.call(request, 4)
    driver.advance(CHECK_MS)
    assert set(driver.shard.groups) == {"late"}
    driver.advance(2 * RETENTION_MS)
    assert set(driver.shard.groups) == {"late"}
    driver.advance(RETENTION_MS + CHECK_MS)
    assert driver.shard.groups == {}


def test_o21_with_subscriptions_that_cannot_be_read_nothing_expires(driver: Driver) -> None:
    consumer = Consumer(driver, protocols=(("range", b"\x00"),))
    form_group(driver, consumer)
    consumer.commit(1, "clicks")
    live(driver, RETENTION_MS + 2 * CHECK_MS, consumer)
    assert topics_left(driver) == {"clicks"}


def test_o22_a_group_stays_while_one_offset_does(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.commit(1, "orders")
    driver.advance(RETENTION_MS // 2)
    consumer.commit(1, "clicks")
    driver.advance(RETENTION_MS // 2 + CHECK_MS)
    assert topics_left(driver) == {"clicks"}
    assert driver.group().state is EMPTY


def test_3_76_an_empty_group_without_offsets_goes_with_the_next_sweep(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    driver.advance(CHECK_MS)
    assert driver.shard.groups == {}
    assert driver.shard.stored == {}
    again = Consumer(driver)
    again.member_id = consumer.member_id
    assert again.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_o17_the_sweep_comes_again_and_again(driver: Driver) -> None:
    for _ in range(3):
        driver.advance(CHECK_MS)
        assert driver.timers[OffsetExpiryTimer(0)] == driver.now_ms + CHECK_MS


def test_the_sweep_lets_others_go_first_and_still_comes_round(driver: Driver) -> None:
    driver.shard._sweep = OffsetSweep(0, driver.shard.settings, slice_offsets=4)
    for i in range(10):
        Consumer(driver, group_id=f"g{i}").commit(1)
    driver.now_ms += RETENTION_MS  # As if the timer had slept.
    key = OffsetExpiryTimer(0)
    left = []
    while driver.timers[key] <= driver.now_ms + 1:
        driver.handle(TimerFired(key, driver.wall_ms))
        left.append(len(driver.shard.groups))
    assert left == [8, 6, 4, 2, 0, 0]  # A group and its offset weigh two.
    assert driver.timers[key] == driver.now_ms + CHECK_MS


def test_a_newer_subscription_counts_from_its_generation_on(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.commit(1, "orders")
    consumer.protocols = (("range", subscription("clicks")),)
    consumer.send_join()
    consumer.collect_join(), consumer.sync()
    assert driver.group().subscribed_topics == frozenset({"clicks"})
    live(driver, RETENTION_MS + 2 * CHECK_MS, consumer)
    assert topics_left(driver) == set()
    assert driver.group().state is STABLE
