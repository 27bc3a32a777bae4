"""A catalogue of topics in a dict, which a test changes: what groups and offsets ask about topics."""

from __future__ import annotations


def topic_id_of(number: int) -> bytes:
    """A topic id that differs from that of any other number."""
    return number.to_bytes(16, "big")


class Topics:
    """A TopicCatalog of a few topics."""

    def __init__(self, **partition_counts: int) -> None:
        self._counts = partition_counts
        self._ids = {name: topic_id_of(i) for i, name in enumerate(partition_counts, start=1)}
        self.deleted_ids: set[bytes] = set()

    def partition_count(self, topic: str) -> int | None:
        return self._counts.get(topic)

    def topic_id(self, topic: str) -> bytes | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self.deleted_ids

    def grow(self, name: str, partition_count: int) -> None:
        """The topic has so many partitions from now on, and is made if it is not there."""
        self._counts[name] = partition_count
        self._ids.setdefault(name, topic_id_of(len(self._ids) + 1))

    def forget(self, name: str) -> None:
        """The topic is gone."""
        self.deleted_ids.add(self._ids.pop(name))
        del self._counts[name]

    def recreate(self, name: str, topic_id: bytes) -> None:
        """The topic is deleted and made again, under another id."""
        self.deleted_ids.add(self._ids[name])
        self._ids[name] = topic_id
