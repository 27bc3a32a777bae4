"""The whole daemon, composed from settings: directory, topics, shards, listeners; and how it stops.

At a start, the directory is locked before anything is read, topics are opened before clients are served, and a
shard answers COORDINATOR_LOAD_IN_PROGRESS until its log has been replayed. Rules of groups, topics or the wire do
not belong here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from coordinator.daemon.startup import LAST_ANSWERS_S, READER_THREADS, StartupError, serve_http
from coordinator.data.broker import Broker
from coordinator.data.fetch_sessions import FetchSessions
from coordinator.data.markers import Markers
from coordinator.data.producer_ids import ProducerIds
from coordinator.effects import HistoryRow
from coordinator.groups.partitioning import partition_for
from coordinator.history.events import TOPIC as HISTORY_TOPIC
from coordinator.history.events import History
from coordinator.history.topic import history_topic_config
from coordinator.history.writer import HistoryWriter
from coordinator.metrics.daemon_series import Parts
from coordinator.metrics.metrics import Metrics
from coordinator.part_settings import (
    consumer_group_settings,
    group_overrides,
    group_settings,
    shown_configs,
    topic_settings,
    transaction_settings,
)
from coordinator.runtime.clock import Clock, boot_ns
from coordinator.runtime.collector import Collector
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import Runtime
from coordinator.runtime.loop_turns import see_turns
from coordinator.runtime.marker_sender import MarkerSender
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.short_poll import short_poll_of
from coordinator.runtime.snapshots import write_snapshots
from coordinator.runtime.transaction_shards import transaction_shards
from coordinator.runtime.transaction_verification import CoordinatorVerifier
from coordinator.runtime.turn_share import TurnShare
from coordinator.runtime.turn_watch import TurnWatch
from coordinator.server.api_table import Handler, api_table
from coordinator.server.descriptors import raise_limit
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.server.group_apis import GroupApis
from coordinator.server.protection import Protection
from coordinator.server.server import BindError, Server
from coordinator.server.topic_apis import topic_handlers
from coordinator.server.transaction_apis import TransactionApis
from coordinator.settings.group_kinds import CONSUMER
from coordinator.settings.model import Settings
from coordinator.shard.shard import Shard
from coordinator.telemetry.telemetry import Clocks, Telemetry, TelemetryUnavailable
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_kinds import overrides_of
from coordinator.topics.feature_levels import FeatureLevels
from coordinator.topics.group_configs import assignment_interval_ms
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.partition import Partition, PartitionServices
from coordinator.topics.placement import Node, Placement
from coordinator.topics.registry import PartitionCountMismatch, TopicRegistry
from coordinator.topics.settings import TopicSettings
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import ThreadWorkers
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.transaction_settings import TransactionDeps
from coordinator.upkeep.cleaner import Cleaner
from coordinator.upkeep.internal_topics import COUNT_OPTION, InternalTopics
from coordinator.upkeep.local_shards import LocalShards
from coordinator.upkeep.log_directory import open_log_directory
from coordinator.upkeep.maintenance import Intervals, Maintenance
from storage.directory.disk_space import probe_disk_space
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import Files, StorageError
from storage.flusher import Flusher
from storage.journal.threads import JournalThreads

if TYPE_CHECKING:
    from coordinator.http.explained import Explain
    from coordinator.http.server import HttpServer
    from coordinator.http.sources import Sources

log = structlog.get_logger("muster.daemon")

CLOSING_THREADS = 8
"""Threads that close logs at a stop: each waits for the syncs of one, of which a disk takes several at once."""


async def serve(
    settings: Settings,
    ready: Callable[[str], None],
    stop: asyncio.Event,
    files: Files | None = None,
    explain: Explain | None = None,
) -> None:
    """Run the daemon until `stop` is set; `ready` is called with the bound addresses once clients are served.

    `explain` puts a group's events into words, for HTTP. Raises StartupError. After `stop`: parked requests are
    answered, what was appended is flushed, and the directory is left as a clean shutdown leaves it.
    """
    raise_limit()
    directory = open_directory(settings, files or Files())
    daemon: Daemon | None = None
    try:
        daemon = Daemon(settings, directory, files or Files())
        try:
            await daemon.start()
            await daemon.serve_http(explain)
            ready(daemon.server.addresses)
            await stop.wait()
            daemon.turn_watch.on_signal()
        finally:
            await daemon.stop()
    finally:
        runners = [] if daemon is None else daemon.runtime.runners
        with ThreadPoolExecutor(CLOSING_THREADS) as threads:
            failures = directory.close(threads.map, before_release=lambda: write_snapshots(runners))
        for failure in failures:
            log.error("not closed cleanly", error=str(failure))


def open_directory(settings: Settings, files: Files) -> LogDirectory:
    """Open the log directory and lock it. Raises StartupError."""
    try:
        return open_log_directory(settings, files)
    except LogDirectoryError as error:
        raise StartupError(str(error)) from error


class Daemon:
    """Makes, starts and stops all parts of the daemon; the log directory is locked meanwhile."""

    def __init__(self, settings: Settings, directory: LogDirectory, files: Files) -> None:
        loop = asyncio.get_running_loop()
        post = loop.call_soon_threadsafe
        self._settings = settings
        self._group_settings = group_settings(settings)
        self._consumer_settings = consumer_group_settings(settings)
        self._clock = Clock(elapsed_ns=boot_ns)
        self._flusher = Flusher(settings.muster_flush_threads, post, loop.call_soon)
        self._history_flusher = Flusher(1, post)  # No commit waits for the history's disk, which may hang.
        self._journal = self._journal_threads(directory, loop)
        self._workers = ThreadWorkers(1, post, "topics")
        self._readers = ThreadWorkers(READER_THREADS, post, "reader")
        self._encoder = ThreadWorkers(1, post, "encoder")  # Needs no disk: a stop can wait for it.
        self._maintenance_worker = ThreadWorkers(1, post, "caretaker")
        self._history: HistoryWriter[Partition] | None = None
        self._http: HttpServer | None = None
        self._turn = TurnShare(loop.call_soon)
        self.turn_watch = TurnWatch(settings.muster_turn_log_ms, self._turn.begin)
        self._stop_seeing_turns: Callable[[], None] | None = None
        self.runtime = Runtime(
            self._clock,
            self._flusher,
            self._record_history,
            settings.offsets_load_buffer_size,
            probe_disk_space=lambda: probe_disk_space(files, directory.path),
            turn=self._turn,
        )
        self._placement = Placement(self._own_node())
        self._shards = LocalShards(self.runtime, self._placement)
        self.registry = self._open_registry(directory, files)
        self.metrics = self._metrics()
        self._maintenance = self._new_maintenance(directory)
        self._cleaner = Cleaner(directory, files, settings, self._clock.wall_ms)
        self._verifier = CoordinatorVerifier(self.runtime)
        self.broker = self._broker(files)
        self.server = self._server()
        self._collector = Collector(
            self.runtime.set_timer, self._clock.now_ms, lambda: self.server.has_connections, self._turn
        )
        self._follow_settings()

    def _new_maintenance(self, directory: LogDirectory) -> Maintenance:
        intervals = Intervals.of(self._settings)
        return Maintenance(self.runtime, self.registry, directory, self._maintenance_worker, intervals)

    def _own_node(self) -> Node:
        settings, place = self._settings, lambda listener: self.server.endpoint_for(listener)
        return Node(settings.node_id, place, settings.broker_rack)

    def _open_registry(self, directory: LogDirectory, files: Files) -> TopicRegistry:
        host = self.runtime.log_host
        shards = replace(host, schedule_flush=self._journal.schedule)
        hosts = {
            HISTORY_TOPIC: replace(host, schedule_flush=self._history_flusher.schedule),
            GROUP_METADATA_TOPIC: shards,
            TRANSACTION_STATE_TOPIC: shards,
        }
        services = PartitionServices(
            log_host=lambda topic: hosts.get(topic, host),
            workers=self._readers,
            encoder=self._encoder,
            wall_ms=self._clock.wall_ms,
            on_advanced=self._on_advanced,
        )
        settings = topic_settings(self._settings, directory.properties.cluster_id)
        try:
            store = TopicStore(directory, files)
            registry = TopicRegistry(store, settings, services, self._workers)
            registry.open()
            self._protection = Protection(self._settings, registry, files, self._workers, self._readers)
        except (StorageError, InvalidConfig) as error:
            raise StartupError(f"the topics in {directory.path} cannot be opened: {error}") from error
        return registry

    def _journal_threads(self, directory: LogDirectory, loop: asyncio.AbstractEventLoop) -> JournalThreads:
        return JournalThreads(
            directory.journal,
            loop.call_soon_threadsafe,
            loop.call_soon,
            self._clock.wall_ms,
            directory.checkpoint,
            _report_journal,
        )

    def _open_telemetry(self) -> Telemetry | None:
        if not self._settings.muster_client_metrics:
            return None
        loop = asyncio.get_running_loop()
        clocks = Clocks(self._clock.now_ms, loop.call_soon_threadsafe, loop.call_later)
        try:
            return Telemetry(self.registry.client_metrics, self._settings.telemetry_max_bytes, clocks)
        except TelemetryUnavailable as error:
            raise StartupError(str(error)) from error

    def _broker(self, files: Files) -> Broker:
        settings = self.registry.settings
        markers = Markers(self.registry, lambda index: self.runtime.runners[index])
        sender = MarkerSender(markers.write, self.runtime, asyncio.get_running_loop().call_soon)
        self.runtime.write_markers = sender.write
        return Broker(
            settings=settings,
            registry=self.registry,
            purgatory=self.runtime.purgatory,
            fetch_sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots),
            producer_ids=ProducerIds(Path(self._settings.data_directory), files, self._workers),
            readers=self._readers,
            now_ms=self._clock.now_ms,
            wall_ms=self._clock.wall_ms,
            arm=self.runtime.arm,
            placement=self._placement,
            markers=markers,
            scram_users=self._protection.scram_users,
            verifier=self._verifier,
            broker_configs=shown_configs(self._settings),
        )

    def _server(self) -> Server:
        partitions = {
            GROUP_METADATA_TOPIC: self._settings.offsets_topic_num_partitions,
            TRANSACTION_STATE_TOPIC: self._settings.transaction_state_log_num_partitions,
        }
        find = FindCoordinator(self._placement, partitions)
        verifier, assignors = self.broker.verifier, self._consumer_settings.assignors
        groups = GroupApis(self.runtime, self._has_consumer_groups, verifier=verifier, assignors=assignors)
        topics = topic_handlers(self.broker)
        transactions = TransactionApis(self.runtime, self.broker.producer_ids, topics[22])
        handlers: dict[int, Handler] = {10: find, **groups.handlers(), **topics, **transactions.handlers()}
        self._telemetry = self._open_telemetry()
        handlers |= {**self._protection.handlers(), **(self._telemetry.handlers if self._telemetry else {})}
        table = api_table(handlers, groups.prepare(), self._features, groups.counts)
        apis = self._protection.guarded(table, self._has_consumer_groups)
        server = Server(apis, self._settings, self._clock, self.runtime.set_timer, self._readers, self._turn)
        self._protection.protect(server)
        server.on_closed += [] if self._telemetry is None else [self._telemetry.on_disconnected]
        return server

    def _features(self) -> FeatureLevels:
        return self.registry.features

    def _has_consumer_groups(self) -> bool:
        protocols = self._settings.group_coordinator_rebalance_protocols
        return CONSUMER in protocols and self.registry.features.has_consumer_groups

    def _new_shard(self, partition: int) -> Shard:
        return Shard(partition, self._group_settings, self.registry, self._consumer_settings)

    def _new_transactions(self, partition: int) -> TransactionShard:
        groups = self._settings.offsets_topic_num_partitions
        deps = TransactionDeps(
            next_producer_id=self.broker.producer_ids.take,
            partition_count=self.registry.partition_count,
            offsets_partition=lambda group_id: partition_for(group_id, groups),
        )
        return TransactionShard(partition, transaction_settings(self._settings), deps)

    def _record_history(self, rows: tuple[HistoryRow, ...]) -> None:
        assert self._history is not None
        self._history.record(rows)

    def _follow_settings(self) -> None:
        """Have all parts go by the settings as they are now, and as they change while the daemon runs."""
        self.registry.on_altered.append(self._on_altered)
        self._on_altered(self.registry.settings)
        self.registry.groups.follow(self._on_group_altered)

    def _on_altered(self, settings: TopicSettings) -> None:
        """Pass settings that changed at run time to the server, the cleaner, the shards and other parts."""
        self._cleaner.alter(settings)
        self.server.max_connections = settings.max_connections
        self.server.max_connections_per_ip = settings.max_connections_per_ip
        self.server.max_connections_of_ip = overrides_of(settings.max_connections_per_ip_overrides)
        self.server.listener_limits.follow(settings)
        self._verifier.is_enabled = settings.transaction_partition_verification_enable
        self._consumer_settings.assignment_interval_ms = assignment_interval_ms(settings)

    def _on_group_altered(self, group_id: str) -> None:
        """Have the shards go by what is set for a consumer group, from its next heartbeat on."""
        numbers = self.registry.groups.numbers_in_force(group_id, self.registry.settings)
        self._consumer_settings.override(group_id, group_overrides(numbers))

    def _metrics(self) -> Metrics:
        flushes = {
            "journal": self._journal.latencies,
            "topics": self._flusher.latencies,
            "history": self._history_flusher.latencies,
        }
        parts = Parts(self.runtime, self._clock, self.turn_watch, flushes, lambda: self.server, self._events)
        return Metrics(self._settings, parts, self.registry, self._readers)

    def _events(self) -> History | None:
        return None if self._history is None else self._history.history

    def _on_advanced(self, partition: Partition) -> None:
        self.metrics.arrivals.advanced(partition)
        self.runtime.purgatory.check_and_complete(partition.key, self._clock.now_ms())

    # The start.

    async def start(self) -> None:
        """Open the internal topics and the listeners, and begin to load the shards. Raises StartupError."""
        loop = asyncio.get_running_loop()
        self._stop_seeing_turns = see_turns(loop, self.turn_watch.turn_ended)
        if self._stop_seeing_turns is not None:
            self._turn.poll = short_poll_of(loop)
        try:
            self._protection.open(self.server)
            runners = self._runners()
            self._history = self._open_history()
            self._collector.start()
            self._shards.open(*runners)
            self.registry.on_deleted.append(self._on_topic_deleted)
            await self.server.listen(self._settings.endpoints)
        except PartitionCountMismatch as error:
            raise StartupError(f"{error} ({COUNT_OPTION[error.topic]}), which can never change") from error
        except InvalidConfig as error:
            raise StartupError(f"an internal topic cannot be opened: {error}") from error
        except (StorageError, BindError) as error:
            raise StartupError(str(error)) from error
        self.metrics.start()
        self._maintenance.start()
        self._cleaner.start()

    async def serve_http(self, explain: Explain | None = None) -> None:
        """Serve HTTP if it has listeners. Raises StartupError."""
        self._http = await serve_http(self._settings, self._turn, partial(self._sources, explain))

    def _sources(self, explain: Explain | None) -> Sources:
        from coordinator.http.sources import Data, Sources

        assert self._history is not None, "it is opened before clients are served"
        return Sources(
            self._settings,
            self.runtime,
            self.server,
            self.metrics,
            self._history.history,
            self._readers,
            self.registry.topic_name,
            explain,
            Data(self.broker, self._history.partition),
        )

    def _open_history(self) -> HistoryWriter[Partition]:
        settings = self._settings
        overrides = history_topic_config(
            settings.muster_history_topic_retention_ms, settings.muster_history_topic_retention_bytes
        )
        topic = self.registry.internal(HISTORY_TOPIC, 1, overrides)
        self.registry.configure(topic, overrides)
        history = History(settings.muster_history_events_per_group)
        on_event = self.metrics.rebalances.add
        writer = HistoryWriter(history, topic.partitions[0], self.runtime.soon, on_event)
        writer.latest = None if self._telemetry is None else self._telemetry.latest
        return writer

    def _runners(self) -> tuple[list[GroupRunner], list[ShardRunner[TransactionShard]]]:
        """Make the runners of the group shards and of the transaction shards, one for each internal partition."""
        topics = InternalTopics(self.registry, self.runtime, self._settings)
        groups = topics.group_runners(group_shards(self._new_shard))
        return groups, topics.transaction_runners(transaction_shards(self._new_transactions))

    def _on_topic_deleted(self, topic: str, topic_id: bytes) -> None:
        for runner in self.runtime.runners:
            self.runtime.do(partial(runner.topic_deleted, topic, topic_id))

    # The end.

    async def stop(self) -> None:
        """Answer parked requests, flush all appended records, close the connections, and stop all parts."""
        if self._stop_seeing_turns is not None:
            self._stop_seeing_turns()  # From here on nobody waits for a turn.
        if (poll := self._turn.poll) is not None:
            self._turn.poll = None
            poll.close()
        cpu_ms, wall_ms = self.turn_watch.longest
        log.info("the longest turn of the event loop", cpu_ms=round(cpu_ms, 1), wall_ms=round(wall_ms, 1))
        if self._http is not None:
            self._http.stop()
        await self.server.stop_listening()
        self.server.stop_reading()
        await self._encoder.idle()  # Encoded batches are appended, which needs the flusher.
        await self._workers.idle()  # Changes of settings may wait for one that is being written.
        if self._history is not None:
            self._history.close()
        self._cleaner.stop()
        self._collector.stop()
        self.runtime.stop()
        self._journal.close()
        self._history_flusher.close()
        for workers in (self._workers, self._readers, self._encoder, self._maintenance_worker):
            workers.close()
        if self._telemetry is not None:
            self._telemetry.close()
        await asyncio.sleep(0)  # The outcomes of the last work come back in a turn of their own.
        await self.server.close_connections(LAST_ANSWERS_S)


def _report_journal(error: BaseException) -> None:
    """Log what kept the journal's thread from its work; nothing is lost, as the journal stays as it was."""
    trace = None if isinstance(error, StorageError) else error
    log.error("the journal cannot be cleared, tried again later", error=str(error), exc_info=trace)
