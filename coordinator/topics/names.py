"""The names that a topic may have, and the names of the daemon's own topics. Pure functions of names."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode

MAX_NAME_LENGTH: Final = (
    249  # A directory is called `<topic>-<partition>`, and may get a suffix when deleted.
)
LEGAL_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
GROUP_EVENTS_TOPIC: Final = "__group_events"
SHARE_STATE_TOPIC: Final = "__share_group_state"  # Kafka's; nothing writes to it here.
CLUSTER_METADATA_TOPIC: Final = (
    "__cluster_metadata"  # The name of Kafka's metadata log, which no client makes.
)
INTERNAL_TOPICS: Final = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, GROUP_EVENTS_TOPIC, SHARE_STATE_TOPIC}
)
"""Topics that clients may read but not write, and that subscriptions by pattern leave out."""

SHARD_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
"""Topics whose partitions are each the log of one shard of a coordinator, which alone appends and recovers it."""


def name_problem(name: str) -> str | None:
    """Return, in words, why `name` cannot be a topic's name (INVALID_TOPIC_EXCEPTION); None if it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not LEGAL_CHARACTERS.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Return the key that colliding names share: metrics do not distinguish '.' and '_'."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def reserved_problem(name: str) -> str | None:
    """Return, in words, why no client may create a topic of this name; None if one may."""
    if is_internal(name):
        return "internal topics are made by the daemon"
    return "it is the metadata log's name" if name == CLUSTER_METADATA_TOPIC else None


def missing_topic_error(name: str) -> ErrorCode:
    """Return the error for a topic that does not exist: INVALID_TOPIC_EXCEPTION if its name is not valid."""
    invalid = name_problem(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
