"""The state that handlers of offset requests work on: the groups and committed offsets of one shard."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.shard_groups import ConsumerGroups, ConsumerGroupSettings
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import CommittedOffsets
from coordinator.topic_catalog import TopicCatalog


@dataclass(eq=False, slots=True)
class CommitVerification:
    """One verification of a commit by the transaction coordinator, kept until its answer has been used."""

    producer_id: int
    is_outdated: bool = False  # A marker has ended the transaction meanwhile.


class ShardOffsets(ShardGroups):
    """The groups of one shard, of all kinds, committed offsets, and the verifications of commits under way."""

    def __init__(
        self, settings: GroupSettings, topics: TopicCatalog, consumer_settings: ConsumerGroupSettings
    ) -> None:
        super().__init__(settings, topics)
        self.consumers = ConsumerGroups(consumer_settings, topics, self.groups)
        self.other_kinds = self.consumers.groups
        self.offsets = CommittedOffsets()
        self.verifications: set[CommitVerification] = set()

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group with this id."""
        return self.consumers.groups.get(group_id)
