"""Requests of groups that name a topic which this node does not know yet go on once the cluster was asked.

A client names what a broker has shown to it, and clients take an unknown topic for an error of their own. While a
request waits, none behind it on its connection is started: what was committed first is stored first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from coordinator.backing.kafka.cluster_topics import ClusterTopics, NamedTopic
from coordinator.server.api_table import Handler
from coordinator.server.pending import Pending
from protocol.codec.packed import as_packed
from protocol.codec.primitives import ZERO_UUID
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import OffsetFetchRequest

OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE, CONSUMER_GROUP_HEARTBEAT = 8, 9, 47, 68


class TopicsFirst:
    """Wraps handlers of group APIs; no request waits longer than `wait_s` for an answer about its topics."""

    def __init__(self, topics: ClusterTopics, wait_s: float) -> None:
        self._topics = topics
        self._wait_s = wait_s

    def handlers(self, of_groups: Mapping[int, Handler]) -> dict[int, Handler]:
        """All handlers, by API key; those of requests that name topics ask about them first."""
        return {
            key: self._asking(_NAMED[key], handle) if key in _NAMED else handle
            for key, handle in of_groups.items()
        }

    def _asking(self, named: Callable[[Any], Iterable[NamedTopic]], handle: Handler) -> Handler:
        def ask_first(request: Any, pending: Pending) -> None:
            waiting = _Waiting(lambda: handle(request, pending))
            if self._topics.ask_first(named(request), waiting.go_on):
                pending.connection.wait_alone()
                asyncio.get_running_loop().call_later(self._wait_s, waiting.go_on)
            else:
                waiting.go_on()

        return ask_first


class _Waiting:
    """A request that goes on once, when its topics were asked about or its time is over."""

    def __init__(self, handle: Callable[[], None]) -> None:
        self._handle: Callable[[], None] | None = handle

    def go_on(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle()


def _of_commit(request: OffsetCommitRequest) -> Iterator[NamedTopic]:
    for topic in request.topics:
        packed = as_packed(topic.partitions)
        if packed is not None:
            highest = max(packed.columns["partition_index"], default=-1)
        else:
            highest = max((each.partition_index for each in topic.partitions), default=-1)
        yield NamedTopic(topic.name, topic.topic_id, highest + 1)


def _of_fetch(request: OffsetFetchRequest) -> Iterator[NamedTopic]:
    """The topics that are named by their ids; the offsets of others are found without knowing the topic."""
    for group in request.groups:
        for topic in group.topics or ():
            if topic.topic_id != ZERO_UUID:
                yield NamedTopic(topic.name, topic.topic_id, 0)


def _of_delete(request: OffsetDeleteRequest) -> Iterator[NamedTopic]:
    for topic in request.topics:
        highest = max((each.partition_index for each in topic.partitions), default=-1)
        yield NamedTopic(topic.name, ZERO_UUID, highest + 1)


def _of_heartbeat(request: ConsumerGroupHeartbeatRequest) -> Iterator[NamedTopic]:
    """What a member subscribes to: else its group would be given another epoch once the topic is known."""
    for name in request.subscribed_topic_names or ():
        yield NamedTopic(name, ZERO_UUID, 0)


_NAMED: Final[Mapping[int, Callable[[Any], Iterable[NamedTopic]]]] = {
    OFFSET_COMMIT: _of_commit,
    OFFSET_FETCH: _of_fetch,
    OFFSET_DELETE: _of_delete,
    CONSUMER_GROUP_HEARTBEAT: _of_heartbeat,
}
