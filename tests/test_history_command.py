"""What `muster groups history` makes of events: rebalances and rows, and what the reader has to know as well."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from coordinator.effects import GroupEvent
from coordinator.groups.causes import RENAMED_SLUGS
from coordinator.history.events import encode_event
from muster.groups.history import GroupHistory, Newest, as_history
from muster.groups.history_tables import event_table, history_json, local_time, rebalance_table, remarks
from muster.groups.rebalance_views import CAUSES_MAX, rebalance_views
from tests.groups.consumer import Consumer, finish_rebalance, form_group
from tests.groups.driver import Driver

NOW_MS = 1_700_000_000_123
EVENT = GroupEvent("g", 4, "Stable", "PreparingRebalance", "session expired", NOW_MS, cause="session_expired")
GAP = GroupEvent("", -1, "", "", "7 events of any groups were dropped", NOW_MS, dropped_count=7)


def rows(table: Table) -> list[list[str]]:
    """The cells of a table, by rows, without its heading."""
    text = io.StringIO()
    Console(file=text, width=10_000).print(table)
    starts = [text.getvalue().index(str(column.header)) for column in table.columns]
    lines = text.getvalue().splitlines()[1:]
    bounds = list(zip(starts, [*starts[1:], None], strict=True))
    return [[line[start:end].strip() for start, end in bounds] for line in lines]


def history_of_a_group() -> list[GroupEvent]:
    """Two members; the second expires, a third comes in the middle, and the first is replaced at the end."""
    driver = Driver()
    first = Consumer(driver, "a", instance_id="i-a", session_ms=60_000)
    second, third = Consumer(driver, "b"), Consumer(driver, "c")
    form_group(driver, first, second)
    driver.advance(10_000)
    third.join("scale up")
    driver.advance(250)
    first.send_join()
    finish_rebalance(driver, first, third)
    again = Consumer(driver, "a-2", instance_id="i-a")
    again.join()
    again.leave("shutdown")
    third.leave()
    return driver.history


def test_a_history_reads_as_rebalances_and_what_happened_beside_them() -> None:
    shown = rows(rebalance_table(rebalance_views(history_of_a_group())))
    assert [row[1:9] for row in shown] == [
        ["member joined (2 times)", "i-a", "a@10.0.0.1", "Stable", "1", "2", "joining 6,000 ms",
         "syncing 0 ms"],
        ["session expired; then member joined: scale up", "b-00000000-0000-0000-0000-000000000002", "b@10.0.0.1",
         "Stable", "2", "2", "joining 250 ms", "syncing 0 ms"],
        ["static member replaced", "i-a", "a-2@10.0.0.1", "Stable, no rebalance", "2", "2", "-", "-"],
        ["member left: shutdown; then member left; then no members remain", "i-a", "a-2@10.0.0.1", "Empty", "3",
         "0", "joining 0 ms", "-"],
    ]  # fmt: skip


def test_each_event_is_a_row_with_its_step_or_the_state_it_happened_in() -> None:
    table = rows(event_table(history_of_a_group()))
    assert [row[0] for row in table] == [local_time(event.wall_ms) for event in history_of_a_group()]
    assert [row[1:] for row in table][-6:-3] == [
        ["PreparingRebalance -> CompletingRebalance", "2", "all members joined", "-", "-", "2",
         "PreparingRebalance 250 ms", "i-a a@10.0.0.1 after 250 ms"],
        ["CompletingRebalance -> Stable", "2", "leader's assignment stored", "i-a", "a@10.0.0.1", "2",
         "CompletingRebalance 0 ms", "i-a a@10.0.0.1 after 0 ms"],
        ["Stable", "2", "static member replaced", "i-a", "a-2@10.0.0.1", "2", "-", "-"],
    ]  # fmt: skip


def test_a_rebalance_that_is_not_over_and_one_whose_begin_is_lost_are_shown_as_they_are() -> None:
    events = history_of_a_group()
    (under_way,) = rebalance_views(events[:2])
    assert under_way.rebalance is not None
    assert (under_way.is_over, under_way.rebalance.last_member_id) == (False, None)
    assert rows(rebalance_table([under_way]))[0][4] == "PreparingRebalance, not over"
    lost = rebalance_views(events[2:4])
    assert [(view.is_rebalance, view.last.to_state) for view in lost] == [(True, "Stable")]


def test_a_restart_and_a_gap_stand_beside_the_rebalance_that_they_interrupt() -> None:
    restart = replace(EVENT, from_state="Dead", to_state="Stable", reason="coordinator restarted")
    shown = rebalance_views([EVENT, GAP, restart, EVENT])
    assert [view.first for view in shown] == [EVENT, GAP, restart, EVENT]
    assert rows(rebalance_table(shown))[1][1:] == [GAP.reason, "-", "-", "-", "-", "-", "-", "-", "-"]
    assert rows(rebalance_table(shown))[2][4] == "Stable, no rebalance"
    assert rows(event_table([GAP]))[0][1:4] == ["-", "-", GAP.reason]


def test_of_many_different_causes_the_first_are_shown() -> None:
    again = [
        replace(EVENT, from_state="PreparingRebalance", reason=f"member left: {number}")
        for number in range(50)
    ]
    (view,) = rebalance_views([EVENT, *again])
    assert view.causes[:2] == ["session expired", "member left: 0"]
    assert view.causes[CAUSES_MAX:] == ["46 other causes"]


def test_events_of_a_version_before_causes_read_as_well() -> None:
    old = GroupEvent("g", 1, "PreparingRebalance", "CompletingRebalance", "all members joined", NOW_MS)
    old = replace(old, phase_ms={"PreparingRebalance": 5}, last_member_id="m-1")
    assert rows(rebalance_table(rebalance_views([EVENT, old])))[0][-1] == "m-1"


def test_it_is_shown_who_was_waited_for_to_give_up_what() -> None:
    last: dict[str, Any] = {
        "last_member_id": "m-1",
        "last_client_id": "c",
        "last_client_host": "/10.0.0.1",
        "last_arrival_ms": 70,
    }
    given_up: dict[str, Any] = {"last_given_up_count": 12, "last_given_up": ("orders-1", "orders-2")}
    end = replace(EVENT, from_state="Reconciling", to_state="Stable", **last, **given_up)
    end = replace(end, rebalance_cause="member_joined", rebalance_ms={"Reconciling": 80})
    (shown,) = rows(rebalance_table(rebalance_views([end])))
    assert shown[-1] == "m-1 c@10.0.0.1 after 70 ms: orders-1, orders-2, 10 more"
    assert rows(event_table([replace(end, last_group_instance_id="i-1")]))[0][-1].startswith("i-1 c@")


def test_events_for_programs_are_those_on_the_topic() -> None:
    assert history_json([EVENT]) == [json.loads(encode_event(EVENT)[1])]
    assert history_json([EVENT])[0]["schema"] == 1


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (GroupHistory((EVENT,), 0), []),
        (GroupHistory((EVENT,), 2), ["2 records could not be read as events"]),
        (GroupHistory((EVENT,), 0, 1_499), ["only the newest 1 of 1,500 events are shown: see --newest"]),
        (
            GroupHistory((EVENT, GAP), 0),
            ["7 events, of this or other groups, were dropped where the history says so"],
        ),
        (GroupHistory((), 0), ["there are no events of group g"]),
    ],
)
def test_what_is_missing_is_shown_beside_the_events(found: GroupHistory, shown: list[str]) -> None:
    assert list(remarks("g", found)) == shown


def test_of_a_million_events_the_newest_are_held_and_the_others_counted() -> None:
    newest = Newest("g", 1_000)
    value = encode_event(EVENT)[1]
    for number in range(1_000_000):
        newest.add(b"g" if number % 2 else b"other", value)
    found = newest.history()
    assert (len(found.events), found.older, found.unreadable) == (1_000, 499_000, 0)


def test_gaps_are_read_with_the_events_of_every_group() -> None:
    newest = Newest("g", 10)
    for event in (EVENT, GAP, replace(EVENT, group_id="other")):
        newest.add(*encode_event(event))
    assert newest.history().by_time() == [EVENT, GAP]


def test_history_is_shown_by_time_and_counts_what_it_cannot_read() -> None:
    def at(wall_ms: int) -> GroupEvent:
        return GroupEvent("g", 1, "Empty", "Dead", "expired", wall_ms)

    records = [encode_event(at(2)), (b"g", b"not an event"), (b"g", None), encode_event(at(1))]
    history = as_history(records)
    assert [event.wall_ms for event in history.by_time()] == [1, 2]
    assert history.unreadable == 2


@pytest.mark.parametrize(("former", "today"), RENAMED_SLUGS.items())
def test_a_cause_that_an_older_version_wrote_is_shown_under_its_name_of_today(
    former: str, today: str
) -> None:
    newest = Newest("g", 10)
    newest.add(*encode_event(replace(EVENT, cause=former)))
    newest.add(*encode_event(replace(EVENT, rebalance_cause=former, wall_ms=NOW_MS + 1)))
    began, ended = history_json(newest.history().by_time())
    assert (began["cause"], began["rebalance_cause"]) == (today, None)
    assert (ended["cause"], ended["rebalance_cause"]) == ("session_expired", today)
