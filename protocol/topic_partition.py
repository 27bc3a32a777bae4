"""A partition of a topic by its name: the one type for it, in the log, on the command line and in jobs."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition, by topic and index; equal to, and ordered like, the plain pair of them."""

    topic: str
    partition: int

    @property
    def directory_name(self) -> str:
        """The name of the partition's directory in a log directory: topic, hyphen and index."""
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        return self.directory_name
