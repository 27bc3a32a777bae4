"""Producers that commit offsets within transactions, and the coordinator that ends them: one that never dies.

A producer commits for a group as nobody in particular, and has its transaction committed or aborted; or it dies,
and its transaction is aborted for it. The coordinator writes a marker until it hears that it is durable, raises
the epoch with each, and vouches for a transaction that is under way - a while before its word arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

from coordinator.transaction_verifier import Verified
from protocol.control_records import Marker
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.log_facts import OffsetKey
from tests.simulation.network import Network
from tests.simulation.timeline import Origin, Task
from tests.simulation.wire import LOST

if TYPE_CHECKING:
    from tests.simulation.server import Server

TXN_COMMIT_VERSION: Final = 5
REQUEST_TIMEOUT_MS: Final = 8_000
MARKER_PATIENCE_MS: Final = 9_000
"""Longer than a runner holds a marker that is not durable."""
TOPIC: Final = "orders"


class Coordinator:
    """A `TransactionVerifier`."""

    def __init__(self, random: Random, server: Server) -> None:
        self._random = random
        self._server = server
        self._under_way: dict[int, int] = {}  # Epochs, by producer.

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        self._under_way[producer_id] = producer_epoch

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[tuple[str, int]],
        add: bool,
        done: Verified,
    ) -> None:
        is_known = self._under_way.get(producer_id) == producer_epoch
        error = ErrorCode.NONE if is_known else ErrorCode.PRODUCER_FENCED
        told = dict.fromkeys(partitions, error)
        at_ms = self._server.timeline.now_ms + self._random.choice((0, 0, 3, 100, 2_000))
        self._server.loop.run_at(at_ms, Origin.THREAD, lambda: done(told))

    async def end(self, network: Network, group_id: str, marker: Marker) -> None:
        """Write `marker` to the partition of `group_id`, for as long as that takes."""
        self._under_way.pop(marker.producer_id, None)
        written: list[ErrorCode] = []
        while ErrorCode.NONE not in written:
            await network.sleep(self._random.choice((0, 5, 300)))
            attempt: list[ErrorCode] = []
            self._try(group_id, marker, attempt, written)
            waited_ms, pause_ms = 0, 5
            while not attempt and waited_ms < MARKER_PATIENCE_MS:
                await network.sleep(pause_ms)
                waited_ms += pause_ms
                pause_ms = min(2 * pause_ms, 600)
            written += attempt

    def _try(self, group_id: str, marker: Marker, attempt: list[ErrorCode], written: list[ErrorCode]) -> None:
        server = self._server
        if server.runtime is None:
            return

        def write() -> None:
            if ErrorCode.NONE not in written:
                server.runner_for(group_id).write_marker(marker, attempt.append)

        server.loop.run_at(server.timeline.now_ms, Origin.SOCKET, write)


class Producer:
    """One producer, epoch after epoch."""

    def __init__(
        self,
        producer_id: int,
        coordinator: Coordinator,
        network: Network,
        server: Server,
        random: Random,
        group_ids: tuple[str, ...],
        offsets: Iterator[int],
    ) -> None:
        self.is_running = True
        self._producer_id = producer_id
        self._coordinator = coordinator
        self._network = network
        self._server = server
        self._random = random
        self._group_ids = group_ids
        self._offsets = offsets
        self._task = Task(self._work())

    @property
    def is_done(self) -> bool:
        return self._task.is_done

    async def _work(self) -> None:
        epoch = 0
        while self.is_running:
            await self._network.sleep(self._random.randint(10, 4_000))
            await self._transaction(epoch)
            epoch += 1

    async def _transaction(self, epoch: int) -> None:
        self._coordinator.begin(self._producer_id, epoch)
        group_id = self._random.choice(self._group_ids)
        held: dict[OffsetKey, int] = {}
        is_whole = True
        for _ in range(self._random.randint(1, 3)):
            key, offset = (group_id, TOPIC, self._random.randrange(4)), next(self._offsets)
            is_whole = await self._hold(key, offset, epoch) and is_whole
            held[key] = offset
        if self._random.random() < 0.2:  # It dies, and nobody hears of it for a while.
            is_whole = False
            await self._network.sleep(15_000)
        is_commit = is_whole and self._random.random() < 0.8
        marker = Marker(self._producer_id, epoch + 1, 0, is_commit)
        await self._coordinator.end(self._network, group_id, marker)
        if is_commit:
            self._server.witness.on_transaction_committed(held)

    async def _hold(self, key: OffsetKey, offset: int, epoch: int) -> bool:
        group_id, topic, partition = key
        committed = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=f"t{self._producer_id}",
            group_id=group_id,
            producer_id=self._producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        answer: Any = await self._network.call("producer", request, TXN_COMMIT_VERSION, REQUEST_TIMEOUT_MS)
        return answer is not LOST and not answer.topics[0].partitions[0].error_code
