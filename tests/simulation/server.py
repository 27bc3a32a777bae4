"""The daemon as the simulation runs it: the real runtime, shards, timing wheel and clock, in virtual time.

What is not real is what would make a run unrepeatable or slow: the event loop, the disk and the sockets. A
server can be stopped and go on, and can die at any moment and be started again on what its logs hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from coordinator.data.markers import MarkerWriter
from coordinator.data.transaction_verifier import TransactionVerifier
from coordinator.effects import Event, Result
from coordinator.groups.classic.heartbeat import Heartbeat
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.partitioning import partition_for
from coordinator.runtime.clock import Clock
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.snapshots import write_snapshots
from coordinator.runtime.transaction_verification import CoordinatorVerifier
from coordinator.server.api_table import Api, api_table
from coordinator.server.group_apis import GroupApis
from coordinator.shard.shard import STOCK, Shard
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.transactions.transaction_settings import TransactionSettings
from harness.doubles.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.records.records import Codec
from storage.log.durable_log import DurableLog
from tests.simulation.call import Call, api_key_of
from tests.simulation.disk import Disk, Partitions
from tests.simulation.socket_end import SocketEnd
from tests.simulation.timeline import Origin, ProcessLoop, Timeline
from tests.simulation.transaction_side import TRANSACTION_PARTITIONS, TransactionSide
from tests.simulation.wire import Wire
from tests.simulation.witness import ALIVE, Witness

COMMIT_TIMEOUT_MS = 5_000
ID_EXPIRATION_MS = 20_000
"""Of transactional ids at rest: most producers of the simulation come again before, some do not."""


class WatchedShard(Shard):
    """A shard that shows everything it does to the witness; a bug that ends a life is one of its finds."""

    def __init__(
        self,
        witness: Witness,
        partition: int,
        settings: GroupSettings,
        topics: Topics,
        consumer_settings: ConsumerGroupSettings = STOCK,
    ) -> None:
        super().__init__(partition, settings, topics, consumer_settings)
        self._witness = witness

    def handle(self, event: Event, now_ms: int) -> Result:
        before = self._witness.before(self, event, now_ms)
        with self._bugs_told(event):
            result = super().handle(event, now_ms)
        self._witness.after(self, event, result, before, now_ms)
        return result

    def replay(self, *entry: Any) -> None:
        with self._bugs_told(entry):
            super().replay(*entry)

    @contextmanager
    def _bugs_told(self, what: object) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._witness.violated(f"a bug: {error!r} on {what}")
            raise

    def prepare_heartbeat(self, request: HeartbeatRequest) -> Heartbeat:
        heartbeat = super().prepare_heartbeat(request)

        def heard(now_ms: int) -> ErrorCode:
            error = heartbeat(now_ms)
            if error in ALIVE:
                self._witness.heard(request.group_id, request.member_id, now_ms)
            return error

        return heard

    def loaded(self, now_ms: int, wall_ms: int) -> Result:
        result = super().loaded(now_ms, wall_ms)
        self._witness.on_loaded(self, now_ms)
        return result


class Server:
    """One coordinator, life after life."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        disk: Disk,
        settings: GroupSettings,
        topics: Topics,
        partitions: int,
        group_ids: Sequence[str],
        witness: Witness,
    ) -> None:
        self.timeline = timeline
        self.settings = settings
        self.topics = topics
        self.group_ids = group_ids
        self.witness = witness
        witness.server = self
        self.loop = ProcessLoop(timeline, lambda: 1)
        self.runtime: Runtime | None = None
        watched: Partitions = {
            GROUP_METADATA_TOPIC: (partitions, witness.on_durable),
            TRANSACTION_STATE_TOPIC: (TRANSACTION_PARTITIONS, witness.transactions.on_durable),
        }
        self.storage = disk.new_storage(random, timeline, watched, witness)
        self.transaction_settings = TransactionSettings(
            transactional_id_expiration_ms=ID_EXPIRATION_MS,
            transaction_remove_expired_transaction_cleanup_interval_ms=ID_EXPIRATION_MS // 4,
            max_record_bytes=self.storage.max_batch_bytes,
        )
        self.unread: list[tuple[int, Call]] = []  # In the sockets, and since when.
        self._random = random
        self._disk = disk
        self._open_calls: list[Call] = []
        self.ends: list[SocketEnd] = []  # Of the connections that there are.
        self.apis: dict[int, Api] = {}
        self.transactions: TransactionSide | None = None

    # Lives.

    def start(self) -> None:
        """Start a process on what the logs hold."""
        self.witness.on_server("starts")
        self.loop = ProcessLoop(self.timeline, self._disk.load_ms)
        self.clock = Clock(
            lambda: self.timeline.now_ms * 1_000_000,
            lambda: (self.timeline.now_ms + self.timeline.wall_offset_ms) * 1_000_000,
        )
        self.storage.open()
        flusher = self.storage.new_flusher(self.loop)
        self.runtime = Runtime(
            self.clock,
            flusher,
            lambda _: None,
            1 << 20,
            self.loop,  # type: ignore[arg-type]
            self._disk.probe_disk_space,
        )
        transactions = self.transactions = TransactionSide(self, self.runtime)
        groups = GroupApis(self.runtime, new_uuid=self._new_uuid, verifier=transactions.verifier)
        handlers = {**groups.handlers(), **transactions.handlers()}
        self.apis = api_table(handlers, groups.prepare())
        self._open_shards(
            [self._new_runner(log) for log in self.logs], transactions.runners(COMMIT_TIMEOUT_MS)
        )

    def _new_uuid(self) -> object:
        return self._random.getrandbits(32)

    def _open_shards(self, groups: list[GroupRunner], transactions: list[ShardRunner[Any]]) -> None:
        assert self.runtime is not None
        self.runtime.open_shards(groups, transactions)

    def marker_writer(self, index: int) -> MarkerWriter:
        """Return what writes markers to the shard of groups `index`."""
        return self.runners[index]

    def new_verifier(self, runtime: Runtime) -> TransactionVerifier:
        """Return what the shards of groups ask about transactions."""
        return CoordinatorVerifier(runtime)

    def crash(self) -> None:
        """The process dies between two steps; connections are gone, the logs keep what had reached the disk."""
        self.witness.on_server("dies")
        calls = self._end()
        self.storage.crash()
        self._on_died(calls)

    def stop(self) -> None:
        """The process stops as the daemon does, unless the disk fails or it dies meanwhile."""
        runtime = self.runtime
        assert runtime is not None, "a process that is there stops"
        self.witness.on_server("dies: it was stopped")
        runtime.stop()
        runners = runtime.runners
        calls = self._end()
        self.storage.stop(lambda: write_snapshots(runners, min_log_bytes=0))
        self._on_died(calls)

    def _end(self) -> list[Call]:
        """End the process; return what it had been asked and not answered."""
        self.loop.is_dead = True
        self.runtime = None
        self.unread.clear()
        calls, self._open_calls = self._open_calls, []
        for call in calls:
            call.lose()
        ends, self.ends = self.ends, []
        for end in ends:
            end.die()
        return calls

    def _on_died(self, calls: list[Call]) -> None:
        """The process is gone, and with it what it was asked."""
        self.witness.on_crash()

    def stop_for(self, stop_ms: int) -> None:
        """The process does not run for so long (SIGSTOP, a paused VM)."""
        if self.runtime is None or self.loop.is_stopped:
            return
        self.witness.on_server(f"stops for {stop_ms:,} ms")
        loop = self.loop
        loop.stop()
        self.timeline.after(stop_ms, lambda: self._go_on(loop))

    def _go_on(self, loop: ProcessLoop) -> None:
        if not loop.is_dead:
            loop.go_on()

    def clean(self, took_ms: int, delete_retention_ms: int) -> None:
        """Compact some of every log, as a thread of the process does."""
        if self.runtime is not None:
            self.storage.clean(self.loop, took_ms, delete_retention_ms)

    # Requests.

    def deliver(self, call: Call) -> None:
        """A request has come to the sockets of the process, if there is one."""
        if self.runtime is None:
            call.lose()
            return
        self._open_calls.append(call)
        arrived = (self.timeline.now_ms, call)
        self.unread.append(arrived)
        self.witness.on_arrival(call)
        self.loop.run_at(self.timeline.now_ms, Origin.SOCKET, lambda: self._read(arrived))

    def connect(self, wire: Wire) -> SocketEnd | None:
        """A client connects; None if there is no process."""
        if self.runtime is None:
            return None
        end = SocketEnd(wire, self)
        self.ends.append(end)
        return end

    def _read(self, arrived: tuple[int, Call]) -> None:
        self.unread.remove(arrived)
        call = arrived[1]
        self.witness.on_read(call)
        self.apis[api_key_of(call)].handle(call.request, call)  # type: ignore[arg-type]
        if len(self._open_calls) > 200:
            # An answer is owed to a client that waits no longer, too, until this process dies.
            owed = self.witness.deadlines.is_owed
            self._open_calls = [
                each for each in self._open_calls if owed(each) or (each.is_open and each.answer is None)
            ]

    # Parts.

    @property
    def logs(self) -> Sequence[Any]:
        """Of the groups."""
        return self.storage.logs_of(GROUP_METADATA_TOPIC)

    def runner_for(self, group_id: str) -> GroupRunner:
        assert self.runtime is not None
        return self.runtime.runner_for(group_id)

    def groups_of(self, partition: int) -> set[str]:
        """Of the groups that are simulated, those that live in `partition`."""
        return {each for each in self.group_ids if partition_for(each, len(self.logs)) == partition}

    @property
    def transaction_logs(self) -> Sequence[Any]:
        return self.storage.logs_of(TRANSACTION_STATE_TOPIC)

    @property
    def transaction_runners(self) -> list[ShardRunner[Any]]:
        assert self.runtime is not None
        return self.runtime.transaction_runners

    @property
    def runners(self) -> list[GroupRunner]:
        return [] if self.runtime is None else self.runtime.runners

    def _new_shard(self, partition: int) -> Shard:
        return WatchedShard(self.witness, partition, self.settings, self.topics)

    def _new_runner(self, log: Any) -> GroupRunner:
        assert self.runtime is not None
        return GroupRunner(
            group_shards(self._new_shard),
            log.partition,
            DurableLog(log, self.runtime.log_host),
            self.runtime,
            max_batch_bytes=self.storage.max_batch_bytes,
            codec=Codec.NONE,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
        )
