"""The topics of the simulation: they grow, go, and come again under another id, which is never used twice."""

from __future__ import annotations

from collections import defaultdict

from harness.doubles.topics import Topics, topic_id_of


class Catalogue(Topics):
    """A TopicCatalog that also knows what every id was once called."""

    def __init__(self, **partition_counts: int) -> None:
        super().__init__(**partition_counts)
        self._names_ever = {topic_id: name for name, topic_id in self._ids.items()}
        self.lives: defaultdict[str, int] = defaultdict(int)
        """How often each topic has been deleted."""

    def name_ever(self, topic_id: bytes) -> str:
        """What the topic with this id is called, or was."""
        return self._names_ever[topic_id]

    def delete(self, name: str) -> bytes:
        """The topic is gone; its id."""
        topic_id = self._ids[name]
        self.forget(name)
        self.lives[name] += 1
        return topic_id

    def make(self, name: str, partition_count: int) -> None:
        """There is such a topic, of an id of its own."""
        self._counts[name] = partition_count
        self._ids[name] = topic_id_of(len(self._names_ever) + 1)
        self._names_ever[self._ids[name]] = name
        self.version += 1
        self.version_with_new_topics = self.version
