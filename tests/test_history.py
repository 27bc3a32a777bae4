"""The history of groups: kept in bounds, counted where it loses, and the same after a trip to the topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.effects import GroupEvent, HistoryRow, Observed
from coordinator.groups.causes import Cause, CauseKind
from coordinator.history.events import (
    MAX_EVENTS,
    MAX_GROUPS,
    MAX_QUEUED,
    MAX_TEXT,
    SCHEMA,
    Drained,
    History,
    HistoryError,
    bounded,
    decode_event,
    encode_event,
    worded,
)

EVENT = GroupEvent(
    group_id="billing",
    generation_id=3,
    from_state="Stable",
    to_state="PreparingRebalance",
    reason="session expired: silent",
    wall_ms=1_700_000_000_000,
    member_id="consumer-1-f00",
    client_id="consumer-1",
    client_host="/127.0.0.1",
    member_count=2,
    phase_ms={"join": 12},
    last_member_id="consumer-2-ba5",
    cause="session_expired",
    removed_count=12,
    removed_member_ids=("consumer-1-f00", "consumer-3-bee"),
)
CAUSE = Cause(
    CauseKind.SESSION_EXPIRED,
    "silent",
    member_id="consumer-1-f00",
    client_id="consumer-1",
    client_host="/127.0.0.1",
    removed=("consumer-1-f00", "consumer-3-bee"),
)
ROW = HistoryRow(
    group_id="billing",
    generation_id=3,
    from_state="Stable",
    to_state="PreparingRebalance",
    cause=CAUSE,
    wall_ms=1_700_000_000_000,
    member_count=2,
    removed_count=12,
    phase={"phase_ms": {"join": 12}, "last_member_id": "consumer-2-ba5"},
)

texts = st.text(max_size=MAX_TEXT)
events = st.builds(
    GroupEvent,
    group_id=st.text(max_size=300),
    generation_id=st.integers(-1, 2**31 - 1),
    from_state=texts,
    to_state=texts,
    reason=texts,
    wall_ms=st.integers(0, 2**53),
    member_id=st.none() | texts,
    group_instance_id=st.none() | texts,
    client_id=st.none() | texts,
    client_host=st.none() | texts,
    member_count=st.integers(0, 2**31 - 1),
    phase_ms=st.dictionaries(texts, st.integers(0, 2**53), max_size=4),
    last_member_id=st.none() | texts,
    cause=texts,
    client_reason=st.none() | texts,
    last_client_id=st.none() | texts,
    last_client_host=st.none() | texts,
    last_arrival_ms=st.none() | st.integers(0, 2**53),
    last_group_instance_id=st.none() | texts,
    last_given_up_count=st.integers(0, 2**31 - 1),
    last_given_up=st.lists(texts, max_size=3).map(tuple),
    removed_count=st.integers(0, 2**31 - 1),
    removed_member_ids=st.lists(texts, max_size=3).map(tuple),
    rebalance_cause=st.none() | texts,
    rebalance_ms=st.dictionaries(texts, st.integers(0, 2**53), max_size=2),
    dropped_count=st.integers(0, 2**31 - 1),
    rebalance_timeout_ms=st.none() | st.integers(0, 2**31 - 1),
    session_timeout_ms=st.none() | st.integers(0, 2**31 - 1),
    session_left_ms=st.none() | st.integers(0, 2**31 - 1),
    phase_timeout_ms=st.none() | st.integers(0, 2**31 - 1),
    client_metrics=st.none() | st.dictionaries(texts, st.integers(0, 2**53), max_size=2),
    observed=st.none()
    | st.builds(
        Observed,
        evidence=texts,
        partition=st.integers(0, 2**31 - 1),
        offset=st.integers(0, 2**53),
        leader_id=st.none() | texts,
        members=st.none()
        | st.lists(st.dictionaries(texts, st.none() | texts, max_size=4), max_size=3).map(tuple),
        missing_generations=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    ),
)


def numbered(number: int, group_id: str = "billing") -> GroupEvent:
    return replace(EVENT, group_id=group_id, generation_id=number)


def row(number: int, group_id: str = "billing") -> HistoryRow:
    """What is recorded, and read as `numbered`."""
    return ROW._replace(group_id=group_id, generation_id=number)


def generations(history: History, group_id: str = "billing") -> list[int]:
    return [event.generation_id for event in history.events(group_id)]


@given(events)
def test_an_event_is_the_same_after_a_trip_to_the_topic(event: GroupEvent) -> None:
    key, value = encode_event(event)
    assert key.decode() == event.group_id
    assert decode_event(value) == event


@given(events)
def test_the_value_is_what_json_makes_of_all_fields(event: GroupEvent) -> None:
    """It is written out by hand, for speed."""
    fields = {"schema": SCHEMA, **asdict(event)}
    for name in ("observed", "client_metrics"):  # The last two, and few events have them.
        if fields[name] is None:
            del fields[name]
    plain = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    assert encode_event(event)[1] == plain.encode()


def test_the_value_is_json_under_a_schema_number() -> None:
    value = json.loads(encode_event(EVENT)[1])
    assert value["schema"] == 1
    assert value["reason"] == "session expired: silent"
    assert value["phase_ms"] == {"join": 12}


def test_names_that_a_later_version_adds_are_passed_over() -> None:
    value = json.loads(encode_event(EVENT)[1]) | {"mood": "good"}
    assert decode_event(json.dumps(value).encode()) == EVENT


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"\xff", b"[]", b"1", b"{}", b'{"schema": 2}', b'{"schema": 1}']
)
def test_what_is_no_event_is_refused(value: bytes | None) -> None:
    with pytest.raises(HistoryError):
        decode_event(value)


def test_the_newest_events_of_each_group_are_kept() -> None:
    history = History(2)
    history.record(map(row, range(4)))
    history.record([row(9, "orders")])
    assert generations(history) == [2, 3]
    assert generations(history, "orders") == [9]
    assert generations(history, "unknown") == []


def test_of_too_many_groups_the_one_longest_without_an_event_is_let_go() -> None:
    history = History(5, max_groups=2)
    history.record([row(1, "first"), row(2, "second"), row(3, "first"), row(4, "third")])
    assert generations(history, "second") == []
    assert generations(history, "first") == [1, 3]
    assert generations(history, "third") == [4]


def test_of_too_many_events_the_group_longest_without_one_is_let_go() -> None:
    history = History(3, max_events=4)
    history.record([row(1, "old"), row(2, "old"), *map(row, range(3))])
    assert generations(history, "old") == []
    assert generations(history) == [0, 1, 2]


def test_a_group_may_fill_all_the_room_by_itself() -> None:
    history = History(3, max_events=2)
    history.record(map(row, range(5)))
    assert generations(history) == [2, 3, 4]


def test_a_group_is_whole_until_an_event_of_it_is_let_go() -> None:
    history = History(2, max_groups=2)
    history.record([row(1), row(2), row(1, "others")])
    assert [history.is_whole(each) for each in ("billing", "others", "nobody")] == [True, True, True]
    history.record([row(3)])
    assert [history.is_whole(each) for each in ("billing", "others")] == [False, True]
    history.record([row(1, "third")])  # In place of `others`.
    assert [history.is_whole(each) for each in ("others", "nobody")] == [False, False]
    history.record([row(2, "others")])  # Nobody knows how much of it was let go.
    assert history.is_whole("others") is False
    assert history._shortened <= history._kept.keys()


def test_events_wait_for_the_topic_in_order_and_leave_once() -> None:
    history = History(1)
    history.record(map(row, range(3)))
    assert history.take(2) == Drained((numbered(0), numbered(1)), 0)
    assert history.take(2) == Drained((numbered(2),), 0)
    assert history.take(2) == Drained((), 0)


def gap(dropped: int, reason: str, wall_ms: int = EVENT.wall_ms) -> GroupEvent:
    return GroupEvent("", -1, "", "", reason, wall_ms, cause="events_dropped", dropped_count=dropped)


def test_what_a_full_queue_loses_is_counted_once_reported_in_its_place_and_still_kept_in_memory() -> None:
    history = History(5, max_queued=2)
    history.record(map(row, range(5)))
    assert (history.queued, history.is_dropping) == (2, True)
    three = gap(3, "3 events of any groups were dropped")
    assert history.take(10) == Drained((numbered(0), numbered(1), three), 3)
    assert history.take(10) == Drained((), 0)
    assert generations(history) == [0, 1, 2, 3, 4]


def test_each_gap_stands_between_the_events_before_and_behind_it() -> None:
    history = History(5, max_queued=2)
    history.record(map(row, range(3)))
    assert history.take(1).events == (numbered(0),)
    history.record(map(row, range(3, 6)))
    one, two = (
        gap(n, f"{n} event{s} of any groups {be} dropped") for n, s, be in ((1, "", "was"), (2, "s", "were"))
    )
    assert history.take(10) == Drained((numbered(1), one, numbered(3), two), 3)
    assert (history.queued, history.is_dropping) == (0, False)


def test_what_was_taken_and_then_lost_is_reported_before_the_next_events() -> None:
    history = History(5)
    history.record([row(0)])
    history.count_lost(4, wall_ms=7)
    history.count_lost(2, wall_ms=5)
    assert history.queued == 1, "a gap is no event"
    assert history.take(1) == Drained((gap(6, "6 events of any groups were dropped", 5), numbered(0)), 6)


def test_a_storm_of_100_000_transitions_in_one_turn_stays_within_its_bounds(
    record_property: Callable[[str, object], None],
) -> None:
    """From twice as many groups as are kept, with texts as long as clients may send."""
    flood, groups = 100_000, 2 * MAX_GROUPS
    long = ROW._replace(cause=CAUSE._replace(client_id="c" * 30_000, removed=("m" * 30_000,)))
    history = History(200)
    history.record(long._replace(group_id=f"g{n % groups}", generation_id=n) for n in range(flood))
    kept = [event for number in range(groups) for event in history.events(f"g{number}")]
    assert history.queued == MAX_QUEUED
    assert 0 < len(kept) <= MAX_EVENTS
    texts_of = [(event.client_id or "", *event.removed_member_ids) for event in kept]
    assert max(len(text) for texts in texts_of for text in texts) == MAX_TEXT, "what is cut off is let go of"
    events, dropped = [], 0
    while drained := history.take(1_000).events:
        events += [event for event in drained if not event.dropped_count]
        dropped += sum(event.dropped_count for event in drained)
    assert [event.generation_id for event in events] == list(range(MAX_QUEUED))
    assert dropped == flood - MAX_QUEUED, "those who read the topic learn how many are missing"
    assert history.queued == 0
    held = f"{len(kept):,} kept, {MAX_QUEUED:,} queued, {dropped:,} dropped and reported"
    record_property("figure", f"history: of {flood:,} transitions in one turn {held}")


def test_with_no_room_per_group_events_still_reach_the_topic() -> None:
    history = History(0)
    history.record([ROW])
    assert history.events("billing") == ()
    assert history.take(1).events == (EVENT,)


def test_a_row_is_worded_when_it_is_read() -> None:
    assert worded(ROW) == EVENT
    plain = ROW._replace(cause=Cause(CauseKind.GROUP_EMPTIED), removed_count=0, phase=None)
    assert worded(plain) == GroupEvent(
        "billing", 3, "Stable", "PreparingRebalance", "no members remain", ROW.wall_ms,
        member_count=2, cause="group_emptied",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["detail", "client_reason", "member_id", "group_instance_id", "client_id", "client_host"]
)
def test_a_text_that_a_client_chose_is_cut_to_the_bound(name: str) -> None:
    def named(text: str) -> Cause:
        changes: dict[str, Any] = {name: text}
        return CAUSE._replace(**changes)

    long = bounded(ROW._replace(cause=named("x" * 30_000)))
    assert long.cause == named("x" * 255 + "…")
    exact = ROW._replace(cause=named("x" * MAX_TEXT))
    assert bounded(exact) == exact


def test_so_are_ids_of_members_that_were_removed_or_came_last_and_the_words_of_a_reason() -> None:
    assert bounded(ROW) is ROW
    removed = bounded(ROW._replace(cause=CAUSE._replace(removed=("m" * 300, "n")))).cause.removed
    assert removed == ("m" * 255 + "…", "n")
    phase = bounded(ROW._replace(phase={"last_member_id": "m" * 300, "last_arrival_ms": 7})).phase
    assert phase == {"last_member_id": "m" * 255 + "…", "last_arrival_ms": 7}
    reason = worded(ROW._replace(cause=CAUSE._replace(detail="d" * 250))).reason
    assert reason == ("session expired: " + "d" * 250)[:255] + "…"


def test_a_group_that_is_forgotten_frees_its_room() -> None:
    history = History(3, max_events=3)
    history.record(map(row, range(3)))
    history.forget("billing")
    history.record([row(7, "a"), row(8, "b"), row(9, "c")])
    assert [generations(history, group) for group in ("billing", "a", "b", "c")] == [[], [7], [8], [9]]
