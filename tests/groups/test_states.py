"""The tables of states: complete, and the only way a group moves."""

from __future__ import annotations

from itertools import product

import pytest

from coordinator.effects import Effects, GroupEvent, Moment
from coordinator.groups.causes import REASON_MAX_CHARS, Cause, CauseKind
from coordinator.groups.classic.events import REMOVED_IDS_MAX, new_row
from coordinator.groups.classic.group import Arrival, Group
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.states import (
    COMMIT_ANSWER,
    COMPLETING_REBALANCE,
    DEAD,
    DELETE_ANSWER,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    PROTOCOL_DESCRIBED,
    STABLE,
    SYNC_ANSWER,
    TRANSITIONS,
    GroupState,
    Trigger,
)
from coordinator.groups.classic.transition import IllegalTransition
from coordinator.groups.classic.transition import transition as collect_transition
from coordinator.history.events import worded

CAUSE = Cause(CauseKind.MEMBER_JOINED)
AT = Moment(now_ms=5_000, wall_ms=1_700_000_000_000)
PAIRS = list(product(GroupState, Trigger))
TO_PREPARING = {
    (EMPTY, Trigger.MEMBERSHIP_CHANGED),
    (STABLE, Trigger.MEMBERSHIP_CHANGED),
    (COMPLETING_REBALANCE, Trigger.MEMBERSHIP_CHANGED),
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_FAILED),
}


def transition(group: Group, trigger: Trigger, at: Moment, cause: Cause) -> GroupEvent:
    """Move `group`; return the event of it."""
    effects = Effects()
    collect_transition(group, trigger, at, cause, effects)
    (row,) = effects.history
    return worded(row)


def expected_state(state: GroupState, trigger: Trigger) -> GroupState | None:
    """The diagram of Kafka's classic group, written down a second time."""
    if trigger is Trigger.GROUP_REMOVED:
        return DEAD
    if (state, trigger) in TO_PREPARING:
        return PREPARING_REBALANCE
    if state is PREPARING_REBALANCE:
        return {Trigger.JOIN_COMPLETED: COMPLETING_REBALANCE, Trigger.GROUP_EMPTIED: EMPTY}.get(trigger)
    if (state, trigger) == (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_STORED):
        return STABLE
    return None


@pytest.mark.parametrize(("state", "trigger"), PAIRS)
def test_every_pair_of_state_and_trigger_moves_as_drawn_or_is_refused(
    state: GroupState, trigger: Trigger
) -> None:
    group = Group("g", state=state, state_since_ms=4_000)
    after = expected_state(state, trigger)
    if after is None:
        with pytest.raises(IllegalTransition, match="g: "):
            transition(group, trigger, AT, CAUSE)
        assert group.state is state
    else:
        transition(group, trigger, AT, CAUSE)
        assert group.state is after


@pytest.mark.parametrize(
    "table", [HEARTBEAT_ANSWER, SYNC_ANSWER, COMMIT_ANSWER, DELETE_ANSWER, PROTOCOL_DESCRIBED]
)
def test_every_answer_table_has_an_answer_for_every_state(table: dict[GroupState, object]) -> None:
    assert table.keys() == set(GroupState)


def test_no_row_of_the_transitions_is_unknown_to_the_diagram() -> None:
    assert {pair for pair in PAIRS if expected_state(*pair)} == TRANSITIONS.keys()


def test_a_transition_shows_who_made_it_and_how_long_the_phase_took() -> None:
    member = Member("m-1", "i-1", "client", "/10.0.0.1", 60_000, 10_000, ())
    group = Group("g", state=STABLE, generation_id=7, state_since_ms=1_500)
    group.add(member, "consumer")
    event = transition(
        group, Trigger.MEMBERSHIP_CHANGED, AT, Cause.by(member, CauseKind.SESSION_EXPIRED, removed=("m-1",))
    )
    assert event == GroupEvent(
        group_id="g",
        generation_id=7,
        from_state="Stable",
        to_state="PreparingRebalance",
        reason="session expired",
        wall_ms=AT.wall_ms,
        member_id="m-1",
        group_instance_id="i-1",
        client_id="client",
        client_host="/10.0.0.1",
        member_count=1,
        phase_ms={"Stable": 3_500},
        cause="session_expired",
        removed_count=1,
        removed_member_ids=("m-1",),
        rebalance_timeout_ms=60_000,
        phase_timeout_ms=60_000,
    )
    assert (group.state_since_ms, group.state_wall_ms) == (AT.now_ms, AT.wall_ms)


