"""The existing topics by name and by id: the part of the registry that groups and most APIs read.

The registry adds a topic when it is durable, and removes a topic when it is deleted; reading never waits. To
the groups it is their `TopicCatalog`.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.topic_catalog import TopicImage
from coordinator.topics.partition import Partition
from coordinator.topics.topic import Topic


class TopicLookup:
    """Read access to the topics of one log directory. All methods run on the event-loop thread."""

    def __init__(self, rack: str | None = None) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._racks = () if rack is None else (rack,)  # Of each partition's one replica.
        self.version = self.version_with_new_topics = 0

    def names(self) -> Iterable[str]:
        return self._by_name.keys()

    def image(self, name: str) -> TopicImage | None:
        found = self._by_name.get(name)
        if found is None:
            return None
        image, count = found.image, len(found.partitions)
        if image is None or len(image.racks_by_partition) != count:
            image = found.image = TopicImage(name, found.topic_id, (self._racks,) * count)
        return image

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Return every topic, in the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partitions(self) -> list[Partition]:
        """Return the partitions of every topic, in the order of `all`."""
        return [partition for topic in self.all() for partition in topic.partitions]

    def partition(self, topic: str, index: int) -> Partition | None:
        found = self._by_name.get(topic)
        return None if found is None else found.partition(index)

    def partition_count(self, topic: str) -> int | None:
        found = self._by_name.get(topic)
        return None if found is None else len(found.partitions)

    def topic_id(self, topic: str) -> bytes | None:
        found = self._by_name.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self._by_id.get(topic_id)
        return None if found is None else found.name
