"""Heartbeat margins: the least share of its session that a member had left when it was heard."""

from __future__ import annotations

import pytest

from coordinator.groups.classic.member import Member
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.margins import NOT_HEARD, begin_window, margin_of, note_left
from protocol.errors import ErrorCode
from tests.groups.consumer import SESSION_MS, Consumer, form_group
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.driver import Driver


def member() -> Member:
    return Member("m", None, "client", "/h", 60_000, SESSION_MS, ())


def test_the_least_of_the_two_newest_windows_counts() -> None:
    heard = member()
    assert margin_of(heard, SESSION_MS) is None
    note_left(heard, SESSION_MS // 4)
    begin_window(heard)
    note_left(heard, SESSION_MS // 2)
    assert margin_of(heard, SESSION_MS) == 0.25
    begin_window(heard)
    assert margin_of(heard, SESSION_MS) == 0.5
    begin_window(heard)
    assert margin_of(heard, SESSION_MS) is None


@pytest.mark.parametrize(("left_ms", "margin"), [(-5, 0.0), (0, 0.0), (2 * SESSION_MS, 1.0)])
def test_a_margin_is_a_share(left_ms: int, margin: float) -> None:
    """A session may have been over when its member was heard, or have been begun anew with more time."""
    heard = member()
    note_left(heard, left_ms)
    assert margin_of(heard, SESSION_MS) == margin


def test_without_a_session_there_is_no_share_of_it() -> None:
    heard = member()
    note_left(heard, 5)
    assert margin_of(heard, 0) is None
    assert member().least_left_ms == NOT_HEARD


def two(driver: Driver) -> list[Consumer]:
    both = [Consumer(driver, "a"), Consumer(driver, "b")]
    form_group(driver, *both)
    return both


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(group_initial_rebalance_delay_ms=0))


def test_each_heartbeat_and_each_commit_of_a_classic_member_is_heard(driver: Driver) -> None:
    beats, commits = two(driver)
    driver.advance(SESSION_MS // 4)
    assert beats.heartbeat() is ErrorCode.NONE
    assert commits.commit(1) is ErrorCode.NONE
    driver.advance(SESSION_MS // 2)
    assert commits.commit(2) is ErrorCode.NONE
    assert beats.heartbeat() is ErrorCode.NONE
    driver.advance(1)
    assert beats.heartbeat() is ErrorCode.NONE
    margins = driver.shard.margins("g")
    assert margins == {beats.member_id: 0.5, commits.member_id: 0.5}
    driver.shard.begin_margin_window("g")
    driver.shard.begin_margin_window("g")
    assert driver.shard.margins("g") == {}
    assert driver.shard.margins("no such group") == {}


def test_a_member_that_waits_for_an_answer_is_not_late(driver: Driver) -> None:
    """Its session does not run while it is parked, however old its deadline is."""
    first, second = two(driver)
    first.send_join()
    driver.advance(SESSION_MS // 2)
    assert second.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.shard.margins("g") == {second.member_id: 0.5}


def test_a_member_of_a_consumer_group_is_heard_whether_or_not_it_says_anything_new(driver: Driver) -> None:
    """The steady heartbeats are those that are answered without being decoded."""
    joined = NewMember(driver, "m")
    joined.beat(subscribed_topic_names=["orders"], topic_partitions=[], rebalance_timeout_ms=60_000)
    session_ms = driver.shard._state.consumers.settings.session_timeout_ms
    driver.advance(session_ms // 4)
    joined.beat()
    (margin,) = driver.shard.margins("g").values()
    assert margin == pytest.approx(0.75, abs=0.01)
