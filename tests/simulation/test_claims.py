"""The accounts of who has which partition: what they find, and what they let pass."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator.effects import RequestReceived, TimerFired
from coordinator.groups.consumer.timers import MemberSessionTimer, RevocationTimer
from harness.doubles.topics import topic_id_of
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.simulation.claims import SLACK_MS, Claims
from tests.simulation.marks import Marks
from tests.simulation.mixed_marks import KNOWN
from tests.simulation.removals import Removed, objection

P0, P1 = (topic_id_of(1), 0), (topic_id_of(1), 1)


@pytest.fixture
def found() -> list[str]:
    return []


@pytest.fixture
def claims(found: list[str]) -> Claims:
    """Member "a" of "g" has two partitions, as it was answered."""
    claims = Claims(found.append, Marks(KNOWN))
    claims.is_told("g", "a", {P0, P1}, 1_000)
    claims.was_made("g", "a", 3, {P0, P1})
    claims.member("g", "a").rebalance_ms = 5_000
    return claims


def test_a_second_owner_is_found(claims: Claims, found: list[str]) -> None:
    claims.is_told("g", "b", {P1}, 2_000)
    assert found == [f"g: {[P1]} was given to b, and a has it"]


def test_what_was_given_up_or_its_member_removed_is_free(claims: Claims, found: list[str]) -> None:
    claims.says("g", "a", [P0])
    claims.is_told("g", "b", {P1}, 2_000)
    claims.removed("g", "a")
    claims.is_told("g", "b", {P0, P1}, 2_000)
    assert found == []


def test_what_a_crash_took_along_was_never_given(claims: Claims, found: list[str]) -> None:
    claims.says("g", "a", [])
    claims.is_told("g", "a", {P0}, 1_000)
    claims.forget_unshown("g")
    claims.is_told("g", "b", {P0}, 2_000)
    assert found == []


def test_what_is_not_given_up_in_time_is_found(claims: Claims, found: list[str]) -> None:
    claims.is_told("g", "a", {P0}, 2_000)
    claims.check_overdue("g", 7_000 + SLACK_MS)
    assert found == []
    claims.check_overdue("g", 7_001 + SLACK_MS)
    assert found == [f"a of g has not given up {[P1]} since 2000"]


def test_a_member_that_left_for_now_has_nothing_to_give_up(claims: Claims, found: list[str]) -> None:
    claims.is_told("g", "a", {P0}, 2_000)
    claims.leaves_for_now("g", "a")
    claims.check_overdue("g", 7_001 + SLACK_MS)
    claims.is_told("g", "b", {P1}, 8_000)
    assert found == []
    claims.is_told("g", "b", {P0}, 8_000)
    assert found == [f"g: {[P0]} was given to b, and a has it"], "the rest of its place is kept"


def test_an_epoch_that_goes_back_is_found(claims: Claims, found: list[str]) -> None:
    claims.check_group_epoch("g", 3)
    claims.check_member_epoch("g", "a", 3)
    assert found == []
    claims.check_group_epoch("g", 2)
    claims.check_member_epoch("g", "a", 2)
    assert found == ["g is at 2, and has shown 3", "a of g is at 2, and was shown 3"]


def test_a_member_is_removed_for_a_reason_alone(claims: Claims) -> None:
    claims.is_told("g", "a", {P0}, 2_000)
    member = claims.member("g", "a")
    member.heard_ms = 2_000
    removed, marks = Removed("a", "i", member, 6_000), Marks(KNOWN)
    session, revocation = (kind("g", "a") for kind in (MemberSessionTimer, RevocationTimer))
    assert objection(removed, TimerFired(session, 0), 7_999, marks) is not None
    assert objection(removed, TimerFired(session, 0), 8_000, marks) is None
    assert objection(removed, TimerFired(revocation, 0), 6_999, marks) is not None
    assert objection(removed, TimerFired(revocation, 0), 7_000, marks) is None
    assert objection(removed, TimerFired(RevocationTimer("g", "b"), 0), 99_000, marks) is not None


def test_an_instance_is_taken_over_if_its_member_is_away(claims: Claims) -> None:
    removed = Removed("a", "i", claims.member("g", "a"), 6_000)
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=0, instance_id="i")
    event = RequestReceived(request, cast("Any", None), 0)  # Who asked does not matter.
    assert objection(removed, event, 0, Marks(KNOWN)) is not None
    removed.claims.is_away = True
    assert objection(removed, event, 0, Marks(KNOWN)) is None
