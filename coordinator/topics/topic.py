"""A topic: a name, an id that no other topic ever had, its settings and its partitions."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.topics.names import is_internal
from coordinator.topics.partition import Partition
from coordinator.topics.topic_config import TopicConfig


@dataclass(slots=True)
class Topic:
    """One topic. `partitions` only ever grows; their index is their place in it."""

    name: str
    topic_id: bytes
    config: TopicConfig
    partitions: list[Partition]

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def partition(self, index: int) -> Partition | None:
        """The partition `index`, or None if the topic has none of that number."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
