"""`docs/states.md` is what the tables say, and leaves none of them out."""

from __future__ import annotations

import re
from enum import Enum

from coordinator.groups.classic import states
from coordinator.groups.classic.states import TRANSITIONS, GroupState, Trigger
from coordinator.groups.consumer.states import GroupState as ConsumerGroupState
from coordinator.groups.consumer.states import MemberState
from tools.state_diagram import ANSWERS, CONSUMER_STATES, MEMBER_STATES, PAGE, TRIGGERS, states_page

ARROW = re.compile(r"^    (\w+) --> (\w+): (.+)$", re.MULTILINE)


def test_the_page_of_states_is_fresh() -> None:
    assert PAGE.read_text() == states_page(), "run: python -m tools.state_diagram > docs/states.md"


def test_the_diagram_has_an_arrow_for_every_transition_and_no_other() -> None:
    drawn = {
        ((GroupState(before), Trigger(trigger)), GroupState(after))
        for before, after, triggers in ARROW.findall(states_page())
        for trigger in triggers.split(" or ")
    }
    assert drawn == set(TRANSITIONS.items())


def test_every_table_of_answers_is_on_the_page() -> None:
    tables = [
        table
        for table in vars(states).values()
        if isinstance(table, dict) and table and all(isinstance(key, GroupState) for key in table)
    ]
    assert tables
    assert all(any(table is shown for shown in ANSWERS.values()) for table in tables)
    assert len(ANSWERS) == len(tables)


def test_every_trigger_is_explained() -> None:
    members: set[Enum] = set(Trigger)
    assert TRIGGERS.keys() == members


def test_every_state_of_consumer_groups_and_their_members_is_explained() -> None:
    assert (set(CONSUMER_STATES), set(MEMBER_STATES)) == (set(ConsumerGroupState), set(MemberState))
    page = states_page()
    assert all(f"\n| {state.value} | " in page for state in (*ConsumerGroupState, *MemberState))
