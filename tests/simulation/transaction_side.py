"""The transaction coordinator of one life of the server, put together as the daemon does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from coordinator.data.markers import Markers
from coordinator.groups.partitioning import partition_for
from coordinator.runtime.loop import Runtime
from coordinator.runtime.marker_sender import MarkerSender
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.transaction_shards import transaction_shards
from coordinator.server.api_table import Handler
from coordinator.server.pending import Pending
from coordinator.server.transaction_apis import TransactionApis
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.states import AT_REST
from coordinator.transactions.transaction_settings import TransactionDeps
from protocol.records.records import Codec
from storage.log.durable_log import DurableLog
from tests.simulation.timeline import ProcessLoop
from tests.simulation.transaction_witness import WatchedTransactions

if TYPE_CHECKING:
    from tests.simulation.server import Server

TRANSACTION_PARTITIONS: Final = 1


class LoopWorkers:
    """`topics.workers.Workers` in virtual time."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._loop.run_in_executor(None, work).add_done_callback(done)


class OffsetsTopic:
    """Of the registry of topics what markers ask: there is none but that of the groups."""

    def partition(self, topic: str, index: int) -> object | None:
        return self if topic == GROUP_METADATA_TOPIC else None


class TransactionSide:
    """Its runners, its part of the API table, and what groups ask it."""

    def __init__(self, server: Server, runtime: Runtime) -> None:
        self._server = server
        self._runtime = runtime
        self._ids = server.storage.producer_ids(LoopWorkers(server.loop))
        markers = Markers(OffsetsTopic(), server.marker_writer)  # type: ignore[arg-type]
        runtime.write_markers = MarkerSender(markers.write, runtime, server.loop.call_soon).write
        self.verifier = server.new_verifier(runtime)

    def handlers(self) -> dict[int, Handler]:
        return TransactionApis(self._runtime, self._ids, _only_transactions).handlers()

    def runners(self, commit_timeout_ms: int) -> list[ShardRunner[TransactionShard]]:
        """One for each partition of the transaction log."""
        storage = self._server.storage
        return [
            ShardRunner(
                transaction_shards(self._new_shard),
                log.partition,
                DurableLog(log, self._runtime.log_host),
                self._runtime,
                max_batch_bytes=storage.max_batch_bytes,
                codec=Codec.NONE,
                commit_timeout_ms=commit_timeout_ms,
            )
            for log in self._server.transaction_logs
        ]

    def _new_shard(self, partition: int) -> TransactionShard:
        server = self._server
        groups = len(server.logs)

        def partition_count(topic: str) -> int | None:
            return groups if topic == GROUP_METADATA_TOPIC else server.topics.partition_count(topic)

        deps = TransactionDeps(
            self._ids.take, partition_count, lambda group_id: partition_for(group_id, groups)
        )
        return WatchedTransactions(server, partition, server.transaction_settings, deps)

    def unsettled(self) -> Iterator[str]:
        """What is not at rest."""
        for runner in self._runtime.transaction_runners:
            if runner.shard is None:
                yield f"the transactions of partition {runner.partition} are {runner.state}"
                return
            for each in runner.shard.transactions:
                if each.state not in AT_REST:
                    yield f"the transaction of {each.transactional_id} is {each.state.name}"


def _only_transactions(request: Any, pending: Pending) -> None:
    raise AssertionError(f"every producer of the simulation has a transactional id: {request}")
