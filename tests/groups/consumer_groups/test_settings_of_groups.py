"""What is set for one group, and what may change for all while a daemon runs, as heartbeats go by it."""

from __future__ import annotations

import pytest

from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings, GroupOverrides
from protocol.errors import ErrorCode
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def session_left_ms(driver: Driver, member_id: str) -> int:
    soft = driver.shard._state.consumers.known_soft("g")
    assert soft is not None
    return soft.sessions[member_id].deadline_ms - driver.now_ms


def test_a_group_without_settings_of_its_own_goes_by_those_of_all() -> None:
    settings = ConsumerGroupSettings()
    settings.override("h", GroupOverrides(heartbeat_interval_ms=6_000))
    assert settings.of("g") is settings, "each heartbeat asks, so nothing may be made for it"


def test_what_is_set_for_a_group_counts_from_its_next_heartbeat_on(driver: Driver) -> None:
    settings, member = driver.consumer_settings, NewMember(driver, "m")
    assert (member.beat().heartbeat_interval_ms, session_left_ms(driver, "m")) == (5_000, 45_000)
    settings.override("g", GroupOverrides(session_timeout_ms=50_000, heartbeat_interval_ms=6_000))
    assert session_left_ms(driver, "m") == 45_000
    assert (member.beat().heartbeat_interval_ms, session_left_ms(driver, "m")) == (6_000, 50_000)
    settings.override("g", GroupOverrides(heartbeat_interval_ms=7_000))
    assert (member.beat().heartbeat_interval_ms, session_left_ms(driver, "m")) == (7_000, 45_000)
    settings.override("g", GroupOverrides())
    assert member.beat().heartbeat_interval_ms == 5_000
    assert settings.overrides == {}


def test_a_session_that_becomes_shorter_ends_sooner(driver: Driver) -> None:
    member = NewMember(driver, "m")
    member.beat()
    driver.consumer_settings.override("g", GroupOverrides(session_timeout_ms=20_000))
    member.beat()
    driver.advance(20_000)
    assert member.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_load_gives_the_session_that_is_set_for_the_group(driver: Driver) -> None:
    NewMember(driver, "m").beat()
    driver.consumer_settings.override("g", GroupOverrides(session_timeout_ms=50_000))
    driver.restart()
    assert session_left_ms(driver, "m") == 50_000


@pytest.mark.parametrize("of_group", [False, True])
def test_an_interval_counts_for_the_next_target(driver: Driver, of_group: bool) -> None:
    """Of all groups, or of this one above it; the other settings of the group change nothing."""
    settings = driver.consumer_settings
    settings.override("g", GroupOverrides(heartbeat_interval_ms=6_000))
    settings.assignment_interval_ms = 15_000
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    assert first.own().assignment is None, "the target is as young as the first member"
    if of_group:
        settings.override("g", GroupOverrides(assignment_interval_ms=0))
    else:
        settings.assignment_interval_ms = 0
    second.beat()
    assert first.own().assignment is not None
