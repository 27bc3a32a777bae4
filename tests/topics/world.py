"""The data plane without threads, sockets and clocks: real logs in a temporary directory, virtual time.

Whatever would run on a thread is queued and runs in `settle`, in order; so a test decides what has happened
on the disk when it looks at the answers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from coordinator.data.broker import Broker
from coordinator.data.fetch_sessions import FetchSessions
from coordinator.data.markers import Markers
from coordinator.data.producer_ids import ProducerIds
from coordinator.data.transaction_verifier import TransactionVerifier
from coordinator.purgatory.delayed import Purgatory
from coordinator.purgatory.timing_wheel import TimingWheel
from coordinator.security.scram_users import ScramUsers
from coordinator.server.topic_apis import topic_handlers
from coordinator.topics.names import SHARD_TOPICS
from coordinator.topics.partition import Partition, PartitionServices
from coordinator.topics.placement import Node, Placement
from coordinator.topics.registry import TopicRegistry
from coordinator.topics.settings import TopicSettings
from coordinator.topics.store import TopicStore
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import topic_config
from harness.doubles.fake_pending import FakePending
from harness.doubles.runtime_world import WALL_MS, RuntimeWorld
from protocol.codec.codec import decode, encode, spec
from protocol.records.records import Record
from storage.directory.log_directory import LogDirectory
from storage.files import Files, OnFlushed
from storage.log.staged_log import StagedLog
from tests.batches import encode_batch

ENDPOINTS = {"HOST": ("localhost", 9092), "DOCKER": ("broker", 19092)}


class World(RuntimeWorld):
    """One broker on `directory`; `restart` gives the next one."""

    def __init__(
        self,
        directory: Path,
        settings: TopicSettings | None = None,
        files: Files | None = None,
        verifier: TransactionVerifier | None = None,
        is_journal_synced: bool = True,
    ) -> None:
        super().__init__()
        self.directory = directory
        self.settings = settings or TopicSettings(cluster_id="tests")
        self.files = files or Files()
        self.armed: list[int] = []
        self.wheel = TimingWheel(self.time_ms)
        self.purgatory = Purgatory(self.wheel)
        self.logs = LogDirectory.open(directory, self.files, node_id=1, is_journal_synced=is_journal_synced)
        self._is_behind = False  # Whether writing behind the journal is queued.
        shards = replace(self.log_host, schedule_flush=self.schedule_frame)
        services = PartitionServices(
            lambda topic: shards if topic in SHARD_TOPICS else self.log_host,
            self,
            self,
            lambda: self.wall,
            self._on_advanced,
        )
        store = TopicStore(self.logs, self.files)
        self.registry = TopicRegistry(store, self.settings, services, self)
        self.registry.open()
        own = Node(self.settings.node_id, ENDPOINTS.__getitem__, self.settings.rack)
        self.placement = Placement(own)
        self.broker = Broker(
            settings=self.settings,
            registry=self.registry,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(self.settings.max_incremental_fetch_session_cache_slots),
            producer_ids=ProducerIds(directory, self.files, self),
            readers=self,
            now_ms=lambda: self.time_ms,
            wall_ms=lambda: self.wall,
            arm=self.armed.append,
            placement=self.placement,
            markers=Markers(self.registry),
            scram_users=ScramUsers.in_directory(directory, self.files, self),
            verifier=verifier,
        )
        self.broker.scram_users.open()
        self.handlers = topic_handlers(self.broker)

    # What partitions call.

    def schedule_frame(self, log: StagedLog, done: OnFlushed) -> None:
        """Write a frame on a thread, and what is behind it on another, as `JournalThreads` does."""

        def write() -> None:
            self.flush_count += 1
            error = self.logs.journal.write([log]).get(log)
            self.queue.append(lambda: done(error))
            if not self._is_behind:
                self._is_behind = True
                self.queue.append(self._write_behind)

        self.queue.append(write)

    def _write_behind(self) -> None:
        self._is_behind = False
        for log, error in self.logs.journal.write_behind():
            log.on_written(error)

    def _on_advanced(self, partition: Partition) -> None:
        self.purgatory.check_and_complete(partition.key, self.time_ms)

    # What tests do.

    def pass_time(self, by_ms: int) -> None:
        self.time_ms += by_ms
        self.wall += by_ms
        for entry in self.wheel.advance(self.time_ms):
            entry.fire(self.time_ms)

    def start(self, request: Any, version: int, **pending: Any) -> FakePending:
        """Hand over a request; threads have not run yet."""
        waiting = FakePending(version, **pending)
        self.hand_over(request, waiting)
        return waiting

    def hand_over(self, request: Any, waiting: FakePending) -> None:
        """Hand over a request as its version is sent, to be answered to `waiting`."""
        key, version = spec(type(request)).api_key, waiting.api_version
        assert key is not None
        self.handlers[key](decode(type(request), version, encode(request, version)), waiting)

    def ask(self, request: Any, version: int, **pending: Any) -> Any:
        """The answer, once everything has settled."""
        waiting = self.start(request, version, **pending)
        self.settle()
        assert waiting.is_answered, f"no answer to {request}"
        return waiting.answer

    def topic(self, name: str, partitions: int = 1, **overrides: str) -> None:
        """Make a topic; option names with '_' for '.'."""
        errors: list[int] = []
        config = topic_config(
            {key.replace("_", "."): value for key, value in overrides.items()}, self.settings
        )
        self.registry.create(
            name, partitions, config, bytes([len(self.registry.all()) + 1] * 16), errors.append
        )
        self.settle()
        assert errors == [0]

    def restart(self) -> World:
        """Close cleanly and open again."""
        self.settle()
        assert self.logs.close() == []
        return World(self.directory, self.settings, self.files, self.broker.verifier)


def topic_of(world: World, name: str) -> Topic:
    """A topic that is there."""
    topic = world.registry.get(name)
    assert topic is not None, f"no topic {name}"
    return topic


def batch(*values: bytes | None, key: bytes | None = b"k", at_ms: int = WALL_MS, **options: Any) -> bytes:
    """A batch with these values, in the order of time."""
    records = [Record(key, value, at_ms + index) for index, value in enumerate(values)]
    return bytes(encode_batch(records, **options))
