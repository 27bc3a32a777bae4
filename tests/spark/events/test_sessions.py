"""Sessions of members out of events: against real histories of a shard, and where events leave members out."""

from __future__ import annotations

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind as Kind
from muster.spark.events.sessions import Session, SessionFold
from tests.groups.consumer import Consumer
from tests.spark.events.histories import Chronicle, ConsumerChronicle, T, event


def joined(wall_ms: int, member_id: str, count: int, **more: object) -> GroupEvent:
    return event(
        wall_ms, "PreparingRebalance", Kind.MEMBER_JOINED, member_id=member_id, member_count=count, **more
    )


def removed(wall_ms: int, kind: Kind, count: int, *member_ids: str, unnamed: int = 0) -> GroupEvent:
    return event(
        wall_ms,
        "PreparingRebalance",
        kind,
        member_id=member_ids[0],
        member_count=count,
        removed_count=len(member_ids) + unnamed,
        removed_member_ids=member_ids,
    )


def sessions_of(fold: SessionFold, *events: GroupEvent) -> list[Session]:
    return [session for each in events for session in fold.add(each)]


def ends(sessions: list[Session]) -> list[tuple[str, str, int]]:
    return sorted((each.member_id, each.ended_by, each.ended_at - T) for each in sessions)


@pytest.mark.parametrize("kind", [Chronicle, ConsumerChronicle], ids=["classic", "consumer"])
@pytest.mark.parametrize("seed", range(20))
def test_who_is_a_member_is_known_after_every_step_of_a_real_history(
    seed: int, kind: type[Chronicle | ConsumerChronicle]
) -> None:
    """And every session begins and ends once. The fold is dumped and loaded before each step."""
    chronicle, fold, seen = kind(seed), SessionFold(), 0
    sessions: list[Session] = []
    for _ in range(150):
        chronicle.step()
        fold = SessionFold.load(fold.dump())
        sessions += sessions_of(fold, *chronicle.driver.history[seen:])
        seen = len(chronicle.driver.history)
        assert fold.members.keys() == chronicle.member_ids()
    joins = [each.member_id for each in chronicle.driver.history if each.member_id and each.cause in
             ("member_joined", "static_member_replaced")]  # fmt: skip
    assert sorted(joins) == sorted([*(each.member_id for each in sessions), *fold.members])
    assert all(each.started_at is not None and each.duration_ms is not None for each in sessions)


def test_a_session_has_who_it_was_and_how_it_began_and_ended() -> None:
    begin = joined(0, "a-1", 1, client_id="a", client_host="/10.0.0.1", group_instance_id="i")
    (session,) = sessions_of(SessionFold(), begin, removed(5_000, Kind.SESSION_EXPIRED, 0, "a-1"))
    who = ("g", "a-1", "a", "/10.0.0.1", "i")
    assert session == Session(*who, T, T + 5_000, 5_000, "member_joined", "session_expired")


def test_a_replaced_static_member_is_two_sessions() -> None:
    replaced = event(10, "Stable", Kind.STATIC_MEMBER_REPLACED, member_id="i-2", member_count=1, removed_count=1,
                     removed_member_ids=("i-1",))  # fmt: skip
    sessions = sessions_of(
        SessionFold(), joined(0, "i-1", 1), replaced, removed(30, Kind.REMOVED_BY_ADMIN, 0, "i-2")
    )
    assert [(each.member_id, each.joined_by, each.ended_by) for each in sessions] == [
        ("i-1", "member_joined", "static_member_replaced"),
        ("i-2", "static_member_replaced", "removed_by_admin"),
    ]


def test_a_member_from_before_the_topic_ends_without_a_begin() -> None:
    (session,) = sessions_of(SessionFold(), removed(5, Kind.MEMBER_LEFT, 3, "old"))
    assert (session.started_at, session.duration_ms, session.joined_by) == (None, None, None)


def group_of(count: int) -> SessionFold:
    fold = SessionFold()
    assert sessions_of(fold, *(joined(number, f"m{number:02}", number + 1) for number in range(count))) == []
    return fold


