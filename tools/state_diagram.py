"""Writes `docs/states.md`: how a classic group moves, drawn from the table of transitions, and answers by state.

Beside that: what the states of a consumer group and of its members mean.

    python -m tools.state_diagram > docs/states.md

A test holds the page fresh, and that no table of answers is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from coordinator.groups.classic.states import (
    COMMIT_ANSWER,
    DELETE_ANSWER,
    EMPTY,
    HEARTBEAT_ANSWER,
    PROTOCOL_DESCRIBED,
    SYNC_ANSWER,
    TRANSITIONS,
    GroupState,
    Trigger,
)
from coordinator.groups.consumer.states import GroupState as ConsumerGroupState
from coordinator.groups.consumer.states import MemberState
from protocol.errors import ErrorCode

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "states.md"

TRIGGERS: Final = {
    Trigger.MEMBERSHIP_CHANGED: "a member came, left, fell silent or offers something new, or the leader rejoined",
    Trigger.JOIN_COMPLETED: "all members rejoined, or the time to rejoin is over; the generation goes up by one",
    Trigger.GROUP_EMPTIED: "no members remain; the generation goes up by one",
    Trigger.ASSIGNMENT_STORED: "the leader's assignment is durable: from now on a restart keeps the generation",
    Trigger.ASSIGNMENT_FAILED: "the log would not take the assignment",
    Trigger.GROUP_REMOVED: "deleted, or nothing was left of it",
}
ANSWERS: Final[dict[str, Mapping[GroupState, ErrorCode | bool]]] = {
    "Heartbeat of a member, in the group's generation": HEARTBEAT_ANSWER,
    "SyncGroup of a member, in the group's generation": SYNC_ANSWER,
    "OffsetCommit of a client that may commit at all": COMMIT_ANSWER,
    "DeleteGroups; OffsetDelete, if the members are not consumers": DELETE_ANSWER,
    "DescribeGroups: is the protocol reported": PROTOCOL_DESCRIBED,
}
"""Every table of `states` that has answers to clients, by its title on the page."""

CONSUMER_STATES: Final = {
    ConsumerGroupState.EMPTY: "it has no members",
    ConsumerGroupState.ASSIGNING: "its epoch is above the target's: a target is yet to be computed",
    ConsumerGroupState.RECONCILING: "some member is not stable, or not at the target's epoch: it gives something "
    "up, waits for others that do, or has not sent a heartbeat since; a static member that left for now is at -2",
    ConsumerGroupState.STABLE: "all members are stable, at the target's epoch: each has what it is to have",
}
MEMBER_STATES: Final = {
    MemberState.STABLE: "it has all of its target, that of its epoch",
    MemberState.UNREVOKED_PARTITIONS: "it has not confirmed yet that it gave up what it has to give up",
    MemberState.UNRELEASED_PARTITIONS: "others still hold partitions that it is to have",
    MemberState.UNKNOWN: "a later version wrote it; a member that then owns something is fenced",
}

_HEAD: Final = """\
# States of groups

Written by `python -m tools.state_diagram`. A group is of one kind at a time, classic or consumer (KIP-848), and
may become one of the other kind.

## Classic groups

What the code looks up, drawn from the tables in [states.py](../coordinator/groups/classic/states.py). As long as a
group is classic nothing else moves it, and a step that is not drawn stops the shard. After a restart it begins as
Stable, or as Empty if it has no members. A consumer group that becomes a classic one begins as Stable, and
rebalances at once unless a static member has only taken its place again; a classic group that becomes a
consumer group ends, in whatever state it is.
"""
_BETWEEN: Final = """\
### Answers that depend on nothing but the state

For requests that are not refused for another reason first: an unknown member id (25), another holder of the
instance id (82), another generation (22). A group that is gone is not asked any more: no client meets a Dead one,
and Dead is what DescribeGroups calls whatever is not there.
"""

_CONSUMER_GROUPS: Final = """\
## Consumer groups

The state of a consumer group is kept nowhere: it follows from epochs and members
([states.py](../coordinator/groups/consumer/states.py)), after a restart as before. The first of these that
holds is the group's:
"""
_MEMBERS: Final = """\
A member's state stands in its record, as a number:
"""


def states_page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD, "\n".join(_diagram()), "\n".join(_triggers()), _BETWEEN, "\n".join(_answers())]
    parts += [_CONSUMER_GROUPS, "\n".join(_consumer_states()), _MEMBERS, "\n".join(_member_states())]
    return "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def _diagram() -> Iterator[str]:
    """A state diagram in Mermaid; several triggers between the same two states share an arrow."""
    arrows: dict[tuple[GroupState, GroupState], list[str]] = {}
    for (state, trigger), after in TRANSITIONS.items():
        arrows.setdefault((state, after), []).append(trigger.value)
    yield from ("```mermaid", "stateDiagram-v2", f"    [*] --> {EMPTY.value}")
    for (state, after), triggers in arrows.items():
        yield f"    {state.value} --> {after.value}: {' or '.join(triggers)}"
    yield "```"


def _triggers() -> Iterator[str]:
    yield from ("| step | what it is |", "|---|---|")
    for trigger in Trigger:
        yield f"| {trigger.value} | {TRIGGERS[trigger]} |"


def _answers() -> Iterator[str]:
    yield f"| request | {' | '.join(state.value for state in GroupState)} |"
    yield "|---" * (len(GroupState) + 1) + "|"
    for request, table in ANSWERS.items():
        yield f"| {request} | {' | '.join(_shown(table[state]) for state in GroupState)} |"


def _consumer_states() -> Iterator[str]:
    yield from ("| state | when |", "|---|---|")
    for state in ConsumerGroupState:
        yield f"| {state.value} | {CONSUMER_STATES[state]} |"


def _member_states() -> Iterator[str]:
    yield from ("| | state | what it means |", "|---|---|---|")
    for state in MemberState:
        yield f"| {state.value} | {state.name.lower().replace('_', ' ')} | {MEMBER_STATES[state]} |"


def _shown(answer: ErrorCode | bool) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return "0" if answer is ErrorCode.NONE else f"{answer.name} ({answer.value})"


if __name__ == "__main__":
    print(states_page(), end="")
