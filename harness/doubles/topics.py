"""A catalogue of topics in a dict that a test changes, for the questions of groups and offsets about topics."""

from __future__ import annotations

from coordinator.topic_catalog import TopicImage


def topic_id_of(number: int) -> bytes:
    """A topic id made of `number`, which is easy to recognize in a failure."""
    return number.to_bytes(16, "big")


class Topics:
    """A TopicCatalog of a few topics."""

    def __init__(self, **partition_counts: int) -> None:
        self._counts = partition_counts
        self._ids = {name: topic_id_of(i) for i, name in enumerate(partition_counts, start=1)}
        self.deleted_ids: set[bytes] = set()
        self.version = self.version_with_new_topics = 1

    def names(self) -> tuple[str, ...]:
        return tuple(self._counts)

    def image(self, name: str) -> TopicImage | None:
        count = self._counts.get(name)
        return None if count is None else TopicImage(name, self._ids[name], ((),) * count)

    def partition_count(self, topic: str) -> int | None:
        return self._counts.get(topic)

    def topic_id(self, topic: str) -> bytes | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self.deleted_ids

    def grow(self, name: str, partition_count: int) -> None:
        """Give the topic this partition count; create the topic if it does not exist."""
        self.version += 1
        if name not in self._counts:
            self.version_with_new_topics = self.version
        self._counts[name] = partition_count
        self._ids.setdefault(name, topic_id_of(len(self._ids) + 1))

    def forget(self, name: str) -> None:
        """Delete the topic."""
        self.deleted_ids.add(self._ids.pop(name))
        del self._counts[name]
        self.version += 1

    def recreate(self, name: str, topic_id: bytes) -> None:
        """Delete the topic and create it again under `topic_id`."""
        self.deleted_ids.add(self._ids[name])
        self._ids[name] = topic_id
        self.version += 1
        self.version_with_new_topics = self.version
