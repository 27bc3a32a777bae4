"""The state that handlers of offset requests work on: the groups and committed offsets of one shard."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.groups.classic.shard_groups import ShardGroups
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import CommittedOffsets
from coordinator.topic_catalog import TopicCatalog


@dataclass(eq=False, slots=True)
class CommitVerification:
    """One verification of a commit by the transaction coordinator, kept until its answer has been used."""

    producer_id: int
    is_outdated: bool = False  # A marker has ended the transaction meanwhile.


class ShardOffsets(ShardGroups):
    """The groups of one shard, their committed offsets, and the verifications of commits under way."""

    def __init__(self, settings: GroupSettings, topics: TopicCatalog) -> None:
        super().__init__(settings, topics)
        self.offsets = CommittedOffsets()
        self.verifications: set[CommitVerification] = set()
