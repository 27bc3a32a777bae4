"""Partition counts of a group's topics at its last assignment, to see why a leader joins again.

The protocol does not say that a topic has grown: the leader sees it in the topic's metadata and joins again with
the same topics (Java's sends its generation beside them, which is another one). The daemon knows its topics as
well, so it can see what changed since; that this is why the leader rejoined is a guess. Soft state: after a
restart the counts are those of the restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol
from coordinator.topic_catalog import TopicCatalog
from protocol.consumer import decode_subscription
from protocol.errors import DecodeError

TOPICS_MAX: Final = 200
"""The most topics of one group whose counts are kept, the first by name (about 100 bytes each, names shared)."""

NAMED_MAX: Final = 3
"""The most changed topics that one reason names."""


def count_partitions(group: Group, topics: TopicCatalog) -> None:
    """Set `group.assigned_counts` for the topics it subscribes to; empty if subscriptions cannot be decoded."""
    watched = sorted(group.subscribed_topics or ())[:TOPICS_MAX]
    group.assigned_counts = {topic: topics.partition_count(topic) for topic in watched}


def partition_changes(group: Group, topics: TopicCatalog) -> str:
    """Return what changed since `count_partitions`, as in "orders from 4 to 6"; "" if nothing did."""
    changes = [
        f"{topic} from {_count_text(before)} to {_count_text(now)}"
        for topic, before in group.assigned_counts.items()
        if (now := topics.partition_count(topic)) != before
    ]
    more = len(changes) - NAMED_MAX
    return ", ".join(changes[:NAMED_MAX]) + (f", and {more} more" if more > 0 else "")


def subscribes_as_before(group: Group, member: Member, protocols: Iterable[OfferedProtocol]) -> bool:
    """Whether `protocols` name the topics that the member subscribes to; False if they cannot be decoded."""
    if not group.uses_consumer_protocol:
        return False
    try:
        before, now = (
            {name: frozenset(decode_subscription(metadata).topics) for name, metadata in offered}
            for offered in (member.protocols, protocols)
        )
    except DecodeError:
        return False
    return before == now


def _count_text(count: int | None) -> str:
    return "no topic" if count is None else str(count)
