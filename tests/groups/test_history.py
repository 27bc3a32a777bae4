"""Why a group changed: each cause there is, provoked, and its event compared as a whole."""

from __future__ import annotations

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import ONLY_OBSERVED, REASON_MAX_CHARS, Cause, CauseKind, combined
from coordinator.groups.classic.events import REMOVED_IDS_MAX
from coordinator.groups.classic.partition_counts import TOPICS_MAX
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups import (  # They add their cases to the others.
    history_consumer_cases,  # noqa: F401
    history_phase_cases,  # noqa: F401
)
from tests.groups.consumer import Consumer, finish_rebalance, form_group, subscription
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.driver import Driver
from tests.groups.history_cases import CASES, HOST, group_of, keep_alive


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.parametrize("name", CASES)
def test_each_cause_yields_one_complete_event(name: str) -> None:
    kind, play = CASES[name]
    driver = Driver()
    expected = play(driver)
    assert [event for event in driver.history if event.cause == kind.slug] == [expected]


def test_there_is_a_case_for_every_cause() -> None:
    assert {kind for kind, _ in CASES.values()} == set(CauseKind) - {CauseKind.EVENTS_DROPPED} - ONLY_OBSERVED


def test_a_member_that_rejoins_as_expected_is_no_event_of_its_own(driver: Driver) -> None:
    leader, *others = group_of(driver, *(f"c{number}" for number in range(10)))
    leader.join()
    for other in others:
        other.protocols = (("range", subscription("orders", "clicks")),)
        other.send_join()
    finish_rebalance(driver, leader, *others)
    assert [event.cause for event in driver.history] == [
        "leader_rejoined", "all_members_joined", "assignment_stored",
    ]  # fmt: skip


