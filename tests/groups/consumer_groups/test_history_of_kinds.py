"""To the history, a group that becomes one of the other kind goes on: in its state, its rebalance, its members."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.effects import GroupEvent
from muster.spark.events.aggregators import MemberAggregator
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer import Consumer
from tests.groups.consumer_groups.new_member import NewMember, settle
from tests.groups.consumer_groups.test_shard import classic_group
from tests.groups.driver import Driver
from tests.spark.events.test_rebalances import folded

HOUR_MS = 3_600_000


@pytest.fixture
def driver() -> Driver:
    return Driver()


def mixed_group(driver: Driver) -> tuple[list[Consumer], NewMember]:
    """A classic group that a new member has joined, amid the rebalance that this is."""
    members = classic_group(driver)
    driver.advance(2_000)
    new = NewMember(driver, "new")
    new.beat()
    return members, new


def told(driver: Driver, count: int) -> list[tuple[str, str, str, int]]:
    """The last events: what happened, between which states, and how many members were removed."""
    return [
        (each.cause, each.from_state, each.to_state, each.removed_count) for each in driver.history[-count:]
    ]


def expire_new_member(driver: Driver, members: list[Consumer]) -> None:
    for _ in range(9):
        driver.advance(5_000)
        for each in members:
            each.heartbeat()


def test_a_crash_that_causes_a_downgrade_is_an_event_of_its_own_and_counts_as_one(driver: Driver) -> None:
    members, _ = mixed_group(driver)
    expire_new_member(driver, members)
    assert told(driver, 2) == [
        ("session_expired", "Reconciling", "Reconciling", 1),
        ("group_downgraded", "Reconciling", "PreparingRebalance", 0),
    ]
    gone = driver.history[-2]
    assert (gone.removed_member_ids, gone.member_count, gone.phase_ms) == (("new",), 2, {})
    aggregator = MemberAggregator("g")
    rows = [row for event in driver.history for row in aggregator.add(event)]
    assert [row.columns["ended_by"] for row in rows if row.columns["member_id"] == "new"] == [
        "session_expired"
    ]
    churned = [each.columns for each in aggregator.advance(driver.wall_ms + 2 * HOUR_MS)]
    assert sum(row.get("expired", 0) for row in churned if row.get("client_id") == "new") == 1


def test_a_downgrade_shows_the_state_that_it_ends_and_how_long_that_was(driver: Driver) -> None:
    _, new = mixed_group(driver)
    driver.advance(700)
    new.leave()
    downgraded = driver.last_event()
    assert (downgraded.from_state, downgraded.phase_ms) == ("Reconciling", {"Reconciling": 700})
    assert [each.cause for each in driver.history[-2:]] == ["member_left", "group_downgraded"]


def test_the_rebalance_that_a_downgrade_meets_goes_on_with_its_cause_and_its_times(driver: Driver) -> None:
    members, new = mixed_group(driver)
    driver.advance(700)
    new.leave()
    driver.advance(20)
    rejoin(driver, members)
    end = driver.last_event()
    assert (end.cause, end.rebalance_cause) == ("assignment_stored", "group_upgraded")
    assert end.rebalance_ms == {"Reconciling": 700, "PreparingRebalance": 20, "CompletingRebalance": 0}


def test_a_downgrade_of_a_stable_group_begins_the_rebalance(driver: Driver) -> None:
    members, new = mixed_group(driver)
    give_up(driver, members, new)
    driver.advance(4_000)
    new.leave()
    downgraded = driver.last_event()
    assert (downgraded.from_state, downgraded.phase_ms) == ("Stable", {"Stable": 4_000})
    rejoin(driver, members)
    assert driver.last_event().rebalance_cause == "group_downgraded"
    assert folded(driver.history)[-1].cause == "group_downgraded"


def give_up(driver: Driver, members: list[Consumer], new: NewMember) -> None:
    """Let classic members, which own nothing by what they say, and the new one come to the target."""
    for _ in range(4):
        for each in members:
            each.join(), each.sync({})
        settle(new)
    assert driver.shard.consumer_groups["g"].state.value == "Stable"


def rejoin(driver: Driver, members: list[Consumer]) -> None:
    for each in members:
        each.send_join()
    for each in members:
        each.collect_join()
    for each in members:
        each.send_sync()


def test_an_empty_group_that_gives_way_to_a_classic_one_says_so(driver: Driver) -> None:
    new = NewMember(driver, "new")
    new.beat()
    new.leave()
    epoch = driver.last_event().generation_id
    driver.advance(900)
    Consumer(driver, "old").join()
    downgraded, joined = driver.history[-2:]
    assert downgraded == GroupEvent(
        "g",
        0,
        "Empty",
        "Empty",
        "last member of the consumer protocol gone, group is classic again: "
        "a classic member joins where there is none",
        driver.wall_ms,
        client_id="old",
        client_host="/10.0.0.1",
        phase_ms={"Empty": 900},
        cause="group_downgraded",
    )
    assert (joined.cause, joined.generation_id, epoch > 0) == ("member_joined", 0, True)


def test_generations_that_begin_anew_with_a_classic_group_are_no_late_events() -> None:
    """They may be of the same ms as the end of the last epoch."""
    driver = Driver()
    new = NewMember(driver, "new")
    new.beat()
    new.leave()
    old = Consumer(driver, "old")
    old.join()
    driver.advance(3_000)
    old.collect_join()
    old.sync()
    assert [each.outcome for each in folded(driver.history)] == ["Stable", "Empty", "Stable"]


def test_an_empty_classic_group_that_a_new_member_joins_is_upgraded(driver: Driver) -> None:
    members = classic_group(driver)
    for each in members:
        each.leave()
    driver.advance(3_000)
    driver.history.clear()
    NewMember(driver, "new").beat()
    (event,) = driver.history
    assert (event.cause, event.from_state, event.phase_ms) == ("group_upgraded", "Empty", {"Empty": 3_000})


def test_an_epoch_that_the_log_refuses_is_no_event_and_the_next_one_counts_from_before(
    driver: Driver,
) -> None:
    first = NewMember(driver, "a")
    first.beat()
    before = list(driver.history)
    driver.advance(1_000)
    second = NewMember(driver, "b")
    with driver.refusing_records():
        second.send()
    assert driver.history == before
    driver.advance(2_000)
    second.beat()
    assert (driver.last_event().cause, driver.last_event().phase_ms) == ("member_joined", {"Stable": 3_000})


def amid_a_rebalance(driver: Driver) -> tuple[NewMember, NewMember]:
    """Two members, for the second of which the first is to give something up; it came two seconds ago."""
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    driver.advance(1_000)
    second.beat()
    driver.advance(2_000)
    return first, second


def test_a_rebalance_goes_on_as_it_was_where_the_log_refuses_an_epoch(driver: Driver) -> None:
    """A member that is refused does not end a rebalance, nor does it begin another."""
    first, second = amid_a_rebalance(driver)
    with driver.refusing_records():
        first.leave()
        NewMember(driver, "c").send()
    first.epoch = second.epoch - 1
    settle(first, second)
    event = driver.last_event()
    assert (event.cause, event.rebalance_cause) == ("members_reconciled", "member_joined")
    assert sum(event.rebalance_ms.values()) == 2_000
    assert [each.cause for each in driver.history].count("member_joined") == 2
    assert "member_left" not in {each.cause for each in driver.history}


def test_a_downgrade_that_the_log_refuses_is_no_event(driver: Driver) -> None:
    _, new = mixed_group(driver)
    before = list(driver.history)
    with driver.refusing_records():
        new.leave()
    assert driver.history == before
    assert "new" in driver.shard.consumer_groups["g"].members


def test_an_upgrade_that_the_log_refuses_is_no_event(driver: Driver) -> None:
    classic_group(driver)
    before = list(driver.history)
    with driver.refusing_records():
        NewMember(driver, "new").send()
    assert driver.history == before
    assert driver.group().members


def last_of_a_rebalance(driver: Driver, refused: Callable[[NewMember], object]) -> GroupEvent:
    """The end of the rebalance in which `a` gives to `b`, and in whose midst the log refuses something."""
    first, second = amid_a_rebalance(driver)
    first.own(), first.own()
    driver.advance(3_000)
    with driver.refusing_records():
        refused(second)
    driver.advance(1_000)
    settle(first, second)
    return driver.last_event()


@pytest.mark.parametrize(
    "refused",
    [
        lambda second: NewMember(second.driver, "stranger").send(),
        lambda second: second.send(topic_partitions=[]),
        lambda second: second.send(member_epoch=-1),
    ],
    ids=["another member joins", "the last one comes to its target", "the last one leaves"],
)
def test_what_the_log_refuses_amid_a_rebalance_leaves_no_trace_in_it(
    driver: Driver, refused: Callable[[NewMember], object]
) -> None:
    event = last_of_a_rebalance(driver, refused)
    assert (event.cause, event.rebalance_cause) == ("members_reconciled", "member_joined")
    assert event.rebalance_ms == {"Reconciling": 6_000}
    assert (event.last_member_id, event.last_arrival_ms) == ("a", 2_000)
    assert event.last_given_up == ("orders-2", "orders-3")


def test_a_refused_downgrade_leaves_the_rebalance_as_it_was(driver: Driver) -> None:
    mixed_group(driver)
    driver.advance(2_000)
    stranger = NewMember(driver, "w")
    stranger.beat()
    driver.advance(3_000)
    leaving = LeaveGroupRequest(
        group_id="g", members=[MemberIdentity(member_id="new"), MemberIdentity(member_id="w")]
    )
    with driver.refusing_records():
        driver.send(leaving, 5, "admin")
    assert {"new", "w"} <= driver.shard.consumer_groups["g"].members.keys()
    driver.advance(3_000)
    stranger.leave()
    assert told(driver, 1) == [("member_left", "Reconciling", "Assigning", 1)]
    assert driver.last_event().phase_ms == {"Reconciling": 8_000}
    assert driver.shard._state.consumers.soft("g").course.rebalance_cause == "group_upgraded"


def test_a_group_without_members_whose_end_the_log_refuses_has_no_event_of_it(driver: Driver) -> None:
    member = NewMember(driver, "m")
    settle(member)
    member.leave()
    before = len(driver.history)
    joining = Consumer(driver, "c", version=3)
    with driver.refusing_records():
        joining.send_join()
    assert "group_downgraded" not in [each.cause for each in driver.history[before:]]
    joining.send_join()
    assert "group_downgraded" in [each.cause for each in driver.history[before:]]
