"""The states of a classic group, what moves it from one to another, and what a state alone decides.

All of it is data: a group moves along a row of TRANSITIONS or not at all (`transition`), and an answer that
depends on nothing but the state is looked up in a table. Nothing here knows a group or a request.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from protocol.errors import ErrorCode


class GroupState(Enum):
    """The state of a group. The values are Kafka's names, as DescribeGroups shows them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    # Members are unique. Enum's own hash is a call in Python, and every heartbeat looks a state up.
    __hash__ = object.__hash__

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is under way in this state."""
        return self in REBALANCING


class Trigger(Enum):
    """What can move a group to another state."""

    MEMBERSHIP_CHANGED = "membership changed"  # A member joined, left, or changed its protocols.
    JOIN_COMPLETED = "join completed"
    GROUP_EMPTIED = "group emptied"
    ASSIGNMENT_STORED = "assignment stored"
    ASSIGNMENT_FAILED = "assignment failed"  # It could not be stored.
    GROUP_REMOVED = "group removed"


EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD
REBALANCING: Final = frozenset((PREPARING_REBALANCE, COMPLETING_REBALANCE))

TRANSITIONS: Final[dict[tuple[GroupState, Trigger], GroupState]] = {
    (EMPTY, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (STABLE, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (COMPLETING_REBALANCE, Trigger.MEMBERSHIP_CHANGED): PREPARING_REBALANCE,
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_FAILED): PREPARING_REBALANCE,
    (PREPARING_REBALANCE, Trigger.JOIN_COMPLETED): COMPLETING_REBALANCE,
    (PREPARING_REBALANCE, Trigger.GROUP_EMPTIED): EMPTY,
    (COMPLETING_REBALANCE, Trigger.ASSIGNMENT_STORED): STABLE,
    **{(state, Trigger.GROUP_REMOVED): DEAD for state in GroupState},
}

HEARTBEAT_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,  # Members send heartbeats between JoinGroup and SyncGroup (3.53).
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The error that answers a Heartbeat of a member with the right generation."""

SYNC_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,  # Taken, and parked until the leader's assignment is stored.
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The error that answers a SyncGroup of a member with the right generation; NONE: it is served."""

COMMIT_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NONE,  # Members commit what they read before they give it up (O7).
    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The error that answers an OffsetCommit whose member id and generation are right."""

DELETE_ANSWER: Final[dict[GroupState, ErrorCode]] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    STABLE: ErrorCode.NON_EMPTY_GROUP,
    DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}
"""The error that answers DeleteGroups; for OffsetDelete, a group of consumers is not refused NON_EMPTY_GROUP."""


PROTOCOL_DESCRIBED: Final[dict[GroupState, bool]] = {
    EMPTY: False,
    PREPARING_REBALANCE: False,
    COMPLETING_REBALANCE: False,  # Chosen, and not yet in force.
    STABLE: True,
    DEAD: False,
}
"""Whether DescribeGroups shows the protocol, and each member's metadata for it."""
