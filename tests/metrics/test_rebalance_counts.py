"""What is counted and logged of single events: joins, leaves, expiries, times and storms; at how many lines."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from structlog.testing import capture_logs

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind as Kind
from coordinator.history.rebalances import Rebalance
from coordinator.metrics.rebalance_counts import STORM_MS, STORM_REBALANCES, RebalanceCounts
from coordinator.metrics.rebalance_log import LINES_PER_SECOND, RebalanceLog
from tests.spark.events.histories import event
from tests.spark.events.test_rebalances import BEGIN, COMPLETE, END, WHOLE


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def later(ms: int, **more: Any) -> list[GroupEvent]:
    """The events of a whole rebalance, so much later and so many generations on."""
    return [replace(each, wall_ms=each.wall_ms + ms, **more) for each in WHOLE]


def test_members_that_come_leave_and_are_late_are_counted_each_with_its_number() -> None:
    counts = RebalanceCounts()
    stable = "Stable PreparingRebalance"
    counts.add(event(0, stable, Kind.MEMBER_JOINED, member_id="a"))
    counts.add(event(1, "PreparingRebalance", Kind.MEMBER_JOINED, member_id="b"))
    counts.add(event(2, "PreparingRebalance", Kind.MEMBER_LEFT, removed_count=3))
    counts.add(event(3, "PreparingRebalance", Kind.REMOVED_BY_ADMIN, removed_count=1))
    counts.add(event(4, "PreparingRebalance", Kind.SESSION_EXPIRED, removed_count=1))
    counts.add(event(5, "PreparingRebalance CompletingRebalance", Kind.REBALANCE_TIMEOUT, removed_count=12))
    counts.add(event(6, "CompletingRebalance PreparingRebalance", Kind.SYNC_TIMEOUT, removed_count=2))
    assert (counts.joins, counts.leaves) == (2, 4)
    assert counts.expiries == {"session_expired": 1, "rebalance_timeout": 12, "sync_timeout": 2}


def test_a_rebalance_is_counted_with_its_times_when_it_is_over_and_not_before() -> None:
    counts = RebalanceCounts()
    for each in WHOLE[:-1]:
        counts.add(each)
    assert not counts.by_cause
    counts.add(END)
    assert counts.by_cause == {("classic", "session_expired"): 1}
    of_group = counts.groups["g"]
    assert (of_group.join_ms, of_group.sync_ms) == (900, 100)
    assert (of_group.last_ended_ms, of_group.last_cause) == (END.wall_ms, "session_expired")
    sums = {phase: latencies.sum_s for phase, latencies in counts.seconds.items()}
    assert sums == {"join": 0.9, "sync": 0.1, "all": 1.0}


def test_one_whose_begin_is_missing_has_the_cause_that_its_end_knows_or_none() -> None:
    counts = RebalanceCounts()
    for each in (COMPLETE, replace(END, rebalance_cause=None)):
        counts.add(each)
    assert counts.by_cause == {("classic", "unknown"): 1}


def test_a_whole_rebalance_in_one_event_is_one_of_a_consumer_group() -> None:
    counts = RebalanceCounts()
    counts.add(event(0, "Empty Stable", Kind.MEMBER_JOINED, rebalance_cause="member_joined"))
    assert counts.by_cause == {("consumer", "member_joined"): 1}


def test_a_gap_is_no_group() -> None:
    counts = RebalanceCounts()
    counts.add(GroupEvent("", -1, "", "", "lost", 0, cause="events_dropped", dropped_count=3))
    assert not counts.groups


def test_a_removed_group_takes_its_counts_along_and_leaves_the_totals() -> None:
    counts = RebalanceCounts()
    for each in (*WHOLE, event(2_000, "Stable Dead", Kind.GROUP_DELETED)):
        counts.add(each)
    assert counts.groups == {}
    assert counts.by_cause.total() == 1


def test_a_finished_rebalance_has_a_line_with_the_fields_of_the_topic() -> None:
    clock = ManualClock()
    log = RebalanceLog(clock)
    counts = RebalanceCounts(log.on_ended)
    with capture_logs() as lines:
        for each in WHOLE:
            counts.add(each)
    assert lines == [
        {
            "event": "group rebalanced",
            "log_level": "info",
            "group_id": "g",
            "generation_id": 2,
            "rebalance_cause": "session_expired",
            "client_id": "b-1",
            "duration_ms": 1000,
            "join_ms": 900,
            "last_client_id": "a-1",
        }
    ]
    times = {"duration_ms", "join_ms"}
    assert lines[0].keys() - {"event", "log_level"} - times <= {each.name for each in fields(GroupEvent)}
    assert times <= set(Rebalance._fields)


def test_ids_of_any_length_make_no_long_lines() -> None:
    """A storm of a group with an id of 32 KB would else write megabytes, and who names it is a client."""
    clock, long = ManualClock(), "x" * 32_000
    log = RebalanceLog(clock)
    counts = RebalanceCounts(log.on_ended)
    with capture_logs() as lines:
        for number in range(STORM_REBALANCES):
            for each in later(number * 10_000, group_id=long, generation_id=number + 2):
                counts.add(replace(each, client_id=long, last_client_id=long))
        log.on_low_margin(long, 0.05)
    assert {each["event"] for each in lines} == {
        "group rebalanced",
        "group rebalances again and again",
        "a member was nearly lost: little was left of its session when it was heard",
    }
    assert max(len(str(each)) for each in lines) < 1200


def test_many_rebalances_a_second_have_few_lines_and_the_number_of_the_others() -> None:
    clock = ManualClock()
    counts = RebalanceCounts(RebalanceLog(clock).on_ended)
    with capture_logs() as lines:
        for number in range(10_000):
            for each in (BEGIN, END):
                counts.add(replace(each, group_id=f"g-{number}"))
        clock.now_ms += 1_000
        for each in WHOLE:
            counts.add(each)
    assert len(lines) == LINES_PER_SECOND + 1
    assert lines[-1]["and_more"] == 10_000 - LINES_PER_SECOND


def test_a_group_that_rebalances_again_and_again_is_warned_of_once_in_a_while() -> None:
    clock = ManualClock()
    counts = RebalanceCounts(RebalanceLog(clock).on_ended)
    with capture_logs() as lines:
        for number in range(STORM_REBALANCES - 1):
            for each in later(number * 10_000, generation_id=number + 2):
                counts.add(each)
        assert [each for each in lines if each["log_level"] == "warning"] == []
        for number in range(STORM_REBALANCES - 1, 3 * STORM_REBALANCES):
            clock.now_ms += 10_000
            for each in later(number * 10_000, generation_id=number + 2):
                counts.add(each)
    (warning,) = [each for each in lines if each["log_level"] == "warning"]
    assert warning["rebalances"] == STORM_REBALANCES
    assert warning["rebalance_cause"] == "session_expired"


def test_rebalances_far_apart_are_no_storm() -> None:
    counts = RebalanceCounts(RebalanceLog(ManualClock()).on_ended)
    with capture_logs() as lines:
        for number in range(2 * STORM_REBALANCES):
            for each in later(number * STORM_MS // 3, generation_id=number + 2):
                counts.add(each)
    assert {each["log_level"] for each in lines} == {"info"}


def test_a_member_that_was_nearly_lost_is_warned_of() -> None:
    log = RebalanceLog(ManualClock())
    with capture_logs() as lines:
        log.on_low_margin("g", 0.0512)
    assert [(each["log_level"], each["group_id"], each["margin"]) for each in lines] == [
        ("warning", "g", 0.051)
    ]
