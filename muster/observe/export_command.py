"""`muster observe export`: writes a store's events to a topic, where the Spark jobs read them.

That topic is `__group_events`, unless another is named. Its cluster may be another one than the one that was
observed, which then stays unwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from coordinator.effects import GroupEvent
from coordinator.history.events import TOPIC, HistoryError, decode_event
from muster.cluster import Cluster
from muster.connection import Endpoint
from muster.groups.history import read_topic
from muster.groups.running import run
from muster.observe.sinks import TopicSink, make_topic
from muster.observe.store import StoreError, open_events
from muster.sentences import counted, remark

BATCH_EVENTS: Final = 1_000
_FOR_EVER: Final = -1


def export(
    directory: Annotated[Path, Parameter(help="what `muster observe --store` keeps")],
    /,
    *,
    topic: Annotated[str, Parameter(help="the topic, made if it is not there")] = TOPIC,
    endpoint: Endpoint = Endpoint(),
) -> int:
    """Write the events of a store to a topic of a cluster, which may be another one, for the Spark jobs.

    Events that are there already are left out. A topic that is made for it keeps them for ever. On Muster choose
    another one than __group_events, which its daemon writes.
    """

    async def command() -> int:
        async with endpoint.connected() as cluster:
            written, known = await _exported(directory, cluster, topic)
        beside = f"; {counted(known, 'event')} had been there before" if known else ""
        remark(f"{counted(written, 'event')} of {directory} written to {topic}{beside}")
        return 0

    return run(command())


async def _exported(store: Path, cluster: Cluster, topic: str) -> tuple[int, int]:
    """How many events were written, and how many were there already. Raises ClusterError and StoreError."""
    lines = open_events(store).lines()
    await make_topic(cluster, topic, _FOR_EVER, _FOR_EVER)
    there: set[bytes] = set()
    await read_topic(cluster, lambda _, value: there.add(_digest(value or b"")), topic)
    written = known = 0
    async with cluster.writer() as producer:
        sink = TopicSink(producer, topic)
        while batch := await asyncio.to_thread(lambda: list(islice(lines, BATCH_EVENTS))):
            new = [line for line in batch if _digest(line) not in there]
            await sink.write(list(_events(new)))
            written, known = written + len(new), known + len(batch) - len(new)
    return written, known


def _digest(value: bytes) -> bytes:
    """A store may have a million events: what is remembered of each is a few bytes."""
    return blake2b(value, digest_size=16).digest()


def _events(lines: list[bytes]) -> Iterator[GroupEvent]:
    for line in lines:
        try:
            yield decode_event(line)
        except HistoryError as error:
            raise StoreError(f"the store has something else than an event: {error}") from None
