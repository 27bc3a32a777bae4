"""Shards, topics and logs of one directory without threads, sockets and clocks, and what clients were answered.

A `CrashWorld` runs a workload on the double of the disk and keeps accounts: of every key what was sent and what of
it was acknowledged, in order. `look` opens a directory, as a daemon does that starts on it, and says what
clients would find there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from coordinator.effects import RequestContext
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.partitioning import partition_for
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.shard.shard import Shard
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.settings import TopicSettings
from harness.doubles.fake_pending import FakePending
from harness.doubles.runtime_world import Asker
from protocol.errors import DecodeError
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.records import Codec, CorruptBatch, read_records
from storage.files import Files, StorageError
from storage.log.config import INT64_MAX
from tests.topics.requests import produce_request
from tests.topics.world import World, batch

SHARDS = 2
SHARD_LOG = {"cleanup.policy": "compact", "index.interval.bytes": "300"}
SHARD_SEGMENT_BYTES, TOPIC_SEGMENT_BYTES = 1500, 700  # Smaller than any setting allows.
TOPIC_LOG = {"index.interval.bytes": "200", "retention.bytes": "1500"}
GROUP_SETTINGS = GroupSettings(group_initial_rebalance_delay_ms=0)
ABSENT = None
MEMORY = Path("/dev/shm")


@dataclass(slots=True)
class Account:
    """Of one thing: all that it was to become, in order, and how far that was acknowledged."""

    sent: list[Any] = field(default_factory=lambda: [ABSENT])
    acknowledged: int = 0  # The index of the newest that was.

    def possible(self) -> list[Any]:
        """What may be found after a crash: the newest that was acknowledged, or anything sent since."""
        return self.sent[self.acknowledged :]


class Listening(Asker):
    """Hears of an answer at the moment that it leaves: what comes after is too late to count."""

    def __init__(self, on_reply: Callable[[Any], None]) -> None:
        super().__init__()
        self._on_reply = on_reply

    def reply(self, response: Any) -> None:
        super().reply(response)
        self._on_reply(response)


class ListeningPending(FakePending):
    """The same for a request to the data plane."""

    def __init__(self, api_version: int, on_reply: Callable[[Any], None]) -> None:
        super().__init__(api_version)
        self._on_reply = on_reply

    def reply(self, response: Any) -> None:
        super().reply(response)
        self._on_reply(self.answer)


class CrashWorld(World):
    """`World` with shards of groups."""

    load_buffer_bytes = 4096

    def __init__(self, directory: Path, files: Files, is_synced: bool = True, tolerant: bool = False) -> None:
        settings = TopicSettings(log_flush_interval_messages=1 if is_synced else INT64_MAX)
        super().__init__(directory, settings, files, is_journal_synced=is_synced)
        self.accounts: dict[tuple[str, ...], Account] = {}
        topic = self.registry.internal(GROUP_METADATA_TOPIC, SHARDS, SHARD_LOG)
        kind = group_shards(lambda partition: Shard(partition, GROUP_SETTINGS, self.registry))
        self.runners = [
            GroupRunner(
                kind,
                partition.index,
                partition.durable_log,
                self,
                max_batch_bytes=1000,
                codec=Codec.NONE,
                commit_timeout_ms=5000,
            )
            for partition in topic.partitions
        ]
        self._shrink_segments()
        for runner in self.runners:
            try:
                self.read_shard(runner, cut_back=False)
            except (StorageError, CorruptBatch, DecodeError) as error:
                if not tolerant:
                    raise
                runner.on_load_failed(error)

    @classmethod
    @contextmanager
    def opened(
        cls, directory: Path, files: Files, is_synced: bool = True, *, tolerant: bool = False
    ) -> Iterator[Self]:
        """A world on `directory`; afterwards it is let go of as a process does that is killed.

        With `tolerant`, shards whose logs cannot be read serve nothing, as in the daemon.
        """
        world = cls(directory, files, is_synced, tolerant)
        try:
            yield world
        finally:
            world.logs._lock_file.close()

    def _shrink_segments(self) -> None:
        for topic in self.registry.all():
            size_bytes = SHARD_SEGMENT_BYTES if topic.is_internal else TOPIC_SEGMENT_BYTES
            for partition in topic.partitions:
                partition.log.config = replace(partition.log.config, segment_bytes=size_bytes)

    # What clients do.

    def group_request(
        self, group_id: str, request: Any, version: int, on_reply: Callable[[Any], None] = lambda _: None
    ) -> Any:
        asker = Listening(on_reply)
        context = RequestContext(asker, version, "client", "/127.0.0.1", "u" * 22)
        self.runners[partition_for(group_id, SHARDS)].request(request, context)
        self.fire_due()
        self.settle()
        return asker.answer

    def _change(
        self,
        changes: dict[tuple[str, ...], Any],
        send: Callable[[Callable[[Any], None]], Any],
        error_of: Callable[[Any], int],
    ) -> None:
        """`send` a request; all `changes` count as acknowledged from the moment of an answer without error on."""
        indexes = []
        for key, value in changes.items():
            account = self.accounts.setdefault(key, Account())
            indexes.append((account, len(account.sent)))
            account.sent.append(value)

        def on_reply(answer: Any) -> None:
            if error_of(answer) == 0:
                for account, index in indexes:
                    account.acknowledged = index

        send(on_reply)

    def _topic_request(self, request: Any, version: int, on_reply: Callable[[Any], None]) -> None:
        self.hand_over(request, ListeningPending(version, on_reply))
        self.settle()

    def commit(self, group_id: str, offset: int, metadata: str = "", topic: str = "t") -> None:
        entry = OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=offset % 5,
            committed_metadata=metadata,
        )
        request = OffsetCommitRequest(
            group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[entry])]
        )
        self._change(
            {("offset", group_id, topic): (offset, offset % 5, metadata)},
            lambda on_reply: self.group_request(group_id, request, 8, on_reply),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def rebalance(self, group_id: str, member_id: str = "") -> str:
        """A group of one member gets its next generation; the member's id."""
        joined = self.group_request(group_id, _join(group_id, member_id), 3)
        mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a" * 40)
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[mine],
        )
        self._change(
            {("generation", group_id): joined.generation_id},
            lambda on_reply: self.group_request(group_id, request, 3, on_reply),
            lambda answer: answer.error_code,
        )
        return str(joined.member_id)

    def delete_group(self, group_id: str, topic: str = "t") -> None:
        request = DeleteGroupsRequest(groups_names=[group_id])
        self._change(
            {("offset", group_id, topic): ABSENT},
            lambda on_reply: self.group_request(group_id, request, 1, on_reply),
            lambda answer: answer.results[0].error_code,
        )

    def create_topic(self, name: str) -> None:
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in TOPIC_LOG.items()]
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1)
        self._change(
            {("topic", name): "there"},
            lambda on_reply: self._topic_request(request, 5, on_reply),
            lambda answer: answer.topics[0].error_code,
        )
        self._shrink_segments()

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1)
        self._change(
            {("topic", name): ABSENT},
            lambda on_reply: self._topic_request(request, 6, on_reply),
            lambda answer: answer.responses[0].error_code,
        )
        self.accounts.pop(("records", name), None)
        self.accounts.pop(("start", name), None)

    def produce(self, name: str, size_bytes: int = 50) -> None:
        key = ("records", name)
        count = (self.accounts[key].sent[-1] or 0) + 1 if key in self.accounts else 1

        request = produce_request(batch(b"v" * size_bytes), name)
        self._change(
            {key: count},
            lambda on_reply: self._topic_request(request, 9, on_reply),
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )

    def delete_records(self, name: str, offset: int) -> None:
        """DeleteRecords: the log begins at `offset`, for good once that is answered."""
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[partition])])
        self._change(
            {("start", name): offset},
            lambda on_reply: self._topic_request(request, 2, on_reply),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def retain(self) -> None:
        """Let old segments of topics go, and write the checkpoints, as maintenance does."""
        for topic in self.registry.all():
            for partition in topic.partitions:
                if topic.config.is_deleting:
                    partition.log.apply_retention(self.wall)
        for log, error in self.logs.journal.checkpoint(self.wall):
            log.on_written(error)
        self.logs.checkpoint()

    def stop(self) -> None:
        """A clean shutdown."""
        self.settle()
        assert self.logs.close() == []


def _join(group_id: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m" * 30)],
    )


@contextmanager
def quick_folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory, if that can be had: for thousands of directories of thirty files each."""
    with TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else otherwise) as folder:
        yield Path(folder)


def found(world: CrashWorld, key: tuple[str, ...]) -> Any:
    """What a client would find of one thing; every batch that is read on the way has to check."""
    kind, name, *rest = key
    if kind == "topic":
        return ABSENT if world.registry.get(name) is None else "there"
    if kind == "records":
        return count_records(world, name)
    if kind == "start":
        partition = world.registry.partition(name, 0)
        return ABSENT if partition is None else partition.log_start_offset
    shard = world.runners[partition_for(name, SHARDS)].shard
    if shard is None:
        raise StorageError("read", world.directory, "a shard that could not be loaded")
    if kind == "offset":
        committed = shard.offsets.get(name, rest[0], 0)
        return ABSENT if committed is None else (committed.offset, committed.leader_epoch, committed.metadata)
    stored = shard.stored.get(name)
    return stored.generation_id if stored is not None and stored.generation_id else ABSENT


def count_records(world: CrashWorld, name: str) -> int | None:
    """The end of a topic's log, which has no gap behind its start: looked for once every batch has checked."""
    partition = world.registry.partition(name, 0)
    if partition is None:
        return ABSENT
    log = partition.log
    offset = None
    for each, data in list(log.batches(log.log_start_offset)):
        for record in read_records(data, each):
            assert offset in (None, record.offset), "no gap"
            offset = record.offset + 1
    assert offset in (None, log.next_offset)
    return log.next_offset or ABSENT