def test_those_that_an_event_does_not_name_end_once_it_is_clear_who_they_are() -> None:
    """30 members, of whom 25 do not rejoin: ten are named, and fifteen are among the twenty others."""
    fold = group_of(30)
    named = [f"m{number:02}" for number in range(10)]
    assert len(sessions_of(fold, removed(1_000, Kind.REBALANCE_TIMEOUT, 5, *named, unnamed=15))) == 10
    acts = event(
        2_000, "Stable PreparingRebalance", Kind.MEMBER_METADATA_CHANGED, member_id="m29", member_count=5
    )
    assert sessions_of(fold, acts) == []
    leaving = [removed(3_000 + n, Kind.MEMBER_LEFT, 4 - n, f"m{25 + n}") for n in range(4)]
    sessions = sessions_of(fold, *leaving)
    expired = [(f"m{number}", "rebalance_timeout", 1_000) for number in range(10, 25)]
    assert ends(sessions) == expired + [(f"m{25 + n}", "member_left", 3_000 + n) for n in range(4)]
    assert list(fold.members) == ["m29"]


def test_in_an_empty_group_all_sessions_have_ended_named_or_not() -> None:
    fold = group_of(15)
    named = [f"m{number:02}" for number in range(10)]
    sessions = sessions_of(fold, removed(1_000, Kind.SYNC_TIMEOUT, 0, *named, unnamed=5))
    assert ends(sessions) == [(f"m{number:02}", "sync_timeout", 1_000) for number in range(15)]
    assert (fold.members, fold.unnamed) == ({}, [])


def test_ends_that_an_older_version_put_into_a_checkpoint_have_the_cause_of_today() -> None:
    """It knew that 15 members were gone by a cause with a former slug, and not yet which."""
    members, _, gone, heard_ms = group_of(15).dump()
    fold = SessionFold.load([members, [[T + 500, "new_member_expired", 15]], gone, heard_ms])
    sessions = sessions_of(fold, event(1_000, "PreparingRebalance Empty", Kind.GROUP_EMPTIED, member_count=0))
    assert [session.ended_by for session in sessions] == ["new_member_join_timeout"] * 15


def test_members_that_are_not_known_may_be_the_ones_that_are_not_named() -> None:
    """The topic begins with twenty members; one joins, twelve go, ten of them by name: the new one may be here."""
    fold = SessionFold()
    named = [f"old{number}" for number in range(10)]
    assert (
        len(sessions_of(fold, joined(0, "new", 21), removed(10, Kind.SYNC_TIMEOUT, 9, *named, unnamed=2)))
        == 10
    )
    assert list(fold.members) == ["new"]


def test_a_coordinator_that_restarted_still_has_its_members() -> None:
    fold = group_of(3)
    assert sessions_of(fold, event(500, "Dead Stable", Kind.COORDINATOR_RESTARTED, member_count=3)) == []
    (session,) = sessions_of(fold, removed(900, Kind.SESSION_EXPIRED, 2, "m01"))
    assert (session.started_at, session.duration_ms) == (T + 1, 899)


def test_who_was_not_stored_before_a_restart_ends_with_it_once_that_is_clear() -> None:
    fold = group_of(3)
    assert sessions_of(fold, event(500, "Dead Stable", Kind.COORDINATOR_RESTARTED, member_count=2)) == []
    sessions = sessions_of(
        fold, removed(900, Kind.MEMBER_LEFT, 1, "m00"), removed(950, Kind.MEMBER_LEFT, 0, "m01")
    )
    assert ends(sessions) == [
        ("m00", "member_left", 900),
        ("m01", "member_left", 950),
        ("m02", "coordinator_restarted", 500),
    ]


def test_whose_end_was_dropped_ends_with_the_event_that_shows_it() -> None:
    fold = group_of(1)
    sessions = sessions_of(fold, joined(9_000, "other", 1), event(9_500, "Empty Dead", Kind.GROUP_DELETED))
    assert ends(sessions) == [("m00", "events_dropped", 9_000), ("other", "group_deleted", 9_500)]


def test_a_join_that_comes_after_its_end_opens_nothing() -> None:
    fold = SessionFold()
    assert len(sessions_of(fold, removed(50, Kind.MEMBER_LEFT, 0, "a"), joined(40, "a", 1))) == 1
    assert sessions_of(fold, removed(50, Kind.MEMBER_LEFT, 0, "a")) == []
    assert fold.members == {}


def test_after_a_crash_of_a_real_shard_the_fold_and_the_group_agree_again() -> None:
    chronicle, fold = Chronicle(7), SessionFold()
    driver = chronicle.driver
    for _ in range(40):
        chronicle.settle()
        chronicle.join()
    chronicle.settle()
    driver.restart()
    chronicle.consumers.clear()
    newcomer = Consumer(driver, "new")
    newcomer.join()
    driver.advance(200_000)
    sessions_of(fold, *driver.history)
    assert fold.members.keys() == chronicle.member_ids()
