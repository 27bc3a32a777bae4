"""The reasons that clients give (KIP-800), as Kafka's Java client 4.3.1 words them; what each of them means.

Java's consumer sends one with LeaveGroup from version 5 and with JoinGroup from version 8; a test finds each text
in its jar. librdkafka sends none, and the consumer protocol has no field for one.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Said(Enum):
    """What a client means by its reason: the beginning of the text, all of it for most."""

    POLL_TIMEOUT = "consumer poll timeout has expired."
    CLOSED = "the consumer is being closed"
    UNSUBSCRIBED = "the consumer unsubscribed from all topics"
    REMOVED_BY_ADMIN = "member was removed by an admin"
    REVOKE_FIRST = "need to revoke partitions and re-join"
    METADATA_CHANGED = "cached metadata has changed"
    SUBSCRIPTION_CHANGED = "subscription has changed"
    ASSIGNMENT_MISMATCH = "received assignment does not match the current subscription"
    ENFORCED = "rebalance enforced by user"
    ALREADY_REBALANCING = "group is already rebalancing"
    COMMIT_WHILE_REBALANCING = "offset commit failed since group is already rebalancing"
    GIVEN_AN_ID = "need to re-join with the given member-id: "
    FAILED = "rebalance failed due to "
    OVERTAKEN = "rebalance failed since the generation/state was modified by heartbeat thread to "
    ERROR_ANSWER = "encountered "


_SAYS_NOTHING: Final = frozenset((Said.GIVEN_AN_ID, Said.ALREADY_REBALANCING, Said.COMMIT_WHILE_REBALANCING))
"""How a member goes on joining, and not why it does."""


def meaning(client_reason: str | None) -> Said | None:
    """What the reason means; None if there is none, or it is the application's own text."""
    if not client_reason:
        return None
    return next((said for said in Said if client_reason.startswith(said.value)), None)


def is_telling(client_reason: str | None) -> bool:
    """Whether the reason says why: most JoinGroups only say that an id was handed out."""
    return bool(client_reason) and meaning(client_reason) not in _SAYS_NOTHING
