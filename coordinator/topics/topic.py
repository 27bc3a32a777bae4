"""A topic: a name, an id that no other topic ever had, its settings and its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.topic_catalog import TopicImage
from coordinator.topics.names import is_internal
from coordinator.topics.partition import Partition
from coordinator.topics.topic_config import TopicConfig


@dataclass(slots=True)
class Topic:
    """One topic. The list `partitions` only grows; a partition's position in it is the partition's index."""

    name: str
    topic_id: bytes
    config: TopicConfig
    partitions: list[Partition]
    image: TopicImage | None = field(default=None, compare=False, repr=False)  # As it was last asked for.

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def partition(self, index: int) -> Partition | None:
        """Return the partition `index`; None if the topic has no such partition."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None
