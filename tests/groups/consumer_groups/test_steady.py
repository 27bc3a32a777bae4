"""The steady heartbeat: prepared once, and answered as long as nothing changed that it looks at."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.effects import Effects
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings, GroupOverrides
from coordinator.groups.consumer.steady import SteadyHeartbeat
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.groups.consumer_groups.new_member import NewMember, settle
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))


def steady_of(driver: Driver, member: NewMember, **fields: Any) -> SteadyHeartbeat | None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member.member_id, member_epoch=member.epoch, **fields
    )
    return driver.shard.prepare_steady(request)


def settled(driver: Driver, **joins: Any) -> tuple[NewMember, SteadyHeartbeat]:
    """A member that has all that it is to have, alone in its group, and its steady heartbeat."""
    member = NewMember(driver, "m", **joins)
    settle(member)
    steady = steady_of(driver, member)
    assert steady is not None
    return member, steady


def test_a_steady_heartbeat_is_answered_as_any_other_and_keeps_the_member_alive(driver: Driver) -> None:
    member, steady = settled(driver)
    for _ in range(4):
        driver.advance(30_000)
        assert steady.beat(driver.now_ms)
    assert steady.response == member.beat()
    driver.advance(46_000)
    assert not steady.beat(driver.now_ms), "its session is over"


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": "i"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 5},
        {"subscribed_topic_names": ["clicks"]},
        {"subscribed_topic_regex": "o.*"},
        {"server_assignor": "range"},
        {"member_epoch": 1},
        {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": []},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_says_anything_new_is_no_steady_heartbeat(driver: Driver, fields: dict[str, Any]) -> None:
    member = NewMember(driver, "m")
    member.beat()
    request: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": member.epoch} | fields
    assert driver.shard.prepare_steady(ConsumerGroupHeartbeatRequest(**request)) is None


def test_a_steady_heartbeat_holds_until_anything_of_it_changes(driver: Driver) -> None:
    member, other = NewMember(driver, "m"), NewMember(driver, "o", topics=("clicks",))
    settle(member)
    steady = steady_of(driver, member)
    assert steady is not None
    assert steady.holds(driver.now_ms)
    other.beat()
    assert not steady.holds(driver.now_ms), "a new epoch"
    settle(member, other)
    assert not steady.holds(driver.now_ms), "another assignment"
    again = steady_of(driver, member)
    assert again is not None
    assert again.holds(driver.now_ms)
    driver.topics.grow("clicks", 3)
    assert not again.holds(driver.now_ms), "topics changed"
    settle(member, other)
    again = steady_of(driver, member)
    assert again is not None
    member.beat(rack_id="elsewhere")
    assert not again.holds(driver.now_ms), "the member changed"
    again = steady_of(driver, member)
    assert again is not None
    NewMember(driver, "r", topics=(), subscribed_topic_regex="none").beat()
    assert not again.holds(driver.now_ms), "expressions are to be looked at"
    member.leave()
    assert steady_of(driver, member) is None


def test_a_shorter_session_takes_a_timer_and_so_no_steady_heartbeat(driver: Driver) -> None:
    member, steady = settled(driver)
    assert steady.holds(driver.now_ms)
    driver.consumer_settings.override("g", GroupOverrides(session_timeout_ms=44_000))
    assert not steady.holds(driver.now_ms)
    assert not steady.beat(driver.now_ms)
    member.beat()
    assert steady.holds(driver.now_ms), "its timer has been set"


def test_a_heartbeat_is_not_steady_while_a_target_of_its_group_is_computed(driver: Driver) -> None:
    """It has to wait behind the request that asked for it, even if the topics need no look."""
    _, steady = settled(driver)
    driver.consumer_settings.most_weight = 0
    token = NewMember(driver, "other").send()
    assert not driver.answered(token)
    group = driver.shard.consumer_groups["g"]
    driver.shard._state.consumers.soft("g").refreshed(driver.now_ms, group.epoch, driver.topics.version)
    assert not steady.holds(driver.now_ms)
    assert not steady.beat(driver.now_ms)


def test_a_session_that_is_over_is_no_longer_moved_although_no_record_says_so_yet(driver: Driver) -> None:
    """The removal of its member may fail to be stored; its timer has fired, and nobody would look again."""
    _, steady = settled(driver)
    assert steady.beat(driver.now_ms)
    effects = Effects()
    soft = driver.shard._state.consumers.soft("g")
    assert soft.is_session_over("m", driver.now_ms + 45_000, effects)
    assert not steady.holds(driver.now_ms)
    assert not steady.beat(driver.now_ms)
    soft.begin_session("m", driver.now_ms, 45_000, effects)
    assert steady.beat(driver.now_ms), "with a session of its own again"


def test_a_static_member_that_left_for_now_has_no_steady_heartbeat(driver: Driver) -> None:
    """It is a member still, in epoch -2, and the group is where it was: an old heartbeat keeps no session."""
    member, steady = settled(driver, instance_id="i")
    assert steady.beat(driver.now_ms)
    assert member.beat(member_epoch=-2, instance_id="i").member_epoch == -2
    assert not steady.beat(driver.now_ms)
    assert steady_of(driver, member) is None
