"""The hash by which a consumer group knows that its topics are others than they were (A43).

It is stored with the group's epoch, so it has to be the number that a broker would compute: XXH3 of 64 bits,
over the topics that exist, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from coordinator.groups.consumer.java_order import java_sorted, utf16_units
from coordinator.topic_catalog import TopicImage

NO_TOPICS: Final = 0
"""The hash of a group none of whose topics exists."""

MOST_KEPT: Final = 10_000
"""Topics whose hashes are kept, some MB; with one more all are forgotten, also those of topics that are gone."""

_INT32: Final = Struct("<i")
_VERSION: Final = b"\0"


def topic_hash(topic: TopicImage) -> int:
    """Return the hash of one topic, signed."""
    parts = [_VERSION, topic.topic_id[7::-1], topic.topic_id[:7:-1], *_string(topic.name)]
    count = len(topic.racks_by_partition)
    parts.append(_INT32.pack(count))
    if not any(topic.racks_by_partition):  # As a rule, and ten times as quick.
        parts.append(Struct(f"<{count}i").pack(*range(count)))
        return _signed(xxh3_64_intdigest(b"".join(parts)))
    for partition, racks in enumerate(topic.racks_by_partition):
        parts.append(_INT32.pack(partition))
        for rack in java_sorted(racks):
            parts += (_INT32.pack(len(utf16_units(rack)) // 2), *_string(rack))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


class TopicHashes:
    """The hashes of topics, each kept for as long as its topic stays as it is, as a broker keeps them.

    Every join asks for the hash of its group, and that of a topic takes as long as its partitions are many.
    """

    __slots__ = ("_kept", "_most_kept")

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._kept: dict[str, tuple[TopicImage, int]] = {}
        self._most_kept = most_kept

    def of_group(self, topics: Iterable[TopicImage]) -> int:
        """Return the hash of a group that subscribes to these topics, signed; NO_TOPICS if there are none."""
        topics = list(topics)
        names = [topic.name for topic in topics]
        in_order = java_sorted(names)
        if in_order != names:
            by_name = dict(zip(names, topics, strict=True))
            topics = [by_name[name] for name in in_order]
        hashes = list(map(self.of_topic, topics))
        if not hashes:
            return NO_TOPICS
        return _signed(xxh3_64_intdigest(Struct(f"<{len(hashes)}q").pack(*hashes)))

    def of_topic(self, topic: TopicImage) -> int:
        """Return the hash of a topic, and keep it. Two threads may ask at once: each would keep the same."""
        kept = self._kept.get(topic.name)
        if kept is None or (kept[0] is not topic and kept[0] != topic):
            if len(self._kept) >= self._most_kept:
                self._kept.clear()
            kept = self._kept[topic.name] = (topic, topic_hash(topic))
        return kept[1]


def _string(text: str) -> tuple[bytes, bytes]:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded, _INT32.pack(len(encoded) // 2)


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >= 1 << 63 else digest
