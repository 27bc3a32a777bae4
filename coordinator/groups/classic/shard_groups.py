"""The state that handlers of group requests work on: the groups of one shard, its settings and topics."""

from __future__ import annotations

from collections.abc import Container

from coordinator.groups.classic.group import Group
from coordinator.groups.group_settings import GroupSettings
from coordinator.topic_catalog import TopicCatalog


class ShardGroups:
    """The living groups of one shard, by group id, with the settings and topics of its daemon."""

    def __init__(self, settings: GroupSettings, topics: TopicCatalog) -> None:
        self.groups: dict[str, Group] = {}
        self.other_kinds: Container[str] = ()  # The ids of groups that are no classic ones.
        self.settings = settings
        self.topics = topics
