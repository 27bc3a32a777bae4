"""Keeps what is known of the cluster's topics fresh: all of them now and then, and soon what somebody names."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from coordinator.backing.kafka.cluster import BackingCluster, BackingError, error_of
from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.backing.kafka.complaints import Complaints
from coordinator.runtime.clock import boot_ms
from coordinator.runtime.tasks import end, spawn
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

REFRESH_MS_MIN: Final = 5_000
REFRESH_MS_MAX: Final = 300_000
"""Between two lists of all topics. Members of consumer groups do not look for new partitions themselves."""
MS_A_PARTITION: Final = 10
"""A list takes some ten microseconds for each partition: a thousandth of the time between two."""
PAUSE_S: Final = 1.0
"""Between two questions, whatever clients name: so long an unknown topic stays unknown."""
WITH_IDS: Final = 10
BY_ID: Final = 12
"""The first versions of Metadata that show the ids of topics, and that may ask by them."""

log = structlog.get_logger(__name__)


def refresh_ms_of(partition_count: int) -> int:
    """The time between two lists of topics that have so many partitions."""
    return min(max(REFRESH_MS_MIN, MS_A_PARTITION * partition_count), REFRESH_MS_MAX)


class TopicWatch:
    """Asks for one ClusterTopics. `start` once the cluster has started, `close` at the end."""

    def __init__(self, cluster: BackingCluster, topics: ClusterTopics, refresh_ms: int | None = None) -> None:
        """Without `refresh_ms` lists are as far from each other as their size says."""
        self._cluster = cluster
        self._topics = topics
        self._given_refresh_ms = refresh_ms
        self._refresh_ms = 0
        self._listed_ms = 0
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complaints = Complaints(log, "the topics of the cluster are as they were known")
        topics.on_wanted = self._is_wanted.set

    async def start(self) -> None:
        """Know all topics, and go on looking. Raises BackingError if no broker says which there are."""
        await self._list(boot_ms())
        self._task = spawn(self._look_on())

    async def close(self) -> None:
        """Ask nothing more."""
        await end(self._task)

    async def _look_on(self) -> None:
        while True:
            await self._until_due()
            try:
                await self._look()
                self._complaints.over()
            except BackingError as error:
                self._complaints.say(str(error))
            except Exception as error:  # A bug of ours, or what no answer should hold; the next look may do.
                self._complaints.bug(error)
            await asyncio.sleep(PAUSE_S)

    async def _until_due(self) -> None:
        """Wait for a name, for the next list, or for a topic whose end is to be confirmed."""
        now_ms = boot_ms()
        due_ms = self._listed_ms + self._refresh_ms
        if (doubted_ms := self._topics.next_doubt_ms) is not None:
            due_ms = min(due_ms, doubted_ms)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, due_ms - now_ms) / 1_000):
                await self._is_wanted.wait()

    async def _look(self) -> None:
        """Ask, and go on with what has waited for it, also where there was no answer. Raises BackingError."""
        self._is_wanted.clear()
        names, ids = self._topics.wanted(), self._topics.wanted_ids()
        waiting = self._topics.waiting()
        try:
            await self._ask_about(names, ids)
        finally:
            for go_on in waiting:
                asyncio.get_running_loop().call_soon(go_on)

    async def _ask_about(self, names: list[str], ids: list[bytes]) -> None:
        now_ms = boot_ms()
        if now_ms >= self._listed_ms + self._refresh_ms:
            await self._list(now_ms)
        if names:
            self._topics.learn(await self._ask([MetadataRequestTopic(name=name) for name in names], WITH_IDS))
        if ids := [*ids, *self._topics.doubts(now_ms)]:
            asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
            self._topics.judge(await self._ask(asked, BY_ID), now_ms)

    async def _list(self, now_ms: int) -> None:
        listed = await self._ask(None, WITH_IDS)
        self._topics.learn_all(listed)
        self._listed_ms = now_ms
        partition_count = sum(len(topic.partitions) for topic in listed.topics)
        given_ms = self._given_refresh_ms
        self._refresh_ms = refresh_ms_of(partition_count) if given_ms is None else given_ms

    async def _ask(self, topics: list[MetadataRequestTopic] | None, min_version: int) -> MetadataResponse:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer: MetadataResponse = await self._cluster.ask_any(request, min_version=min_version)
        if answer.error_code != ErrorCode.NONE:
            raise BackingError(f"Metadata: {error_of(answer.error_code).name}")
        return answer
