"""The tables of states: complete, and the only way a group moves."""

from __future__ import annotations

from itertools import product

import pytest

from coordinator.groups.effects import GroupEvent, Moment
from coordinator.groups.group import Group
from coordinator.groups.member import Member
from coordinator.groups.states import (
    COMMIT_ANSWER,
    COMPLETING_REBALANCE,
    DEAD,
    DELETE_ANSWER,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    REASON_MAX_CHARS,
    STABLE,
    SYNC_ANSWER,
    TRANSITIONS,
    Cause,
    GroupState,
    IllegalTransition,
    Trigger,
    transition,
    with_client_reason,
)

AT = Moment(now_ms=5_000, wall_ms=1_700_000_000_000)
PAIRS = list(product(GroupState, Trigger))
TO_PREPARING = {
    (EMPTY, Trigger.MEMBERSHIP_CHANGED),
    (STABLE, Trigger.MEMBERSHIP_CHANGED),
    (COMPLETING_REBALANCE, Trigger.MEMBERSHIP_CHANGED),
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_FAILED),
}


def expected_state(state: GroupState, trigger: Trigger) -> GroupState | None:
    """The diagram of Kafka's classic group, written down a second time."""
    if trigger is Trigger.GROUP_REMOVED:
        return DEAD
    if (state, trigger) in TO_PREPARING:
        return PREPARING_REBALANCE
    if state is PREPARING_REBALANCE:
        return {Trigger.JOIN_COMPLETED: COMPLETING_REBALANCE, Trigger.NOBODY_JOINED: EMPTY}.get(trigger)
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
            transition(group, trigger, AT, Cause("test"))
        assert group.state is state
    else:
        transition(group, trigger, AT, Cause("test"))
        assert group.state is after


@pytest.mark.parametrize("table", [HEARTBEAT_ANSWER, SYNC_ANSWER, COMMIT_ANSWER, DELETE_ANSWER])
def test_every_answer_table_has_an_answer_for_every_state(table: dict[GroupState, object]) -> None:
    assert table.keys() == set(GroupState)


def test_no_row_of_the_transitions_is_unknown_to_the_diagram() -> None:
    assert {pair for pair in PAIRS if expected_state(*pair)} == TRANSITIONS.keys()


def test_a_transition_tells_who_made_it_and_how_long_the_phase_took() -> None:
    member = Member("m-1", "i-1", "client", "/10.0.0.1", 60_000, 10_000, ())
    group = Group("g", state=STABLE, generation_id=7, state_since_ms=1_500)
    group.add(member, "consumer")
    event = transition(group, Trigger.MEMBERSHIP_CHANGED, AT, Cause.by(member, "session expired"))
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
        last_member_id=None,
    )
    assert (group.state_since_ms, group.state_wall_ms) == (AT.now_ms, AT.wall_ms)


def test_a_phase_that_waited_for_members_names_the_last_to_come() -> None:
    group = Group("g", state=PREPARING_REBALANCE, last_arrival="m-9")
    assert transition(group, Trigger.JOIN_COMPLETED, AT, Cause("all")).last_member_id == "m-9"
    assert transition(group, Trigger.ASSIGNMENT_STORED, AT, Cause("stored")).last_member_id is None
    group.last_arrival = "m-1"  # It joins again, and by that begins a phase: it came, nobody came last.
    assert transition(group, Trigger.MEMBERSHIP_CHANGED, AT, Cause("rejoined")).last_member_id is None
    assert transition(group, Trigger.JOIN_COMPLETED, AT, Cause("all")).last_member_id == "m-1"


def test_a_clients_reason_is_kept_but_not_at_any_length() -> None:
    assert with_client_reason("member left", None) == "member left"
    assert with_client_reason("member left", "shutdown") == "member left: shutdown"
    assert with_client_reason("x", "y" * 10_000) == "x: " + "y" * REASON_MAX_CHARS
