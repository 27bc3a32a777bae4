"""The topics of the cluster as shards ask about them: learned from its answers, with the time as an argument.

That a topic is there is believed at once, that it is gone is not: offsets are removed with it, and an answer that
lacks it may come from a broker that has not heard of it yet, or may not show it. Its id has to be unknown twice.
What a request names and is not known here is asked about before the request is answered (`ask_first`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from coordinator.topic_catalog import TopicImage
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

WANTED_MAX: Final = 1_000
"""Unknown names and ids that clients gave, remembered until they are asked about; of either so many."""
REMEMBERED_DELETIONS: Final = 10_000

OnDeleted = Callable[[str, bytes], None]
"""Called with the name and the id of a topic that is gone; without a name for one that was never seen here."""


class NamedTopic(NamedTuple):
    """A topic as a request names it: by its name, or by its id and without one."""

    name: str
    topic_id: bytes
    partition_count: int
    """At least so many partitions are named."""


class ClusterTopics:
    """A TopicCatalog of another cluster's topics. What it does not know yet it wants to be asked about.

    `confirm_ms` after an id was unknown it has to be unknown still: a broker hears of a new topic sooner.
    """

    def __init__(self, on_deleted: OnDeleted, confirm_ms: int) -> None:
        self._images: dict[str, TopicImage] = {}
        self._names: dict[bytes, str] = {}
        self._doubts: dict[bytes, int | None] = {}  # When an id was unknown first, if it was.
        self._deleted_ids: dict[bytes, None] = {}
        self._wanted: dict[str, None] = {}
        self._wanted_ids: dict[bytes, None] = {}
        self._waiting: list[Callable[[], None]] = []
        self._on_deleted = on_deleted
        self._confirm_ms = confirm_ms
        self.on_wanted: Callable[[], None] = _nothing
        """Called when there is something to be asked about."""
        self.version = self.version_with_new_topics = 0

    # What shards ask (TopicCatalog).

    def names(self) -> Iterable[str]:
        return self._images.keys()

    def image(self, name: str) -> TopicImage | None:
        found = self._images.get(name)
        if found is None:
            self._want(name)
        return found

    def partition_count(self, topic: str) -> int | None:
        found = self.image(topic)
        return None if found is None else len(found.racks_by_partition)

    def topic_id(self, topic: str) -> bytes | None:
        found = self.image(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether a topic of this id is gone. One that is not known here is in doubt: it may have gone before."""
        if topic_id in self._deleted_ids:
            return True
        if topic_id not in self._names and topic_id != ZERO_UUID:
            self._doubt(topic_id)
        return False

    def doubt(self, topic_id: bytes) -> None:
        """A broker has said that this topic is not there: ask about it, as about what a list lacks."""
        if topic_id in self._names:
            self._doubt(topic_id)

    def _doubt(self, topic_id: bytes) -> None:
        if topic_id not in self._doubts:
            self._doubts[topic_id] = None
            self.on_wanted()

    def ask_first(self, named: Iterable[NamedTopic], then: Callable[[], None]) -> bool:
        """Have the cluster asked about what is not known of these topics; `then` is called once it was.

        Returns False, and has nothing asked, if all is known.
        """
        lacking = [topic for topic in named if self._lacks(topic)]
        if not lacking:
            return False
        for topic in lacking:
            self._want(topic.name or self._names.get(topic.topic_id, ""), topic.topic_id)
        self._waiting.append(then)
        return True

    def _lacks(self, topic: NamedTopic) -> bool:
        name = topic.name or self._names.get(topic.topic_id)
        if name is None:
            return topic.topic_id != ZERO_UUID and topic.topic_id not in self._deleted_ids
        image = self._images.get(name)
        return image is None or len(image.racks_by_partition) < topic.partition_count

    def _want(self, name: str, topic_id: bytes = ZERO_UUID) -> None:
        if name and name not in self._wanted and len(self._wanted) < WANTED_MAX:
            self._wanted[name] = None
            self.on_wanted()
        elif not name and topic_id not in self._wanted_ids and len(self._wanted_ids) < WANTED_MAX:
            self._wanted_ids[topic_id] = None
            self.on_wanted()

    # What is asked of the cluster.

    def wanted(self) -> list[str]:
        """The names to be asked about, each once: what is unknown still will be wanted again."""
        wanted, self._wanted = self._wanted, {}
        return list(wanted)

    def wanted_ids(self) -> list[bytes]:
        """As `wanted`, of those that were given by their ids."""
        wanted, self._wanted_ids = self._wanted_ids, {}
        return list(wanted)

    def waiting(self) -> list[Callable[[], None]]:
        """Who is to be called when what is wanted now was asked about, whatever came of it; each once."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def doubts(self, now_ms: int) -> list[bytes]:
        """The ids of topics that may be gone and whose time to be asked about has come."""
        return [topic_id for topic_id in self._doubts if now_ms >= self._due_ms(topic_id)]

    @property
    def next_doubt_ms(self) -> int | None:
        """When the next of them is to be asked about; None: all are known."""
        return min(map(self._due_ms, self._doubts), default=None)

    def _due_ms(self, topic_id: bytes) -> int:
        since_ms = self._doubts[topic_id]
        return 0 if since_ms is None else since_ms + self._confirm_ms

    # What it answers.

    def learn_all(self, answer: MetadataResponse) -> None:
        """Take in a list of all topics. What it lacks is in doubt."""
        self.learn(answer)
        listed = {topic.topic_id for topic in answer.topics}
        for topic_id in self._names.keys() - listed:
            self._doubts.setdefault(topic_id, None)

    def learn(self, answer: MetadataResponse) -> None:
        """Take in the topics of an answer without an error; one that is known here and not there is in doubt."""
        racks = {broker.node_id: broker.rack for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name and topic.topic_id != ZERO_UUID:
                self._learn(TopicImage(topic.name, topic.topic_id, _racks(topic, racks)))
            elif topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name in self._images:
                self.doubt(self._images[topic.name].topic_id)

    def judge(self, answer: MetadataResponse, now_ms: int) -> None:
        """Take in what was answered about ids in doubt: what is unknown twice, long enough apart, is gone."""
        self.learn(answer)
        for topic in answer.topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID or topic.topic_id not in self._doubts:
                continue
            if self._doubts[topic.topic_id] is None:
                self._doubts[topic.topic_id] = now_ms
            elif now_ms >= self._due_ms(topic.topic_id):
                self._forget(topic.topic_id)

    def _learn(self, image: TopicImage) -> None:
        before = self._images.get(image.name)
        self._doubts.pop(image.topic_id, None)
        if before == image or image.topic_id in self._deleted_ids or _is_older(image, before):
            return
        self.version += 1
        if before is None or before.topic_id != image.topic_id:
            self.version_with_new_topics = self.version
        if before is not None and before.topic_id != image.topic_id:
            self._doubts.setdefault(before.topic_id, None)  # Deleted and made again, it seems.
        self._images[image.name], self._names[image.topic_id] = image, image.name

    def _forget(self, topic_id: bytes) -> None:
        del self._doubts[topic_id]
        name = self._names.pop(topic_id, "")
        if (image := self._images.get(name)) is not None and image.topic_id == topic_id:
            del self._images[name]
        self._deleted_ids[topic_id] = None
        while len(self._deleted_ids) > REMEMBERED_DELETIONS:
            del self._deleted_ids[next(iter(self._deleted_ids))]
        self.version += 1
        self._on_deleted(name, topic_id)


def _is_older(image: TopicImage, known: TopicImage | None) -> bool:
    """Whether it is what the topic was before it grew: no topic loses partitions."""
    return (
        known is not None
        and known.topic_id == image.topic_id
        and len(image.racks_by_partition) < len(known.racks_by_partition)
    )


def _racks(topic: MetadataResponseTopic, racks: dict[int, str | None]) -> Sequence[Sequence[str]]:
    """For each partition the racks of its replicas, sorted, as far as brokers have any."""
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return tuple(
        tuple(sorted({rack for node_id in partition.replica_nodes if (rack := racks.get(node_id))}))
        for partition in partitions
    )


def _nothing() -> None:
    """Nobody asks the cluster yet."""
