"""Rebalances out of events: against real histories of a shard, and one by one where events are missing or late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind as Kind
from muster.groups.rebalances import chapters
from muster.spark.events.rebalance_story import UNKNOWN, Rebalance, RebalanceStory
from tests.spark.events.stories import Chronicle, T, event

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


def told(events: list[GroupEvent], story: RebalanceStory | None = None) -> list[Rebalance]:
    """The rebalances in `events`; the story is dumped and loaded before each, as between batches."""
    story = story or RebalanceStory()
    found: list[Rebalance] = []
    for each in events:
        story = RebalanceStory.load(story.dump())
        found += story.tell(each)
    return found


def test_a_rebalance_is_told_with_its_end_and_all_that_happened_within() -> None:
    assert told(WHOLE) == [
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
            member_count=2,
            outcome="Stable",
        )
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_real_history_has_the_rebalances_that_its_chapters_have(seed: int) -> None:
    chronicle = Chronicle(seed)
    for _ in range(150):
        chronicle.step()
    over = [each for each in chapters(chronicle.driver.history) if each.is_rebalance and each.is_over]
    assert over
    found = told(chronicle.driver.history)
    assert [(each.cause, each.duration_ms, each.outcome) for each in found] == [
        (each.last.rebalance_cause, sum(each.last.rebalance_ms.values()), each.last.to_state) for each in over
    ]
    assert [(each.started_at, each.ended_at, each.reason, each.member_id) for each in found] == [
        (each.first.wall_ms, each.last.wall_ms, each.first.reason, each.first.member_id) for each in over
    ]
    assert [each.last_member_id for each in found] == [
        None if each.last_to_join is None else each.last_to_join.last_member_id for each in over
    ]


@pytest.mark.parametrize("first", [1, 2, 3])
def test_one_that_began_before_the_topic_is_told_with_what_its_end_knows(first: int) -> None:
    (found,) = told(WHOLE[first:])
    assert (found.cause, found.duration_ms, found.started_at) == ("session_expired", 1_000, T)
    assert (found.reason, found.member_id, found.outcome) == ("session expired", None, "Stable")
    assert found.causes[0] == "session_expired"


def test_attempts_are_counted_and_the_last_join_phase_tells_who_was_last() -> None:
    again = event(
        950,
        "CompletingRebalance PreparingRebalance",
        Kind.MEMBER_LEFT,
        generation_id=2,
        phase_ms={"CompletingRebalance": 50},
    )
    second = replace(COMPLETE, generation_id=3, wall_ms=T + 1_500, last_member_id="c", last_arrival_ms=5)
    end = replace(END, generation_id=3, wall_ms=T + 1_600)
    (found,) = told([BEGIN, COMPLETE, again, second, end])
    assert (found.attempts, found.last_member_id, found.last_arrival_ms) == (2, "c", 5)
    assert found.causes == ["session_expired", "member_left"]


def test_a_restart_ends_what_was_running() -> None:
    (found,) = told([BEGIN, RESTART])
    assert (found.cause, found.outcome, found.duration_ms) == ("session_expired", "Dead", 700)
    assert (found.join_ms, found.sync_ms, found.ended_at) == (700, 0, T + 700)
    assert found.causes == ["session_expired", "coordinator_restarted"]


def test_one_whose_end_was_dropped_lasts_until_it_was_last_heard_of() -> None:
    later = [
        replace(each, generation_id=each.generation_id + 1, wall_ms=each.wall_ms + 60_000) for each in WHOLE
    ]
    lost, found = told([BEGIN, JOINED, COMPLETE, *later])
    assert (lost.outcome, lost.duration_ms, lost.cause) == (UNKNOWN, 900, "session_expired")
    assert (found.outcome, found.started_at) == ("Stable", T + 60_000)


def test_what_comes_again_or_late_begins_nothing() -> None:
    story = RebalanceStory()
    assert len(told([COMPLETE, END], story)) == 1
    assert told(WHOLE, RebalanceStory(None, 2, END.wall_ms)) == []


def test_a_rebalance_in_the_ms_of_the_last_ones_end_is_another() -> None:
    begin = replace(BEGIN, generation_id=2, wall_ms=END.wall_ms, cause="member_left")
    end = replace(END, generation_id=3, rebalance_cause="member_left")
    assert [each.cause for each in told([*WHOLE, begin, end])] == ["session_expired", "member_left"]


def test_generations_begin_anew_with_a_group_that_was_deleted() -> None:
    deleted = event(2_000, "Empty Dead", Kind.GROUP_DELETED, generation_id=2)
    again = [replace(each, generation_id=0, wall_ms=T) for each in (BEGIN, END)]
    assert len(told([*WHOLE, deleted, *again])) == 2


def test_a_cause_that_is_not_known_yet_passes_through() -> None:
    begin = replace(BEGIN, cause="moon_phase", reason="the moon is full")
    (found,) = told([begin, COMPLETE, replace(END, rebalance_cause="moon_phase")])
    assert (found.cause, found.reason, found.causes) == ("moon_phase", "the moon is full", ["moon_phase"])


def test_an_event_beside_a_rebalance_is_none() -> None:
    assert told([event(0, "Stable", Kind.STATIC_MEMBER_REPLACED, removed_count=1)]) == []
