"""The causes that only consumer groups have (KIP-848), and what is different where both kinds have one."""

from __future__ import annotations

from typing import Any

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from tests.groups.consumer_groups.new_member import NewMember, settle
from tests.groups.consumer_groups.test_shard import classic_group
from tests.groups.driver import Driver
from tests.groups.history_cases import HOST, PREPARING, STABLE, case, gone, in_session, step

ASSIGNING, RECONCILING = "Assigning", "Reconciling"


def of(member: NewMember, instance_id: str | None = None) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": instance_id,
        "client_id": member.member_id,
        "client_host": HOST,
        "rebalance_timeout_ms": 60_000,
    }


def new_group(driver: Driver, *names: str, **joins: Any) -> list[NewMember]:
    """A Stable consumer group in which each of these has its part, five seconds of silence, no history."""
    members = [NewMember(driver, name, **joins) for name in names]
    for member in members:
        member.beat()
        driver.advance(2_000)  # The interval between two targets is over.
        settle(member)
    settle(*members)
    driver.advance(5_000)
    driver.history.clear()
    return members


@case(CauseKind.TOPICS_CHANGED)
def a_topic_grows(driver: Driver) -> GroupEvent:
    (only,) = new_group(driver, "a")
    driver.topics.grow("orders", 5)
    only.own()
    return step(
        driver, 3, (STABLE, STABLE), "topics changed: orders has 5 partitions, had 4", cause="topics_changed",
        member_count=1,
        rebalance_cause="topics_changed",
        last_member_id="a", last_client_id="a", last_client_host=HOST,
        last_arrival_ms=0,
    )  # fmt: skip


@case(CauseKind.EXPRESSION_RESOLVED)
def an_expression_matches_another_topic(driver: Driver) -> GroupEvent:
    only = NewMember(driver, "a", topics=(), subscribed_topic_regex="ord.*")
    only.beat()
    driver.advance(1_000)
    driver.history.clear()
    driver.finish_work()
    return step(
        driver, 2, (STABLE, ASSIGNING), member_count=1,
        reason="topics that an expression matches changed: ord.* gained orders",
        cause="expression_resolved", phase_ms={STABLE: 1_000},
    )  # fmt: skip


@case(CauseKind.ASSIGNMENT_COMPUTED)
def a_target_is_computed_when_the_interval_is_over(driver: Driver) -> GroupEvent:
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    second.beat()
    driver.advance(1_000)
    driver.history.clear()
    first.own()
    return step(
        driver, 3, (ASSIGNING, RECONCILING), "assignment computed", member_count=2, **of(first),
        cause="assignment_computed", phase_ms={ASSIGNING: 1_000},
    )  # fmt: skip


@case(CauseKind.MEMBERS_RECONCILED)
def the_last_member_has_what_it_is_to_have(driver: Driver) -> GroupEvent:
    (first,) = new_group(driver, "a")
    second = NewMember(driver, "b")
    second.beat()
    driver.advance(700)
    first.beat()
    driver.advance(300)
    first.own()
    driver.advance(50)
    second.own()
    return step(
        driver, 3, (RECONCILING, STABLE), member_count=2, cause="members_reconciled", **of(second),
        reason="all members have what they are to have: orders-2 and orders-3 came from a",
        phase_ms={RECONCILING: 1_050}, rebalance_cause="member_joined", rebalance_ms={RECONCILING: 1_050},
        last_member_id="a", last_client_id="a", last_client_host=HOST, last_arrival_ms=1_000,
        last_given_up_count=2, last_given_up=("orders-2", "orders-3"),
    )  # fmt: skip


@case(CauseKind.REVOCATION_TIMEOUT)
def a_member_does_not_give_up_what_it_has_to(driver: Driver) -> GroupEvent:
    (first,) = new_group(driver, "a")
    second = NewMember(driver, "b")
    second.beat()
    first.beat()
    for _ in range(6):
        driver.advance(10_000)
        for member in (first, second):
            if member.member_id in driver.shard.consumer_groups["g"].members:
                member.beat()
    return step(
        driver, 4, (RECONCILING, ASSIGNING), "partitions not given up in time", member_count=1, **of(first),
        cause="revocation_timeout", phase_ms={RECONCILING: 60_000}, **gone("a"), **in_session(35_000, 45_000),
    )  # fmt: skip


@case(CauseKind.REJOIN_TIMEOUT)
def a_classic_member_does_not_join_again(driver: Driver) -> GroupEvent:
    first, second = classic_group(driver)
    new = NewMember(driver, "new")
    new.beat()
    first.heartbeat()
    for _ in range(12):
        driver.advance(5_000)
        first.heartbeat()
        second.join(), second.sync({})
        new.own()
    (event,) = [each for each in driver.history if each.cause == "rejoin_timeout"]
    return step(
        driver, event.generation_id, (event.from_state, ASSIGNING), "classic member did not join again in time",
        cause="rejoin_timeout", member_count=2, phase_ms=event.phase_ms, **gone(first.member_id),
        **in_session(5_000),
        **{**of(new), "member_id": first.member_id, "client_id": "c0"},
    )  # fmt: skip


@case(CauseKind.STATIC_MEMBER_AWAY)
def a_static_member_leaves_for_now(driver: Driver) -> GroupEvent:
    (only,) = new_group(driver, "a", instance_id="i")
    only.epoch = -2
    only.beat(instance_id="i")
    return step(
        driver, 2, (STABLE, RECONCILING), "static member left for now", cause="static_member_away",
        member_count=1, phase_ms={STABLE: 7_000}, **of(only, "i"), **in_session(40_000, 45_000),
    )  # fmt: skip


@case(CauseKind.GROUP_UPGRADED)
def a_new_member_joins_a_classic_group(driver: Driver) -> GroupEvent:
    classic_group(driver)
    driver.advance(2_000)
    new = NewMember(driver, "new")
    new.beat()
    return step(
        driver, 2, (STABLE, RECONCILING), cause="group_upgraded", member_count=3, phase_ms={STABLE: 2_000},
        reason="first member of the consumer protocol joined, group is classic no longer", **of(new),
    )  # fmt: skip


@case(CauseKind.GROUP_DOWNGRADED)
def the_last_new_member_leaves_classic_ones_behind(driver: Driver) -> GroupEvent:
    members = classic_group(driver)
    new = NewMember(driver, "new")
    new.beat()
    for member in members:
        member.join()
        member.sync({})
    driver.advance(3_000)
    new.leave()
    return step(
        driver, 2, (RECONCILING, PREPARING), cause="group_downgraded", member_count=2,
        reason="last member of the consumer protocol gone, group is classic again: member left",
        phase_ms={RECONCILING: 3_000}, **of(new), **in_session(42_000, 45_000), phase_timeout_ms=None,
    )  # fmt: skip
