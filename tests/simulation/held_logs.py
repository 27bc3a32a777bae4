"""Logs on one disk that several nodes reach: each of them belongs, at any time, to the one node that holds it.

What a node does with a log that it does not hold is a violation, whatever comes of it: a flush that was begun
before, what it writes behind that, a cut, a load. What a node that dies had not written behind, whoever opens its
logs finds all the same: how one node comes by another's journal is not played.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.workers import Workers
from storage.files import StorageError
from tests.simulation.disk import ModelStorage, SimulatedFlusher, SimulatedLog
from tests.simulation.simulation import PARTITIONS
from tests.simulation.timeline import Origin, ProcessLoop
from tests.simulation.transaction_side import TRANSACTION_PARTITIONS

if TYPE_CHECKING:
    from tests.simulation.two_nodes import Cluster

Shard = tuple[str, int]
"""A partition of `__consumer_offsets` or of `__transaction_state`."""
COUNTS: Final = {GROUP_METADATA_TOPIC: PARTITIONS, TRANSACTION_STATE_TOPIC: TRANSACTION_PARTITIONS}
SHARDS: Final[tuple[Shard, ...]] = tuple(
    (topic, partition) for topic, count in COUNTS.items() for partition in range(count)
)


class HeldLog:
    """A log as one node reaches it in one life: what it does there, it may do only while it holds the shard."""

    is_written_behind = True

    def __init__(self, log: SimulatedLog, storage: NodeStorage, check: Callable[[str], None]) -> None:
        self.has_behind = False
        self.on_written: Callable[[StorageError | None], None] = lambda _: None
        self._log = log
        self._storage = storage
        self._check = check

    partition = property(lambda self: self._log.partition)
    log_start_offset = property(lambda self: self._log.log_start_offset)
    is_open = property(lambda self: self._log.is_open)
    next_offset = property(lambda self: self._log.next_offset)
    durable_offset = property(lambda self: self._log.durable_offset)
    staged = property(lambda self: self._log.staged)
    producers = property(lambda self: self._log.producers)

    @property
    def failure(self) -> Any:
        return self._log.failure

    @failure.setter
    def failure(self, error: Any) -> None:
        self._check("flush")
        self._log.failure = error

    @property
    def met_no_room(self) -> bool:
        return self._log.met_no_room

    @met_no_room.setter
    def met_no_room(self, met: bool) -> None:
        self._log.met_no_room = met

    def append(self, batch: bytearray, *, wall_ms: int) -> Any:
        self._check("append")
        return self._log.append(batch, wall_ms=wall_ms)

    def flush(self, batches: list[bytearray]) -> None:
        self._check("flush")
        self._log.flush(batches)
        if not self.has_behind:
            self.has_behind = True
            self._storage.soon(self._write_behind)

    def want_written(self) -> None:
        """A write of what is behind is always on its way."""

    def _write_behind(self) -> None:
        """As the journal does it, which passes over a log that has failed."""
        if self.has_behind and self.failure is None:
            self._check("write behind")
            error = self._log.failure = self._storage.failure()
            self.has_behind = error is not None
            self.on_written(error)

    def take_written_bytes(self) -> int:
        return 0  # Nobody fetches from it.

    def fail_back(self) -> None:
        self._check("cut")
        self._log.fail_back()
        if self.has_behind:
            self._log.failure = self._storage.failure()
            if self._log.failure is not None:
                raise self._log.failure
            self.has_behind = False

    def take_shard_snapshot(self, version: int) -> memoryview | None:
        self._check("load")
        return self._log.take_shard_snapshot(version)

    def batches(self, start_offset: int, window_bytes: int) -> Iterator[Any]:
        self._check("load")
        return self._log.batches(start_offset, window_bytes)


class NodeStorage:
    """The shared logs as one node reaches them."""

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._shared = cluster.storage
        self._logs: dict[str, list[HeldLog]] = {}
        self._loop: ProcessLoop | None = None  # Of the present life.
        self.max_batch_bytes = self._shared.max_batch_bytes
        self.open()

    def logs_of(self, topic: str) -> list[HeldLog]:
        return self._logs[topic]

    def new_flusher(self, loop: ProcessLoop) -> SimulatedFlusher:
        self._loop = loop
        return self._shared.new_flusher(loop)

    def soon(self, action: Callable[[], None]) -> None:
        """Call `action` a few milliseconds later, if the node is alive then."""
        loop = self._loop
        assert loop is not None, "nothing is flushed before there is a flusher"
        loop.run_at(loop.timeline.now_ms + self._shared.behind_ms(), Origin.THREAD, action)

    def failure(self) -> StorageError | None:
        """What becomes of a write to a segment."""
        return self._shared.failure()

    def producer_ids(self, workers: Workers) -> Any:
        return self._shared.producer_ids(workers)

    def open(self) -> None:
        for topic in COUNTS:
            self._logs[topic] = [
                HeldLog(log, self, partial(self._check, (topic, log.partition)))
                for log in self._shared.logs_of(topic)
            ]

    def _check(self, shard: Shard, use: str) -> None:
        holder = self._cluster.holders.get(shard)
        if holder != self._node_id:
            self._cluster.witness.violated(f"{use} by node {self._node_id} of {shard}, which {holder} holds")

    def crash(self) -> None:
        """What the node had not written yet is gone, of the logs that it held."""
        for topic, partition in self._cluster.held_by(self._node_id):
            self._shared.crash_one(topic, partition)


class SharedStorage(ModelStorage):
    """The logs that both nodes reach."""

    def behind_ms(self) -> int:
        """How long after a flush it is written behind."""
        return self._random.randint(1, 20)

    def failure(self) -> StorageError | None:
        return self._disk.failure()

    def crash_one(self, topic: str, partition: int) -> None:
        log = self.logs_of(topic)[partition]
        log.crash(self._random.randint(0, len(log.staged)), swaps=self._random.random() < 0.5)
