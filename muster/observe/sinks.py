"""Where observed events go: a store, the topic `__group_events` of the cluster, or standard output.

A sink is written in order. Of several, the store is last: its checkpoint is what a restart goes on from, so events
behind it may come to the topic a second time, where readers count copies once, and never to the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidTopicError, KafkaError

from coordinator.effects import GroupEvent
from coordinator.history.events import TOPIC, HistoryError, encode_event
from coordinator.history.topic import BATCH_BYTES, history_topic_config
from muster.cluster import Cluster, ClusterError, check, retried
from muster.connection_failures import in_words
from muster.groups.event_records import read_event
from muster.observe.follow import Sink
from muster.observe.lines import event_line
from muster.observe.store import Store
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

RETENTION_MS: Final = 7 * 24 * 3_600_000
RETENTION_BYTES: Final = 100 << 20
"""As the daemon has them by default."""

PATIENCE_S: Final = 300.0
"""For how long a cluster is asked again that cannot take an event just now: a rolling restart takes minutes."""

RECORD_BYTES: Final = BATCH_BYTES // 2
"""An event that is larger goes to the topic without the list of members, which the store keeps."""


class StoreSink:
    """Writes to a store, off the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, events: list[GroupEvent]) -> None:
        lines = [encode_event(event)[1] for event in events]
        await asyncio.to_thread(self._store.append, lines)

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        await asyncio.to_thread(self._store.checkpoint, dump())

    @property
    def is_checkpoint_due(self) -> bool:
        return self._store.is_checkpoint_due


class TopicSink:
    """Writes to a topic of events; one is there once `write` returns. Raises ClusterError.

    A broker that restarts is waited for, as long as `patience_s`. What it may have taken before comes once more.
    """

    def __init__(
        self, producer: AIOKafkaProducer, topic: str = TOPIC, patience_s: float = PATIENCE_S
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._patience_s = patience_s

    async def write(self, events: list[GroupEvent]) -> None:
        try:
            await retried(lambda: self._send_all(events), self._patience_s, _may_be_tried_again)
        except InvalidTopicError:
            raise ClusterError(
                f"this cluster lets no client write to {self._topic}: choose another topic"
            ) from None
        except KafkaError as error:
            raise ClusterError(f"writing to {self._topic}: {in_words(error)}") from None

    async def _send_all(self, events: list[GroupEvent]) -> None:
        sent = [await self._send(event) for event in events]
        await asyncio.gather(*sent)

    async def _send(self, event: GroupEvent) -> asyncio.Future[Any]:
        key, value = encode_event(event)
        if len(value) > RECORD_BYTES and event.observed is not None:
            key, value = encode_event(replace(event, observed=replace(event.observed, members=None)))
        sent: asyncio.Future[Any] = await self._producer.send(
            self._topic, value, key, timestamp_ms=event.wall_ms
        )
        return sent

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        """Nothing is left to do: `write` has waited."""

    @property
    def is_checkpoint_due(self) -> bool:
        return False


def _may_be_tried_again(error: Exception) -> bool:
    return isinstance(error, KafkaError) and bool(error.retriable)


class PrintSink:
    """Prints a line per event to standard output, for people or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    async def write(self, events: list[GroupEvent]) -> None:
        for event in events:
            line = encode_event(event)[1].decode() if self._as_json else event_line(event)
            print(line, flush=True)

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        """What was printed stays printed; there is no state."""

    @property
    def is_checkpoint_due(self) -> bool:
        return False


class SeveralSinks:
    """Writes to each of several sinks, in their order."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    async def write(self, events: list[GroupEvent]) -> None:
        for sink in self._sinks:
            await sink.write(events)

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        for sink in self._sinks:
            await sink.checkpoint(dump)

    @property
    def is_checkpoint_due(self) -> bool:
        return any(sink.is_checkpoint_due for sink in self._sinks)


class Reported:
    """How far the topic's own events go: of each partition of the log the newest record, and its events.

    The topic has one partition, and a producer that keeps its order, so what a crash cut off is the end of a
    record's events, or all of those of later ones. Copies count once.
    """

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self._events: dict[int, set[bytes]] = {}  # Those of the newest record.

    @property
    def counts(self) -> dict[int, int]:
        """How many events of the newest record there are."""
        return {partition: len(events) for partition, events in self._events.items()}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take in a record of the topic; one that is no observed event says nothing."""
        try:
            seen = read_event(key, value).observed
        except HistoryError:
            return
        if seen is None or value is None or seen.offset < self.offsets.get(seen.partition, -1):
            return
        if seen.offset > self.offsets.get(seen.partition, -1):
            self.offsets[seen.partition], self._events[seen.partition] = seen.offset, set()
        self._events[seen.partition].add(value)


async def make_topic(
    cluster: Cluster,
    name: str = TOPIC,
    retention_ms: int = RETENTION_MS,
    retention_bytes: int = RETENTION_BYTES,
) -> None:
    """Make a topic of events unless it is there, by default with the daemon's settings. Raises ClusterError."""
    config = history_topic_config(retention_ms, retention_bytes)
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=-1, configs=configs)
    answer = await cluster.send_to_any(CreateTopicsRequest(topics=[topic]))
    for result in answer.topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(f"making the topic {name}", result.error_code)
