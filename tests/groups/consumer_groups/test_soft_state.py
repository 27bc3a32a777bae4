"""What a restart forgets of a consumer group: its sessions and timers (A29, A30)."""

from __future__ import annotations

from coordinator.effects import Effects, SetTimer
from coordinator.groups.consumer.soft_state import REFRESH_MS, SoftState
from coordinator.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    MemberSessionTimer,
    RevocationTimer,
)

SESSION = MemberSessionTimer("g", "m")


def test_a_heartbeat_moves_the_deadline_and_no_timer() -> None:
    soft, effects = SoftState("g"), Effects()
    soft.begin_session("m", 0, 45_000, effects)
    soft.begin_session("m", 10_000, 45_000, effects)
    assert effects.timers == [SetTimer(SESSION, 45_000)]
    assert not soft.is_session_over("m", 45_000, effects)
    assert effects.timers[1:] == [SetTimer(SESSION, 55_000)]
    assert soft.is_session_over("m", 55_000, effects)


def test_a_shorter_session_moves_its_timer() -> None:
    soft, effects = SoftState("g"), Effects()
    soft.begin_session("m", 0, 45_000, effects)
    soft.begin_session("m", 1_000, 20_000, effects)
    assert effects.timers == [SetTimer(SESSION, 45_000), SetTimer(SESSION, 21_000)]


def test_a_session_that_is_over_begins_with_a_timer_again() -> None:
    soft, effects = SoftState("g"), Effects()
    soft.begin_session("m", 0, 45_000, effects)
    assert soft.is_session_over("m", 45_000, effects)
    soft.begin_session("m", 50_000, 45_000, effects)
    assert effects.timers[-1] == SetTimer(SESSION, 95_000)


def test_a_session_that_is_unknown_is_not_over() -> None:
    effects = Effects()
    assert not SoftState("g").is_session_over("m", 45_000, effects)
    assert effects.timers == []


def test_the_time_to_join_again_runs_once() -> None:
    soft, effects = SoftState("g"), Effects()
    soft.await_join("m", 9_000, effects)
    soft.await_join("m", 12_000, effects)
    assert effects.timers == [SetTimer(ClassicJoinTimer("g", "m"), 9_000)]
    soft.end_join("m", effects)
    soft.await_join("m", 20_000, effects)
    assert effects.timers[1:] == [
        SetTimer(ClassicJoinTimer("g", "m"), None),
        SetTimer(ClassicJoinTimer("g", "m"), 20_000),
    ]


def test_a_classic_member_is_late_if_what_it_owed_has_not_come_and_its_time_was_not_set_anew() -> None:
    """The timer that fired may have waited behind the request that ended it."""
    soft, effects = SoftState("g"), Effects()
    joining, syncing = ClassicJoinTimer("g", "m"), ClassicSyncTimer("g", "m")
    soft.await_join("m", 9_000, effects)
    soft.await_sync("m", 8_000, effects)
    assert soft.is_late(syncing, 8_000)
    assert not soft.is_late(joining, 8_000)
    soft.await_sync("m", 9_000, effects)
    soft.end_join("m", effects)
    assert not soft.is_late(joining, 9_000), "it has joined"
    soft.end_sync("m", effects)
    assert not soft.is_late(syncing, 9_000), "it has its assignment"
    soft.await_join("m", 20_000, effects)
    soft.await_sync("m", 20_000, effects)
    assert not soft.is_late(joining, 9_000)
    assert not soft.is_late(syncing, 9_000)
    assert soft.is_late(joining, 20_000)
    assert soft.is_late(syncing, 20_000)


def test_a_member_has_not_confirmed_in_time_if_it_is_in_the_same_epoch_and_its_time_was_not_set_anew() -> (
    None
):
    soft, effects = SoftState("g"), Effects()
    soft.await_revocation("m", 3, 9_000, effects)
    soft.await_revocation("m", 3, 20_000, effects)
    assert not soft.is_revocation_over("m", 3, 9_000)
    assert soft.is_revocation_over("m", 3, 20_000)
    assert not soft.is_revocation_over("m", 3, 20_000), "it is forgotten"
    soft.await_revocation("m", 3, 30_000, effects)
    assert not soft.is_revocation_over("m", 4, 30_000)


def test_a_member_that_is_gone_has_no_timers() -> None:
    soft, effects = SoftState("g"), Effects()
    soft.begin_session("m", 0, 45_000, effects)
    soft.await_revocation("m", 3, 5_000, effects)
    effects.timers.clear()
    soft.forget("m", effects)
    soft.forget("m", effects)
    assert effects.timers == [SetTimer(RevocationTimer("g", "m"), None), SetTimer(SESSION, None)]


def test_topics_are_looked_at_with_the_first_heartbeat_and_after_a_raise_that_failed() -> None:
    soft = SoftState("g")
    assert soft.is_stale(0, 1, 7)
    soft.refreshed(0, 2, 7)
    assert soft.is_stale(1, 1, 7), "the epoch was not stored"
    assert not soft.is_stale(REFRESH_MS - 1, 2, 7)
    assert soft.is_stale(REFRESH_MS, 2, 7)
    assert soft.is_stale(1, 2, 8), "a topic changed"
