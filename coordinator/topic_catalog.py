"""The questions that the core may ask about topics; the shell implements them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic's id (16 bytes), and for each partition the racks of its replicas."""

    name: str
    topic_id: bytes
    racks_by_partition: Sequence[Sequence[str]]


class TopicImages(Protocol):
    """The topics that exist at present, as consumer groups look at them."""

    @property
    def version(self) -> int:
        """A number that rises whenever a topic is made, grows or is deleted."""
        ...

    @property
    def version_with_new_topics(self) -> int:
        """The version in which a topic was last made."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...

    def image(self, name: str) -> TopicImage | None:
        """Return the topic of this name; None if there is none."""
        ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id; None if there is no such topic."""
        ...


class TopicCatalog(TopicImages, Protocol):
    """The topics that exist at present."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of `topic`; None if there is no such topic."""
        ...

    def topic_id(self, topic: str) -> bytes | None:
        """The 16-byte id of `topic`; None if there is no such topic."""
        ...

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether a topic with this id existed and was deleted. False for unknown ids."""
        ...
