"""The questions that the core may ask about topics; the shell implements them."""

from __future__ import annotations

from typing import Protocol


class TopicCatalog(Protocol):
    """The topics that exist at present."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of `topic`; None if there is no such topic."""
        ...

    def topic_id(self, topic: str) -> bytes | None:
        """The 16-byte id of `topic`; None if there is no such topic."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id; None if there is no such topic."""
        ...

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether a topic with this id existed and was deleted. False for unknown ids."""
        ...
