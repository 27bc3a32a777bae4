"""How many partitions the topics of a group had when it was last assigned, to see why a leader joins again.

The protocol does not say that a topic has grown: the leader sees it in the topic's metadata and joins again with
nothing changed. We know our topics as well, and so can see what is different; that it is why the leader
came is our guess. Soft state: after a restart the counts are those of the restart.
"""

from __future__ import annotations

from typing import Final

from coordinator.groups.classic.group import Group
from coordinator.topic_catalog import TopicCatalog

TOPICS_MAX: Final = 200
"""Topics of one group that are watched (entries of about 100 bytes, their names shared); the first by name."""

NAMED_MAX: Final = 3
"""Changed topics that a reason names."""


def count_partitions(group: Group, topics: TopicCatalog) -> None:
    """Note the partitions of the topics the group reads; none where its subscriptions cannot be read."""
    watched = sorted(group.subscribed_topics or ())[:TOPICS_MAX]
    group.assigned_counts = {topic: topics.partition_count(topic) for topic in watched}


def partition_changes(group: Group, topics: TopicCatalog) -> str:
    """What is different since `count_partitions`, as in "orders from 4 to 6"; "" if nothing is."""
    changes = [
        f"{topic} from {_shown(before)} to {_shown(now)}"
        for topic, before in group.assigned_counts.items()
        if (now := topics.partition_count(topic)) != before
    ]
    more = len(changes) - NAMED_MAX
    return ", ".join(changes[:NAMED_MAX]) + (f", and {more} more" if more > 0 else "")


def _shown(count: int | None) -> str:
    return "no topic" if count is None else str(count)
