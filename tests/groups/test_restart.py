"""What a restart keeps and what it may forget (docs/kafka.md 3.64 to 3.70)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import OffsetExpiryTimer, SessionTimer
from coordinator.groups.group_settings import GroupSettings
from protocol.errors import ErrorCode
from tests.groups.consumer import SESSION_MS, Consumer, form_group, subscription
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def pair(driver: Driver) -> tuple[Consumer, Consumer]:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b", instance_id="i")
    form_group(driver, leader, follower)
    return leader, follower


Pair = tuple[Consumer, Consumer]


def test_3_64_records_are_written_on_creation_assignment_and_emptying_only(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.join()
    assert len(driver.log) == 1  # The group is there.
    driver.advance(3_000)
    consumer.collect_join()
    assert len(driver.log) == 1  # A generation without an assignment is not worth a record.
    consumer.sync()
    assert len(driver.log) == 2
    consumer.heartbeat(), consumer.sync()
    assert len(driver.log) == 2
    consumer.leave()
    assert len(driver.log) == 3


def test_3_65_a_stable_group_carries_on_with_no_rebalance(driver: Driver, pair: Pair) -> None:
    leader, follower = pair
    before = driver.group()
    driver.advance(SESSION_MS - 1)
    driver.restart()
    after = driver.group()
    assert after is not before
    for field in ("state", "generation_id", "protocol_type", "protocol_name", "leader", "static_members"):
        assert getattr(after, field) == getattr(before, field), field
    assert list(after.members) == list(before.members)
    for consumer in pair:
        assert after.members[consumer.member_id].assignment == consumer.member_id.encode()
    driver.advance(SESSION_MS - 1)  # A full fresh session from the load.
    assert [leader.heartbeat(), follower.heartbeat()] == [ErrorCode.NONE, ErrorCode.NONE]
    assert driver.group().state is STABLE
    assert leader.sync().assignment == leader.member_id.encode()


def test_3_65_members_that_do_not_come_back_expire_after_a_full_session(driver: Driver, pair: Pair) -> None:
    driver.restart()
    assert {k for k in driver.timers if isinstance(k, SessionTimer)} == {
        SessionTimer("g", consumer.member_id) for consumer in pair
    }
    driver.advance(SESSION_MS)
    assert (driver.group().state, driver.group().generation_id) == (EMPTY, 2)


def test_3_66_a_generation_that_was_not_stored_is_lost_and_its_number_used_again(
    driver: Driver, pair: Pair
) -> None:
    leader, follower = pair
    leader.send_join(), follower.send_join()
    leader.collect_join(), follower.collect_join()
    assert leader.generation_id == 2
    driver.restart()
    assert (driver.group().state, driver.group().generation_id) == (STABLE, 1)
    assert leader.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert leader.sync().error_code == ErrorCode.ILLEGAL_GENERATION
    leader.send_join(), follower.send_join()
    assert leader.collect_join().generation_id == 2


def test_3_66_an_assignment_that_was_not_durable_was_answered_to_no_member(
    driver: Driver, pair: Pair
) -> None:
    leader, follower = pair
    leader.send_join(), follower.send_join()
    leader.collect_join(), follower.collect_join()
    driver.hold_disk()
    waiting = [leader.send_sync({leader.member_id: b"lost"}), follower.send_sync()]
    driver.crash()
    assert not any(driver.answered(token) for token in waiting)
    assert driver.group().generation_id == 1
    assert driver.group().members[leader.member_id].assignment == leader.member_id.encode()


def test_3_67_only_the_chosen_protocol_survives_so_a_longer_list_is_a_change(driver: Driver) -> None:
    both = (("range", subscription("orders")), ("roundrobin", subscription("orders")))
    leader, follower = Consumer(driver, "a", protocols=both), Consumer(driver, "b", protocols=both)
    form_group(driver, leader, follower)
    driver.restart()
    assert follower.join() is None
    assert driver.group().state is PREPARING_REBALANCE


def test_3_68_a_group_without_members_is_loaded_empty_with_the_time_it_emptied(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    driver.advance(5_000)
    consumer.leave()
    emptied_ms = driver.wall_ms
    driver.advance(5_000)
    driver.restart()
    group = driver.group()
    assert (group.state, group.generation_id, group.protocol_type) == (EMPTY, 2, "consumer")
    assert group.state_wall_ms == emptied_ms


def test_a_group_that_was_only_created_is_loaded_as_a_simple_one(driver: Driver) -> None:
    Consumer(driver).join()
    driver.restart()
    assert (driver.group().state, driver.group().protocol_type) == (EMPTY, None)


def test_a_restart_is_in_the_history_of_groups_with_members(driver: Driver, pair: Pair) -> None:
    Consumer(driver, group_id="empty").join()
    before = len(driver.history)
    driver.restart()
    (event,) = driver.history[before:]
    assert (event.group_id, event.reason, event.to_state) == ("g", "coordinator restarted", "Stable")


def test_loading_twice_in_a_row_gives_the_same_groups(driver: Driver, pair: Pair) -> None:
    driver.restart()
    once = driver.shard.groups
    driver.restart()
    assert driver.shard.groups == once
    driver.assert_replay_agrees()


def test_a_fresh_shard_has_its_sweep_scheduled() -> None:
    driver = Driver(GroupSettings(offsets_retention_check_interval_ms=1_234))
    assert driver.timers == {OffsetExpiryTimer(0): driver.now_ms + 1_234}
