"""Whether a cluster fences as the log on it needs: tried at each start, on a partition of its own.

Each row is one thing that must hold (docs/backing-log.md, B1 to B4, B7). An engine that calls itself Kafka may
take a zombie's batch for a duplicate of a newer one, and acknowledge what it has not stored.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator.backing.claims import SEAL_EPOCH, Writer
from coordinator.backing.events import AppendError
from coordinator.backing.kafka.cluster import BackingCluster, BackingError, Lane
from coordinator.backing.kafka.epochs import Epochs
from coordinator.backing.kafka.sender import PRODUCE_BY_ID, Outcome, outcome_of, produce_request
from coordinator.backing.kafka.topic import BackingTopic
from protocol.records.batch import BatchProducer
from protocol.records.records import Record, encode_batch

ATTEMPTS_MAX: Final = 50
RETRY_S: Final = 0.1
KEY: Final = b"muster: self-test"


class _Probe:
    """Batches to partition 0 of the scratch topic."""

    def __init__(self, cluster: BackingCluster, topic: BackingTopic, wall_ms: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._wall_ms = wall_ms
        self.epochs = Epochs(cluster, topic.name)
        self.transactional_id = f"muster.{topic.name}.{uuid.uuid4().hex}"
        """Another each time: its producer id is sealed at the end."""

    async def next_epoch(self) -> Writer:
        for _ in range(ATTEMPTS_MAX):
            try:
                return await self.epochs.of(self.transactional_id)
            except BackingError as error:
                reason = error
                await asyncio.sleep(RETRY_S)
        raise BackingError(f"the cluster gives no producer epochs: {reason}")

    async def append(self, writer: Writer, sequence: int) -> Outcome:
        """A batch of one record. Sent again where that may help, as an owner would. Raises BackingError."""
        record = Record(KEY, f"{writer} {sequence}".encode(), self._wall_ms)
        data = bytes(encode_batch([record], producer=BatchProducer(*writer, sequence)))
        request = produce_request(self._topic, {0: data})
        for _ in range(ATTEMPTS_MAX):
            leader = self._cluster.leader_of(0)
            if leader is not None:
                answer = await self._cluster.ask(leader, request, Lane.APPEND, min_version=PRODUCE_BY_ID)
                outcome = outcome_of(answer.responses[0].partition_responses[0])
                if outcome is not AppendError.RETRIABLE:
                    return outcome
            self._cluster.refresh_soon()
            await asyncio.sleep(RETRY_S)
        raise BackingError(f"the cluster takes no batch for topic {self._topic.name}")


async def _taken(probe: _Probe, old: Writer, _: Writer) -> bool:
    return isinstance(await probe.append(old, 0), int)


async def _recognised(probe: _Probe, old: Writer, _: Writer) -> bool:
    first = await probe.append(old, 1)
    return isinstance(first, int) and await probe.append(old, 1) == first


async def _gap_refused(probe: _Probe, old: Writer, _: Writer) -> bool:
    return await probe.append(old, 7) is AppendError.OUT_OF_SEQUENCE


async def _claimed(probe: _Probe, _: Writer, new: Writer) -> bool:
    return isinstance(await probe.append(new, 0), int)


async def _old_refused(probe: _Probe, old: Writer, _: Writer) -> bool:
    return await probe.append(old, 2) is AppendError.FENCED


async def _acknowledged_refused(probe: _Probe, old: Writer, _: Writer) -> bool:
    return await probe.append(old, 1) is AppendError.FENCED


async def _numbers_of_newer_refused(probe: _Probe, old: Writer, new: Writer) -> bool:
    """The newer has written sequences 0 to 2 by then: those of the old one are remembered, under another epoch."""
    written = [await probe.append(new, sequence) for sequence in (1, 2)]
    return all(isinstance(each, int) for each in written) and (
        await probe.append(old, 2) is AppendError.FENCED
    )


async def _sealed(probe: _Probe, _: Writer, new: Writer) -> bool:
    seal = Writer(new.producer_id, SEAL_EPOCH)
    return isinstance(await probe.append(seal, 0), int) and (await probe.append(new, 3) is AppendError.FENCED)


ROWS: Final[tuple[tuple[str, Callable[[_Probe, Writer, Writer], Awaitable[bool]]], ...]] = (
    ("a batch in no transaction is taken under the producer epoch of a transactional id", _taken),
    ("a batch that is sent again is recognised", _recognised),
    ("a gap in the sequences is refused", _gap_refused),
    ("a newer epoch is taken", _claimed),
    ("then a batch of the older epoch is refused", _old_refused),
    ("so is one of the older epoch that was acknowledged before", _acknowledged_refused),
    ("so is one of the older epoch with the sequence of a newer one", _numbers_of_newer_refused),
    ("the highest epoch shuts out all others of its producer id", _sealed),
)
"""In this order, each on what the one before has left."""


async def check_fencing(cluster: BackingCluster, topic: BackingTopic, wall_ms: int) -> None:
    """Try it on the scratch topic, which `cluster` follows. Raises BackingError that names the row that failed."""
    probe = _Probe(cluster, topic, wall_ms)
    old = await probe.next_epoch()
    new = await probe.next_epoch()
    if new.producer_id != old.producer_id or new.epoch <= old.epoch:
        raise BackingError(
            f"the cluster cannot have the log: after epoch {old} it gives {new}, which fences nobody"
        )
    for row, holds in ROWS:
        if not await holds(probe, old, new):
            raise BackingError(f"the cluster cannot have the log, as it does not fence: not so that {row}")
