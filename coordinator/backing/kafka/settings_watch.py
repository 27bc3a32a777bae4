"""Whether the cluster still is what a start found it to be: what would be refused then is said, and not more.

An operator may set the topic otherwise, and a broker may come, or come back, that forgets whom it fences or is too
old. Every few minutes, and soon after the set of brokers is another, the topic and each broker are asked. The log
has one sentence for what is wrong, and one when it is over; a node does not end for it, as that mends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

import structlog

from coordinator.backing.kafka.cluster import BackingCluster, BackingError, TooOldError, UnavailableError
from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.topic import BackingTopic, objections_to_broker, objections_to_topic
from coordinator.backing.kafka.versions import check_version_of
from coordinator.runtime.tasks import end, spawn

LOOK_S: Final = 300.0
PAUSE_S: Final = 30.0
"""Between two looks, however often brokers come and go. Of each look are two requests for the topic, and two for
each broker."""
TOPIC: Final = "topic"

log = structlog.get_logger(__name__)


class SettingsWatch:
    """Asks for one node. `start` once the cluster has been found to do, `close` at the end."""

    def __init__(self, cluster: BackingCluster, topic: BackingTopic) -> None:
        self._cluster = cluster
        self._topic = topic
        self._said: dict[str, frozenset[str]] = {TOPIC: frozenset(topic.warnings)}
        self._seen: list[int] = []  # The brokers as of the newest look, or of the start.
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._complaints = Complaints(log, "the settings of Kafka cannot be looked at")

    def start(self) -> None:
        """Look now and then from now on; what is there has just been looked at."""
        self._seen = self._cluster.node_ids
        self._task = spawn(self._look_on())

    async def close(self) -> None:
        """Ask nothing more."""
        await end(self._task)

    def on_refreshed(self) -> None:
        """The brokers may be others than before."""
        if self._task is not None and self._cluster.node_ids != self._seen:
            self._is_wanted.set()

    async def _look_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._is_wanted.wait()
            try:
                await self._look()
            except Exception as error:  # A bug of ours, or what no answer should hold; the next look may do.
                self._complaints.bug(error)
            self._cluster.refresh_soon()  # Else a broker that leads nothing yet would not be heard of.
            await asyncio.sleep(PAUSE_S)

    async def _look(self) -> None:
        self._is_wanted.clear()
        self._seen = self._cluster.node_ids
        await self._look_at(TOPIC, objections_to_topic(self._cluster, self._topic.name))
        for node_id in self._seen:
            await self._look_at(f"broker {node_id}", self._of_broker(node_id))
        there = {TOPIC, *(f"broker {node_id}" for node_id in self._seen)}
        self._said = {what: said for what, said in self._said.items() if what in there}

    async def _of_broker(self, node_id: int) -> list[str]:
        try:
            await check_version_of(self._cluster, node_id)
        except TooOldError as error:
            return [str(error)]
        return await objections_to_broker(self._cluster, node_id)

    async def _look_at(self, what: str, asked: Awaitable[list[str]]) -> None:
        try:
            found = frozenset(await asked)
        except UnavailableError:
            return  # Who reads and writes there says so.
        except BackingError as error:
            self._complaints.say(str(error), what)
            return
        self._complaints.over(what)
        before, self._said[what] = self._said.get(what, frozenset()), found
        for objection in sorted(found - before):
            log.warning("the Kafka is not what its nodes rely on any more", reason=objection)
        for objection in sorted(before - found):
            log.info("the Kafka is again what its nodes rely on", formerly=objection)
