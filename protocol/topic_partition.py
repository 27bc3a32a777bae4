"""The name of a partition: one type for it wherever topics have partitions."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of a topic, by the topic's name and the partition's index in it."""

    topic: str
    partition: int

    @property
    def directory_name(self) -> str:
        """The name of its directory in a data directory, with a hyphen between topic and index."""
        return f"{self.topic}-{self.partition}"
