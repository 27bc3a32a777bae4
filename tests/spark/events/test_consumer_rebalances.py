"""Rebalances and sessions of groups of the consumer protocol (KIP-848), and of those that change their kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind as Kind
from muster.groups.event_order import in_order
from muster.groups.history_tables import rebalance_table
from muster.groups.rebalance_views import rebalance_views
from muster.spark.events.aggregators import MemberAggregator
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.consumer_groups.test_shard import classic_group
from tests.groups.driver import Driver
from tests.spark.events.histories import T, event
from tests.spark.events.test_rebalances import folded

ALONE = event(
    0,
    "Stable",
    Kind.TOPICS_CHANGED,
    generation_id=3,
    member_id="a",
    member_count=1,
    rebalance_cause="topics_changed",
)
BEGIN = event(0, "Stable Assigning", Kind.MEMBER_JOINED, generation_id=4, member_id="b", member_count=2)
COMPUTED = event(
    1_000,
    "Assigning Reconciling",
    Kind.ASSIGNMENT_COMPUTED,
    generation_id=4,
    member_id="a",
    member_count=2,
    phase_ms={"Assigning": 1_000},
)
END = event(
    1_300,
    "Reconciling Stable",
    Kind.MEMBERS_RECONCILED,
    generation_id=4,
    member_id="b",
    member_count=2,
    phase_ms={"Reconciling": 300},
    last_member_id="a",
    last_client_id="a-1",
    last_arrival_ms=200,
    rebalance_cause="member_joined",
    rebalance_ms={"Assigning": 1_000, "Reconciling": 300},
)
WHOLE = [BEGIN, COMPUTED, END]


def cells(*events: GroupEvent) -> list[list[str]]:
    """What `muster groups history` shows: outcome, generation, members, the two times, and who was last."""
    columns = [list(map(str, column.cells)) for column in rebalance_table(rebalance_views(events)).columns]
    return [list(row)[4:] for row in zip(*columns, strict=True)]


def test_one_event_may_be_a_whole_rebalance() -> None:
    (found,) = folded([ALONE])
    assert (found.cause, found.causes, found.member_id) == ("topics_changed", ["topics_changed"], "a")
    assert (found.started_at, found.ended_at, found.duration_ms) == (T, T, 0)
    assert (found.generation_id, found.attempts, found.outcome) == (3, 1, "Stable")
    assert cells(ALONE) == [["Stable", "3", "1", "-", "-", "-"]]


def test_time_without_a_target_counts_as_joining_and_time_on_the_way_to_it_as_syncing() -> None:
    (found,) = folded(WHOLE)
    assert (found.cause, found.join_ms, found.sync_ms, found.duration_ms) == (
        "member_joined",
        1_000,
        300,
        1_300,
    )
    assert (found.member_id, found.causes) == ("b", ["member_joined"])
    assert (found.last_member_id, found.last_arrival_ms) == ("a", 200)
    assert (found.attempts, found.member_count, found.outcome) == (1, 2, "Stable")


def test_people_see_the_phases_under_their_own_names() -> None:
    """The headings are those of classic groups, and what is under "assigning" there is no state Assigning."""
    assert cells(*WHOLE) == [
        ["Stable", "4", "2", "assigning 1,000 ms", "reconciling 300 ms", "a a-1@- after 200 ms"]
    ]
    assert cells(BEGIN) == [["Assigning, not over", "4", "2", "-", "-", "-"]]
    at_once = replace(END, phase_ms={"Reconciling": 0}, rebalance_ms={"Reconciling": 0})
    assert cells(at_once)[0][3:5] == ["-", "reconciling 0 ms"]


def test_each_epoch_that_replaces_a_target_is_another_attempt() -> None:
    more = event(1_100, "Reconciling", Kind.MEMBER_JOINED, generation_id=5, member_id="c", member_count=3)
    lost = event(
        1_200,
        "Reconciling Assigning",
        Kind.SESSION_EXPIRED,
        generation_id=6,
        member_id="c",
        phase_ms={"Reconciling": 200},
    )
    another = event(1_250, "Assigning", Kind.MEMBER_JOINED, generation_id=7, member_id="d")
    computed = replace(COMPUTED, generation_id=7, wall_ms=T + 1_280, phase_ms={"Assigning": 80})
    end = replace(END, generation_id=7, rebalance_ms={"Assigning": 1_080, "Reconciling": 220})
    (found,) = folded([BEGIN, COMPUTED, more, lost, another, computed, end])
    assert (found.attempts, found.generation_id, found.duration_ms) == (3, 7, 1_300)
    assert found.causes == ["member_joined", "session_expired"]


def test_a_restart_ends_one_and_begins_another() -> None:
    restart = event(1_100, "Dead Reconciling", Kind.COORDINATOR_RESTARTED, generation_id=4, member_count=2)
    end = replace(END, rebalance_cause="coordinator_restarted", rebalance_ms={"Reconciling": 200})
    before, after = folded([BEGIN, COMPUTED, restart, end])
    assert (before.outcome, before.ended_at, before.join_ms, before.sync_ms) == (
        "Dead",
        T + 1_100,
        1_000,
        100,
    )
    assert before.causes == ["member_joined", "coordinator_restarted"]
    assert (after.cause, after.started_at, after.duration_ms) == ("coordinator_restarted", T + 1_100, 200)


@pytest.mark.parametrize("first", [1, 2])
def test_one_that_began_before_the_topic_is_reported_with_what_its_end_knows(first: int) -> None:
    (found,) = folded(WHOLE[first:])
    assert (found.cause, found.join_ms, found.sync_ms, found.attempts) == ("member_joined", 1_000, 300, 1)
    assert (found.member_id, found.outcome) == (None, "Stable")


# Groups that become ones of the other kind.

JOINING = event(0, "Stable PreparingRebalance", Kind.MEMBER_JOINED, generation_id=3, member_id="c")
UPGRADED = event(
    250,
    "PreparingRebalance Reconciling",
    Kind.GROUP_UPGRADED,
    generation_id=4,
    member_id="new",
    member_count=4,
    phase_ms={"PreparingRebalance": 0},
)
UPGRADE_END = replace(
    END,
    wall_ms=T + 650,
    phase_ms={"Reconciling": 400},
    rebalance_cause="group_upgraded",
    rebalance_ms={"Reconciling": 400},
)


def test_a_rebalance_goes_on_in_the_group_that_an_upgrade_makes() -> None:
    """The consumer group knows nothing of the phase before; its own sums are of the time since."""
    (found,) = folded([JOINING, UPGRADED, UPGRADE_END])
    assert (found.cause, found.member_id, found.started_at, found.ended_at) == (
        "member_joined",
        "c",
        T,
        T + 650,
    )
    assert (found.join_ms, found.sync_ms, found.duration_ms) == (250, 400, 650)
    assert (found.causes, found.outcome) == (["member_joined", "group_upgraded"], "Stable")
    (shown,) = cells(JOINING, UPGRADED, UPGRADE_END)
    assert shown[3:5] == ["joining 250 ms", "reconciling 400 ms"]


def test_an_upgrade_begins_a_rebalance_where_none_was_on() -> None:
    begin = replace(UPGRADED, from_state="Stable", phase_ms={"Stable": 0})
    (found,) = folded([begin, UPGRADE_END])
    assert (found.cause, found.member_id, found.duration_ms) == ("group_upgraded", "new", 400)


DOWNGRADED = event(
    1_100,
    "Stable PreparingRebalance",
    Kind.GROUP_DOWNGRADED,
    generation_id=4,
    member_count=2,
    phase_ms={"Stable": 0},
    removed_count=1,
    removed_member_ids=("new",),
)
GOING_ON = replace(DOWNGRADED, from_state="Reconciling")
SETTLED: dict[str, Any] = {"to_state": "Stable", "phase_ms": {}}
"""Of the row of a downgrade to a group that does not rebalance."""
JOINED = event(
    1_400,
    "PreparingRebalance CompletingRebalance",
    Kind.ALL_MEMBERS_JOINED,
    generation_id=5,
    phase_ms={"PreparingRebalance": 300},
)
STORED = event(
    1_450,
    "CompletingRebalance Stable",
    Kind.ASSIGNMENT_STORED,
    generation_id=5,
    member_count=2,
    phase_ms={"CompletingRebalance": 50},
    rebalance_cause="group_downgraded",
    rebalance_ms={"PreparingRebalance": 300, "CompletingRebalance": 50},
)


def test_a_rebalance_goes_on_in_the_group_that_a_downgrade_makes() -> None:
    """Its event begins in the phase that the consumer group was in."""
    (found,) = folded([BEGIN, COMPUTED, GOING_ON, JOINED, STORED])
    assert (found.cause, found.attempts, found.outcome) == ("member_joined", 2, "Stable")
    assert found.causes == ["member_joined", "group_downgraded"]
    assert (found.join_ms, found.sync_ms, found.started_at, found.ended_at) == (1_300, 150, T, T + 1_450)
    (shown,) = cells(BEGIN, COMPUTED, GOING_ON, JOINED, STORED)
    assert shown[:5] == ["Stable", "5", "2", "1,300 ms", "150 ms"]


def test_a_downgrade_of_a_stable_group_begins_a_rebalance_or_changes_nothing() -> None:
    (found,) = folded([DOWNGRADED, JOINED, STORED])
    assert (found.cause, found.duration_ms, found.attempts) == ("group_downgraded", 350, 1)
    assert folded([replace(DOWNGRADED, **SETTLED)]) == []


def test_a_downgrade_to_a_stable_group_ends_what_was_on() -> None:
    (found,) = folded([BEGIN, COMPUTED, replace(GOING_ON, **SETTLED)])
    assert (found.cause, found.join_ms, found.sync_ms, found.outcome) == (
        "member_joined",
        1_000,
        100,
        "Stable",
    )


def test_a_real_group_goes_both_ways_in_one_rebalance() -> None:
    """A shard driven by plain calls: classic, then with a new member that leaves before all have what they get."""
    driver = Driver()
    first, second = classic_group(driver)
    driver.advance(2_000)
    driver.history.clear()
    new = NewMember(driver, "new")
    new.beat()
    driver.advance(500)
    new.leave()
    driver.advance(20)
    for each in (first, second):
        each.send_join()
    for each in (first, second):
        each.collect_join()
    for each in (first, second):
        each.send_sync()
    (found,) = folded(driver.history)
    assert (found.cause, found.outcome, found.join_ms, found.sync_ms) == ("group_upgraded", "Stable", 20, 500)
    assert found.causes == ["group_upgraded", "member_left", "group_downgraded"]


# What may be wrong with a topic.


def test_rebalances_of_one_event_that_a_copy_has_swapped_are_put_in_order() -> None:
    """Each begins and ends Stable: it is their epochs that show it."""
    later = replace(ALONE, generation_id=4, wall_ms=T + 10)
    assert in_order([later, ALONE]) == [ALONE, later]
    assert [each.generation_id for each in folded([ALONE, later])] == [3, 4]


def test_a_rebalance_of_one_event_that_comes_again_counts_once() -> None:
    assert len(folded([ALONE, ALONE])) == 1
    same_ms = replace(ALONE, generation_id=4)
    assert len(folded([ALONE, same_ms])) == 2


# Sessions, and how they ended.


def joined(wall_ms: int, member_id: str, kind: Kind = Kind.MEMBER_JOINED) -> GroupEvent:
    count = int(member_id[1:])
    return event(wall_ms, "Stable", kind, member_id=member_id, member_count=count, client_id="c")


def sessions_of(*joins: GroupEvent) -> MemberAggregator:
    """The sessions of group `g`, in which these joined."""
    aggregator = MemberAggregator("g")
    for each in joins:
        assert aggregator.add(each) == []
    return aggregator


def churn_of(aggregator: MemberAggregator) -> dict[str, Any]:
    """What is counted of the one window, once it is over."""
    (churn,) = (each.columns for each in aggregator.advance(T + 7_200_000))
    return churn


def removed(wall_ms: int, kind: Kind, member_id: str, count: int) -> GroupEvent:
    of_it = {"removed_count": 1, "removed_member_ids": (member_id,)}
    return event(wall_ms, "Stable Assigning", kind, member_id=member_id, member_count=count, **of_it)


def test_the_member_that_upgrades_a_group_has_joined_it() -> None:
    aggregator = sessions_of(joined(0, "m1"), joined(100, "m2", Kind.GROUP_UPGRADED))
    (row,) = aggregator.add(removed(400, Kind.MEMBER_LEFT, "m2", 1))
    assert (row.columns["joined_by"], row.columns["duration_ms"]) == ("group_upgraded", 300)
    churn = churn_of(aggregator)
    assert (churn["joined"], churn["left"], churn["expired"]) == (2, 1, 0)


@pytest.mark.parametrize("kind", [Kind.SESSION_EXPIRED, Kind.REVOCATION_TIMEOUT, Kind.REJOIN_TIMEOUT])
def test_a_member_that_does_not_do_its_part_in_time_expires(kind: Kind) -> None:
    aggregator = sessions_of(joined(0, "m1"))
    aggregator.add(removed(400, kind, "m1", 0))
    churn = churn_of(aggregator)
    assert (churn["left"], churn["expired"]) == (0, 1)


def test_a_static_member_that_is_away_is_still_a_member() -> None:
    """And so is one whose heartbeat found a target: of two of whom one must be gone, it is the other."""
    aggregator = sessions_of(*(joined(number, f"m{number}") for number in (1, 2, 3)))
    away = event(10, "Stable Reconciling", Kind.STATIC_MEMBER_AWAY, member_id="m3", member_count=3)
    assert aggregator.add(away) == []
    shown = event(50, "Assigning Reconciling", Kind.ASSIGNMENT_COMPUTED, member_id="m2", member_count=2)
    assert aggregator.add(shown) == []
    (row,) = aggregator.add(
        event(60, "Reconciling Stable", Kind.MEMBERS_RECONCILED, member_id="m3", member_count=2)
    )
    assert (row.columns["member_id"], row.columns["ended_by"]) == ("m1", "events_dropped")
