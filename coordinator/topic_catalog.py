"""What the core may ask about topics. Who knows the answers is the shell's business."""

from __future__ import annotations

from typing import Protocol


class TopicCatalog(Protocol):
    """The topics there are at present."""

    def partition_count(self, topic: str) -> int | None:
        """How many partitions `topic` has; None if there is no such topic."""
        ...

    def topic_id(self, topic: str) -> bytes | None:
        """The 16-byte id of `topic`; None if there is no such topic."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id; None if there is none."""
        ...

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether there was a topic with this id, and is no longer. False for ids that are not known."""
        ...