def arrived(member_id: str, now_ms: int) -> Arrival:
    return Arrival(member_id, "client", "/10.0.0.1", now_ms)


def test_a_phase_that_waited_for_members_shows_who_came_last_and_when() -> None:
    group = Group("g", state=PREPARING_REBALANCE, state_since_ms=1_000, last_arrival=arrived("m-9", 4_000))
    event = transition(group, Trigger.JOIN_COMPLETED, AT, CAUSE)
    assert (event.last_member_id, event.last_arrival_ms) == ("m-9", 3_000)
    assert (event.last_client_id, event.last_client_host) == ("client", "/10.0.0.1")
    assert transition(group, Trigger.ASSIGNMENT_STORED, AT, CAUSE).last_member_id is None
    # It joins again, by which a phase begins: no member came last.
    group.last_arrival = arrived("m-1", 4_999)
    assert transition(group, Trigger.MEMBERSHIP_CHANGED, AT, CAUSE).last_member_id is None
    event = transition(group, Trigger.JOIN_COMPLETED, AT, CAUSE)
    assert (event.last_member_id, event.last_arrival_ms) == ("m-1", 0), "it came before the phase it began"


def test_the_end_of_a_rebalance_shows_what_began_it_and_the_time_of_all_its_attempts() -> None:
    group = Group("g", state=STABLE, state_since_ms=0)
    steps = [
        (Trigger.MEMBERSHIP_CHANGED, 1_000, CauseKind.SESSION_EXPIRED),
        (Trigger.JOIN_COMPLETED, 1_100, CauseKind.ALL_MEMBERS_JOINED),
        (Trigger.MEMBERSHIP_CHANGED, 1_110, CauseKind.MEMBER_JOINED),
        (Trigger.JOIN_COMPLETED, 1_310, CauseKind.REBALANCE_TIMEOUT),
    ]
    for trigger, now_ms, kind in steps:
        event = transition(group, trigger, Moment(now_ms, now_ms), Cause(kind))
        assert (event.rebalance_cause, event.rebalance_ms) == (None, {})
    event = transition(group, Trigger.ASSIGNMENT_STORED, Moment(1_330, 1_330), CAUSE)
    assert event.phase_ms == {"CompletingRebalance": 20}
    assert event.rebalance_cause == "session_expired"
    assert event.rebalance_ms == {"PreparingRebalance": 300, "CompletingRebalance": 30}
    assert (group.rebalance_cause, group.rebalance_ms) == (None, {}), "the next one starts from zero"


def test_a_clients_reason_is_kept_but_not_at_any_length() -> None:
    member = Member("m-1", None, "client", "/10.0.0.1", 60_000, 10_000, ())
    assert Cause.by(member, CauseKind.MEMBER_LEFT).reason == "member left"
    assert Cause.by(member, CauseKind.MEMBER_LEFT, client_reason="").client_reason is None
    assert Cause.by(member, CauseKind.MEMBER_LEFT, "2 at once", "shutdown").reason == (
        "member left: 2 at once: shutdown"
    )
    long = Cause.by(member, CauseKind.MEMBER_LEFT, client_reason="y" * 10_000)
    assert long.client_reason == "y" * REASON_MAX_CHARS


def test_an_event_names_the_first_members_it_removes_and_counts_all() -> None:
    gone = tuple(f"m-{number}" for number in range(REMOVED_IDS_MAX + 5))
    row = new_row(Group("g", state=STABLE), AT, Cause(CauseKind.SYNC_TIMEOUT, removed=gone))
    event = worded(row)
    assert (event.from_state, event.to_state, event.phase_ms) == ("Stable", "Stable", {})
    assert (event.removed_count, event.removed_member_ids) == (len(gone), gone[:REMOVED_IDS_MAX])
    assert row.cause.removed == gone[:REMOVED_IDS_MAX], "a row is kept, and so is all that it refers to"
