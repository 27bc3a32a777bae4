"""A partition of a topic by its name: the one type for it wherever a topic goes by name."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition; equal to, and ordered like, the plain pair of its topic and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
