"""The states of a consumer group and of its members, as they are shown and stored (KIP-848, A22).

A group's state is not kept: it follows from epochs and members. A member's is kept in its record.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum, unique
from typing import Final


@unique
class MemberState(IntEnum):
    """What a member waits for, by the byte that its record has."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # It has not confirmed yet that it gave up what it has to give up.
    UNRELEASED_PARTITIONS = 2  # Others still hold partitions that it is to have.
    UNKNOWN = 127  # A state that a later version wrote.

    @classmethod
    def of_byte(cls, byte: int) -> MemberState:
        return _OF_BYTE.get(byte, cls.UNKNOWN)


_OF_BYTE: Final[dict[int, MemberState]] = {state.value: state for state in MemberState}


@unique
class GroupState(Enum):
    """A group's state, by the name that is shown. Dead is none of them: a group that was deleted is not found."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


def group_state(
    group_epoch: int, assignment_epoch: int, members: Iterable[tuple[MemberState, int]]
) -> GroupState:
    """Return the state of a group of which each member is in a state and at an epoch."""
    members = list(members)
    if not members:
        return GroupState.EMPTY
    if group_epoch > assignment_epoch:
        return GroupState.ASSIGNING
    if any(member != (MemberState.STABLE, assignment_epoch) for member in members):
        return GroupState.RECONCILING
    return GroupState.STABLE