def test_the_last_member_of_a_phase_that_was_given_up_is_not_the_last_of_the_next(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    follower.send_sync()
    follower.leave()
    assert driver.group().last_arrival is None
    leader.join()
    assert driver.last_event().last_member_id == leader.member_id


def test_of_many_changed_topics_the_first_are_named(driver: Driver) -> None:
    names = [f"t{number}" for number in range(6)]
    for name in names:
        driver.topics.grow(name, 2)
    leader = Consumer(driver, protocols=(("range", subscription(*names)),))
    form_group(driver, leader)
    for name in names:
        driver.topics.grow(name, 3)
    driver.topics.forget("t1")
    leader.join()
    (event,) = (event for event in driver.history if event.cause == "partition_counts_changed")
    assert event.reason == (
        "partition counts changed: t0 from 2 to 3, t1 from 2 to no topic, t2 from 2 to 3, and 3 more"
    )


def test_the_watched_topics_of_a_group_are_bounded_and_known_again_after_a_restart(driver: Driver) -> None:
    names = [f"t{number:04}" for number in range(TOPICS_MAX + 50)]
    leader = Consumer(driver, protocols=(("range", subscription(*names)),))
    form_group(driver, leader)
    assert list(driver.group().assigned_counts) == names[:TOPICS_MAX]
    driver.restart()
    driver.topics.grow("t0000", 1)
    leader.join()
    assert any("t0000 from no topic to 1" in event.reason for event in driver.history)


def test_partitions_that_changed_before_the_leader_assigned_are_no_cause(driver: Driver) -> None:
    leader = Consumer(driver, "a")
    leader.join()
    driver.advance(3_000)
    leader.collect_join()
    driver.topics.grow("orders", 6)
    leader.sync()
    driver.history.clear()
    leader.join()
    assert driver.history[0].cause == "leader_rejoined"


def test_an_event_names_a_few_of_the_many_it_removes_and_counts_all(driver: Driver) -> None:
    consumers = [Consumer(driver, f"c{number}", rebalance_ms=20_000) for number in range(200)]
    for consumer in consumers:
        consumer.join()
    driver.advance(6_000)
    driver.history.clear()
    keep_alive(driver, 5_000)
    for consumer in consumers:
        consumer.collect_join(), consumer.heartbeat()
    keep_alive(driver, 15_000, *consumers)
    event = driver.history[0]
    assert event.reason == "sync timeout: 200 members sent no SyncGroup"
    assert (event.removed_count, len(event.removed_member_ids)) == (200, REMOVED_IDS_MAX)


@pytest.mark.parametrize("is_stored", [True, False])
def test_events_name_the_process_that_is_a_static_member_now(driver: Driver, is_stored: bool) -> None:
    """DescribeGroups goes on to show the first process of the instance, as Kafka's does."""
    leader, old = group_of(driver, "a", "b", static=True)
    new = Consumer(driver, "b-again", instance_id="i-b")
    if is_stored:
        new.join()
    else:
        with driver.refusing_records():
            new.join()
    leader.leave()
    (new if is_stored else old).send_join()
    event = driver.last_event()
    assert event.last_client_id == ("b-again" if is_stored else "b")
    (member,) = driver.group().members.values()
    assert member.client_id == "b"


def leave_at_once(driver: Driver, *identities: MemberIdentity) -> GroupEvent:
    """Let members of a consumer group leave by one LeaveGroup; return what the history says of it."""
    for member_id in "abcde":
        NewMember(driver, member_id, instance_id="i-b" if member_id == "b" else None).beat()
    driver.call(LeaveGroupRequest(group_id="g", members=list(identities)), 5, client_id="admin-1")
    return driver.last_event()


def test_each_of_a_consumer_groups_members_that_leave_at_once_has_its_own_reason(driver: Driver) -> None:
    event = leave_at_once(
        driver,
        MemberIdentity(member_id="a", reason="scale down"),
        MemberIdentity(member_id="b", group_instance_id="i-b", reason="moved"),
        MemberIdentity(member_id="c", reason="scale down"),
        MemberIdentity(member_id="d"),
        MemberIdentity(member_id="a", reason="once is enough"),
    )
    assert event.client_reason == "scale down (a and c), moved (i-b), none (d)"
    assert event.reason == f"member left: 4 at once: {event.client_reason}"
    assert event.removed_member_ids == ("a", "b", "c", "d")


def test_a_reason_that_all_share_is_told_once(driver: Driver) -> None:
    event = leave_at_once(driver, *(MemberIdentity(member_id=each, reason="scale down") for each in "abc"))
    assert event.reason == "member left: 3 at once: scale down"


def test_of_a_static_member_that_is_removed_from_a_consumer_group_the_admin_is_named(driver: Driver) -> None:
    event = leave_at_once(driver, MemberIdentity(member_id="", group_instance_id="i-b", reason="scale down"))
    assert event.reason == f"removed by admin: admin-1 at {HOST}: scale down"


def test_no_reason_crowds_out_that_of_another_member(driver: Driver) -> None:
    reasons = {"a": "x" * 300, "b": "y" * 300, "c": "short"}
    event = leave_at_once(driver, *(MemberIdentity(member_id=m, reason=r) for m, r in reasons.items()))
    assert event.client_reason is not None
    assert len(event.client_reason) <= REASON_MAX_CHARS
    assert event.client_reason.startswith("x" * 70)
    assert "… (i-b), short (c)" in event.client_reason


def cause(number: int, reason: str | None, client_id: str) -> Cause:
    member_id = f"{client_id}-{number:036}"
    return Cause(
        CauseKind.MEMBER_LEFT,
        client_reason=reason,
        member_id=member_id,
        client_id=client_id,
        removed=(member_id,),
    )


def test_of_many_reasons_the_first_ones_can_be_read_and_the_others_are_counted() -> None:
    """However long the names are of those that give them."""
    given = [cause(number, f"reason {number} of a job that ends", "c" * 200) for number in range(8)]
    reason = combined(given).client_reason
    assert reason is not None
    assert len(reason) <= REASON_MAX_CHARS
    shown = reason.split(", ")
    assert all(each.startswith(f"reason {number} of") for number, each in enumerate(shown[:-1]))
    assert all(each.endswith("ccc…)") for each in shown[:-1])
    assert (len(shown), shown[-1]) == (6, "3 more reasons")


def test_those_that_give_one_reason_are_counted_where_their_names_are_long() -> None:
    given = [
        cause(number, "scale down" if number else "moved", f"consumer-{'x' * 50}") for number in range(4)
    ]
    assert combined(given).client_reason == f"moved (consumer-{'x' * 50}), scale down (3 members)"
