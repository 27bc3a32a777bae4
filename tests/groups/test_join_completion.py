"""How a join phase ends: who is dropped, who leads, which protocol (docs/kafka.md 3.16 to 3.21)."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from coordinator.groups.group_settings import GroupSettings
from protocol.errors import ErrorCode
from tests.groups.consumer import REBALANCE_MS, SESSION_MS, Consumer, form_group, subscription
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(group_initial_rebalance_delay_ms=0))


def keep_alive(driver: Driver, ms: int, *consumers: Consumer) -> None:
    """Let `ms` pass while `consumers` beat."""
    for _ in range(ms // 5_000):
        driver.advance(5_000)
        for consumer in consumers:
            consumer.heartbeat()


def test_3_16_the_phase_ends_with_the_last_member_to_rejoin() -> None:
    driver = Driver()
    first, second, third = (Consumer(driver, name) for name in "abc")
    form_group(driver, first, second)
    third.join(), second.send_join(), first.heartbeat()
    assert driver.group().state is PREPARING_REBALANCE
    first.send_join()
    assert driver.group().state is COMPLETING_REBALANCE
    assert driver.last_event().last_member_id == first.member_id


def test_3_16_the_longest_rebalance_timeout_of_the_members_counts(driver: Driver) -> None:
    slow = Consumer(driver, "slow", rebalance_ms=120_000, session_ms=300_000)
    quick = Consumer(driver, "quick", rebalance_ms=10_000)
    form_group(driver, slow)
    quick.join()
    driver.advance(119_999)
    assert not driver.answered(quick.parked)
    driver.advance(1)
    assert quick.collect_join().generation_id == 2


def test_3_17_dynamic_members_that_did_not_rejoin_are_out(driver: Driver) -> None:
    missing, newcomer = Consumer(driver, "a", session_ms=300_000), Consumer(driver, "b")
    form_group(driver, missing)
    newcomer.join()
    driver.advance(REBALANCE_MS)
    reply = newcomer.collect_join()
    assert newcomer.members == [newcomer.member_id]
    assert reply.leader == newcomer.member_id
    assert missing.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.last_event().reason == "rebalance timeout: 1 member did not rejoin"


def test_3_17_static_members_that_did_not_rejoin_stay_until_their_session_ends(driver: Driver) -> None:
    static = Consumer(driver, "a", instance_id="i", session_ms=100_000)
    newcomer = Consumer(driver, "b")
    form_group(driver, static)
    newcomer.join()
    driver.advance(REBALANCE_MS)
    newcomer.collect_join()
    assert set(newcomer.members) == {static.member_id, newcomer.member_id}
    assert static.heartbeat() is ErrorCode.ILLEGAL_GENERATION


def test_3_18_if_the_leader_leaves_a_remaining_member_leads() -> None:
    driver = Driver()
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, leader, follower)
    assert driver.group().leader == leader.member_id
    leader.leave()
    assert follower.join().leader == follower.member_id


def test_3_18_a_leader_that_did_not_join_gives_way_to_one_that_did(driver: Driver) -> None:
    leader = Consumer(driver, "a", instance_id="i", session_ms=300_000)
    newcomer = Consumer(driver, "b")
    form_group(driver, leader)
    newcomer.join()
    driver.advance(REBALANCE_MS)
    assert newcomer.collect_join().leader == newcomer.member_id


def test_3_18_if_no_member_joined_the_phase_is_extended(driver: Driver) -> None:
    static = Consumer(driver, "a", instance_id="i", session_ms=300_000)
    visitor = Consumer(driver, "b")
    form_group(driver, static)
    visitor.join()
    visitor.leave()
    assert driver.group().state is PREPARING_REBALANCE
    driver.advance(REBALANCE_MS)
    assert driver.group().state is PREPARING_REBALANCE
    assert driver.group().generation_id == 1
    assert static.join().generation_id == 2


def test_3_19_the_leader_gets_the_members_and_followers_do_not() -> None:
    driver = Driver()
    leader = Consumer(driver, "a", protocols=(("range", b"\x00\x01leader"),))
    follower = Consumer(driver, "b", protocols=(("range", b"\x00\x01follower"),), instance_id="i")
    leader.join(), follower.join()
    driver.advance(6_000)
    led, followed = leader.collect_join(), follower.collect_join()
    assert [(m.member_id, m.group_instance_id, m.metadata) for m in led.members] == [
        (leader.member_id, None, b"\x00\x01leader"),
        (follower.member_id, "i", b"\x00\x01follower"),
    ]
    assert (followed.members, followed.leader) == ([], leader.member_id)
    assert (followed.member_id, followed.protocol_name, followed.protocol_type) == (
        follower.member_id,
        "range",
        "consumer",
    )


PREFERENCES = [
    ((("range", "sticky"), ("range", "sticky")), "range"),
    ((("range", "sticky"), ("sticky", "range"), ("sticky", "range")), "sticky"),
    ((("range", "sticky"), ("sticky",)), "sticky"),  # The only one all speak.
    ((("range", "sticky"), ("sticky", "range")), "range"),  # A tie: the first vote.
]


@pytest.mark.parametrize(("preferences", "chosen"), PREFERENCES)
def test_3_20_every_member_votes_for_its_first_protocol_that_all_speak(
    preferences: tuple[tuple[str, ...], ...], chosen: str
) -> None:
    driver = Driver()
    consumers = [
        Consumer(driver, f"c{i}", protocols=tuple((name, subscription("orders")) for name in names))
        for i, names in enumerate(preferences)
    ]
    form_group(driver, *consumers)
    assert driver.group().protocol_name == chosen


def test_3_21_the_generation_grows_by_one_also_to_empty(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    consumer.leave()
    assert (driver.group().state, driver.group().generation_id) == (EMPTY, 2)


def test_members_that_beat_but_do_not_rejoin_are_dropped_all_the_same(driver: Driver) -> None:
    stuck, newcomer = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, stuck)
    newcomer.join()
    assert SESSION_MS < REBALANCE_MS
    keep_alive(driver, REBALANCE_MS, stuck)
    assert newcomer.collect_join().generation_id == 2
    assert stuck.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
