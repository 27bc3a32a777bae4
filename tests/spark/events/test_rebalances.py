"""The fold of events into rebalances, also where some are missing or late; and that both of its faces agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import RENAMED_SLUGS
from coordinator.groups.causes import CauseKind as Kind
from coordinator.history.events import encode_event
from coordinator.history.rebalances import UNKNOWN, Rebalance, RebalanceFold
from muster.groups.history import Newest
from muster.groups.history_tables import PHASE_WORDS, local_time, rebalance_table
from muster.groups.rebalance_views import rebalance_views
from muster.spark.events.aggregators import RebalanceAggregatorFactory
from muster.spark.events.bucket import Bucket, SourceRecord
from muster.spark.events.storms import StormRule
from tests.spark.events.histories import Chronicle, ConsumerChronicle, T, event, records

SPENT = {"PreparingRebalance": 900, "CompletingRebalance": 100}
BEGIN = event(0, "Stable PreparingRebalance", Kind.SESSION_EXPIRED, member_id="b", client_id="b-1")
JOINED = event(400, "PreparingRebalance", Kind.MEMBER_JOINED, member_id="c")
COMPLETE = event(
    900,
    "PreparingRebalance CompletingRebalance",
    Kind.ALL_MEMBERS_JOINED,
    generation_id=2,
    phase_ms={"PreparingRebalance": 900},
    last_member_id="a",
    last_client_id="a-1",
    last_arrival_ms=880,
)
END = event(
    1_000,
    "CompletingRebalance Stable",
    Kind.ASSIGNMENT_STORED,
    generation_id=2,
    member_count=2,
    phase_ms={"CompletingRebalance": 100},
    rebalance_cause="session_expired",
    rebalance_ms=SPENT,
)
WHOLE = [BEGIN, JOINED, COMPLETE, END]
RESTART = event(700, "Dead Stable", Kind.COORDINATOR_RESTARTED, member_count=3)


Kinds = type[Chronicle | ConsumerChronicle]
of_both_kinds = pytest.mark.parametrize("kind", [Chronicle, ConsumerChronicle], ids=["classic", "consumer"])


def history(seed: int, kind: Kinds) -> list[GroupEvent]:
    chronicle = kind(seed)
    for _ in range(150):
        chronicle.step()
    return chronicle.driver.history


def folded(events: list[GroupEvent], fold: RebalanceFold | None = None) -> list[Rebalance]:
    """The rebalances in `events`; the fold is dumped and loaded before each, as between batches."""
    fold = fold or RebalanceFold()
    found: list[Rebalance] = []
    for each in events:
        fold = RebalanceFold.load(fold.dump())
        found += fold.add(each)
    return found


def test_a_rebalance_has_its_row_with_its_end_and_all_that_happened_within() -> None:
    assert folded(WHOLE) == [
        Rebalance(
            group_id="g",
            generation_id=2,
            started_at=T,
            ended_at=T + 1_000,
            duration_ms=1_000,
            join_ms=900,
            sync_ms=100,
            attempts=1,
            cause="session_expired",
            reason="session expired",
            causes=["session_expired", "member_joined"],
            member_id="b",
            client_id="b-1",
            client_host=None,
            last_member_id="a",
            last_client_id="a-1",
            last_client_host=None,
            last_arrival_ms=880,
            last_group_instance_id=None,
            last_given_up_count=0,
            last_given_up=[],
            member_count=2,
            outcome="Stable",
        )
    ]


@of_both_kinds
@pytest.mark.parametrize("seed", range(20))
def test_a_real_history_has_a_rebalance_for_each_end_that_it_has(seed: int, kind: Kinds) -> None:
    events = history(seed, kind)
    ends = [each for each in events if each.rebalance_cause is not None]
    assert ends
    found = folded(events)
    assert [(each.cause, each.ended_at, each.duration_ms, each.outcome) for each in found] == [
        (each.rebalance_cause, each.wall_ms, sum(each.rebalance_ms.values()), each.to_state) for each in ends
    ]
    for each, view in zip(found, (one for one in rebalance_views(events) if one.rebalance), strict=False):
        first = view.first
        assert (each.started_at, each.reason, each.member_id) == (
            first.wall_ms,
            first.reason,
            first.member_id,
        )
        joins = [one for one in view.events if one.from_state != "CompletingRebalance"]
        last = [one.last_member_id for one in joins if one.last_member_id is not None]
        assert each.last_member_id == (last[-1] if last else None)


# What may be wrong with a topic: nothing, or each of these, at places that a seed chooses.


def lost(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    return [each for each in events if chance.random() < 0.7]


def lost_with_gaps(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    gap = GroupEvent("", -1, "", "", "events are missing", 0, cause="events_dropped", dropped_count=3)
    return [each if chance.random() < 0.8 else replace(gap, wall_ms=each.wall_ms) for each in events]


def cut(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    return events[chance.randrange(1, 12) : -chance.randrange(1, 12)]


def restarted(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    at = chance.randrange(1, len(events))
    restart = replace(RESTART, wall_ms=events[at].wall_ms, generation_id=events[at].generation_id)
    return [*events[:at], restart, *events[at:]]


def doubled(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    return [each for each in events for _ in range(1 if chance.random() < 0.7 else 2)]


def swapped(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    at = chance.randrange(1, len(events))
    return [*events[: at - 1], events[at], events[at - 1], *events[at + 1 :]]


def with_clock_set_back(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    at = chance.randrange(1, len(events))
    return [*events[:at], *(replace(each, wall_ms=each.wall_ms - 3_600_000) for each in events[at:])]


Wrong = Callable[[list[GroupEvent], random.Random], list[GroupEvent]]
WRONGS: tuple[Wrong, ...] = (
    cut, doubled, lost, lost_with_gaps, restarted, swapped, with_clock_set_back,
)  # fmt: skip


def whole(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    return events


def of_the_command(topic: list[SourceRecord]) -> tuple[list[Rebalance], list[list[str]]]:
    """The rebalances that `muster groups history` finds to be over, and the cells in which it shows them."""
    newest = Newest("g", 100_000)
    for each in topic:
        newest.add(each.key, each.value)
    over = [
        each
        for each in rebalance_views(newest.history().as_it_happened())
        if each.is_rebalance and each.is_over
    ]
    columns = [list(map(str, column.cells)) for column in rebalance_table(over).columns]
    cells = [list(row) for row in zip(*columns, strict=True)]
    return [each.rebalance for each in over if each.rebalance is not None], cells


def of_the_job(topic: list[SourceRecord]) -> list[Rebalance]:
    """The rebalances that the job writes into its table."""
    rows, _ = Bucket(RebalanceAggregatorFactory(StormRule(300_000, 0.2)), None).take(topic, 0)
    return [Rebalance(**row.columns) for row in rows if row.table == "rebalances"]


def as_shown(row: Rebalance, cells: list[str]) -> list[str]:
    """What the command's cells have to be by a row of the job's table, but for what that leaves out."""
    _, causes, member, client, *_, joining, assigning, _ = cells
    first, last_phases = (cell.rpartition(" ms")[0].rpartition(" ")[0] for cell in (joining, assigning))
    assert {first, last_phases} <= {"", *PHASE_WORDS.values()}
    began = causes.partition("; then ")[0].partition(" (")[0] == (row.reason or "-") or not row.reason
    who = row.last_group_instance_id or row.last_member_id
    given_up = f": {', '.join(row.last_given_up)}" if row.last_given_up else ""
    last = None if who is None else f"{who} {row.last_client_id}@10.0.0.1"
    return [
        local_time(row.started_at),
        causes if began else f"not begun by {row.reason}",
        member if row.member_id is not None or member == "-" else "-",
        client if client.partition("@")[0] == (row.client_id or "-") else f"not {row.client_id}",
        row.outcome,
        str(row.generation_id),
        str(row.member_count),
        f"{first} {row.join_ms:,} ms".strip() if row.join_ms or joining != "-" else "-",
        f"{last_phases} {row.sync_ms:,} ms".strip() if row.sync_ms or assigning != "-" else "-",
        "-" if last is None else f"{last} after {row.last_arrival_ms:,} ms{given_up}",
    ]


@of_both_kinds
@pytest.mark.parametrize("wrong", [whole, *WRONGS])
@pytest.mark.parametrize("seed", range(6))
def test_the_command_and_the_job_find_the_same_rebalances_in_one_topic(
    seed: int, wrong: Wrong, kind: Kinds
) -> None:
    chance = random.Random(seed)
    topic = records(wrong(history(seed, kind), chance))
    topic.append(SourceRecord(0, len(topic), T, b"g", encode_event(BEGIN)[1].replace(b'"Stable"', b"true")))
    topic.append(SourceRecord(0, len(topic), T, b"g", encode_event(replace(END, group_id="another"))[1]))
    found, cells = of_the_command(topic)
    assert len(found) > 5
    assert found == of_the_job(topic)
    assert cells == [as_shown(row, shown) for row, shown in zip(found, cells, strict=True)]


def test_a_gap_in_a_rebalance_makes_no_two_of_it() -> None:
    gap = GroupEvent("", -1, "", "", "7 events of any groups were dropped", COMPLETE.wall_ms, dropped_count=7)
    read = rebalance_views([BEGIN, JOINED, gap, COMPLETE, END])
    assert [(each.is_rebalance, each.is_over, len(each.events)) for each in read] == [
        (True, True, 4), (False, True, 1)
    ]  # fmt: skip


def test_what_cuts_a_rebalance_off_ends_its_view() -> None:
    again = replace(BEGIN, wall_ms=T + 5_000)
    read = rebalance_views([BEGIN, JOINED, RESTART, BEGIN, again, JOINED])
    outcomes = [each.rebalance and each.rebalance.outcome for each in read]
    assert outcomes == ["Dead", None, UNKNOWN, "PreparingRebalance"]
    assert [each.is_over for each in read] == [True, True, True, False]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_one_that_began_before_the_topic_is_reported_with_what_its_end_knows(first: int) -> None:
    (found,) = folded(WHOLE[first:])
    assert (found.cause, found.duration_ms, found.started_at) == ("session_expired", 1_000, T)
    assert (found.reason, found.member_id, found.outcome) == ("session expired", None, "Stable")
    assert found.causes[0] == "session_expired"


def test_attempts_are_counted_and_the_last_join_phase_names_who_was_last() -> None:
    again = event(
        950,
        "CompletingRebalance PreparingRebalance",
        Kind.MEMBER_LEFT,
        generation_id=2,
        phase_ms={"CompletingRebalance": 50},
    )
    second = replace(COMPLETE, generation_id=3, wall_ms=T + 1_500, last_member_id="c", last_arrival_ms=5)
    end = replace(END, generation_id=3, wall_ms=T + 1_600)
    (found,) = folded([BEGIN, COMPLETE, again, second, end])
    assert (found.attempts, found.last_member_id, found.last_arrival_ms) == (2, "c", 5)
    assert found.causes == ["session_expired", "member_left"]


def test_a_restart_ends_what_was_running() -> None:
    (found,) = folded([BEGIN, RESTART])
    assert (found.cause, found.outcome, found.duration_ms) == ("session_expired", "Dead", 700)
    assert (found.join_ms, found.sync_ms, found.ended_at) == (700, 0, T + 700)
    assert found.causes == ["session_expired", "coordinator_restarted"]


def test_one_whose_end_was_dropped_lasts_until_its_last_event() -> None:
    later = [
        replace(each, generation_id=each.generation_id + 1, wall_ms=each.wall_ms + 60_000) for each in WHOLE
    ]
    lost, found = folded([BEGIN, JOINED, COMPLETE, *later])
    assert (lost.outcome, lost.duration_ms, lost.cause) == (UNKNOWN, 900, "session_expired")
    assert (found.outcome, found.started_at) == ("Stable", T + 60_000)


def test_a_running_one_is_not_shortened_by_a_clock_that_is_set_back() -> None:
    fold = RebalanceFold()
    for wall_ms in (T, T + 20_000, T + 5_000):
        fold.add(replace(JOINED if wall_ms > T else BEGIN, wall_ms=wall_ms))
    assert fold.running is not None
    assert fold.running.so_far("g").ended_at == T + 20_000
    (cut_off,) = fold.add(replace(RESTART, wall_ms=T + 10_000))
    assert cut_off.ended_at == T + 20_000


def test_what_comes_again_or_late_begins_nothing() -> None:
    assert len(folded([COMPLETE, END])) == 1
    assert folded(WHOLE, RebalanceFold(None, 2, END.wall_ms)) == []


def test_a_rebalance_in_the_ms_of_the_last_ones_end_is_another() -> None:
    begin = replace(BEGIN, generation_id=2, wall_ms=END.wall_ms, cause="member_left")
    end = replace(END, generation_id=3, rebalance_cause="member_left")
    assert [each.cause for each in folded([*WHOLE, begin, end])] == ["session_expired", "member_left"]


def test_generations_begin_again_with_a_group_that_was_deleted() -> None:
    deleted = event(2_000, "Empty Dead", Kind.GROUP_DELETED, generation_id=2)
    again = [replace(each, generation_id=0, wall_ms=T) for each in (BEGIN, END)]
    assert len(folded([*WHOLE, deleted, *again])) == 2


def test_a_cause_that_is_not_known_yet_passes_through() -> None:
    begin = replace(BEGIN, cause="moon_phase", reason="the moon is full")
    (found,) = folded([begin, COMPLETE, replace(END, rebalance_cause="moon_phase")])
    assert (found.cause, found.reason, found.causes) == ("moon_phase", "the moon is full", ["moon_phase"])


def test_an_event_beside_a_rebalance_is_none() -> None:
    assert folded([event(0, "Stable", Kind.STATIC_MEMBER_REPLACED, removed_count=1)]) == []


@pytest.mark.parametrize(("former", "today"), RENAMED_SLUGS.items())
def test_a_former_cause_is_in_the_rows_under_its_name_of_today(former: str, today: str) -> None:
    """In events of an older version, and in the state that a job of an older version left in its checkpoint."""
    began, ended = replace(BEGIN, cause=former), replace(END, rebalance_cause=former)
    bucket = Bucket(RebalanceAggregatorFactory(StormRule(600_000, 0.2)), None)
    rows, dead_letters = bucket.take(records([began, JOINED, COMPLETE, ended]), 0)
    assert dead_letters == []
    (found,) = (row.columns for row in rows if row.table == "rebalances")
    assert (found["cause"], found["causes"]) == (today, [today, "member_joined"])

    fold = RebalanceFold()
    fold.add(began)
    (cut_off,) = RebalanceFold.load(fold.dump()).add(RESTART)
    assert (cut_off.cause, cut_off.causes) == (today, [today, "coordinator_restarted"])
