"""Reading all logs without end: one Fetch after the other at each broker, for the partitions that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import structlog

from coordinator.backing.kafka.claim_records import UnreadableClaimError
from coordinator.backing.kafka.cluster import (
    BackingCluster,
    BackingError,
    Lane,
    OpenConnection,
    UnavailableError,
    error_of,
)
from coordinator.backing.kafka.fetched import Fetched, fetched
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.runtime.clock import boot_ms
from coordinator.runtime.tasks import spawn
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.records.batch import CorruptBatch

LONGEST_WAIT_MS: Final = 500
"""For news: so often an owner that has nothing to write is proven to be the newest."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
RETRY_S: Final = 0.1
FETCH_BY_ID: Final = 13
"""The first version that names a topic by its id."""

log = structlog.get_logger(__name__)


class Follower(Protocol):
    """What reads one log."""

    @property
    def position(self) -> int:
        """The next offset to read."""

    def on_fetched(self, fetched: Fetched) -> None:
        """The answer to a Fetch at `position`, as that was when it was asked. Raises CorruptBatch, DecodeError."""

    def on_position_gone(self, log_start_offset: int, high_watermark: int) -> None:
        """The log does not have `position`: it begins, or ends, elsewhere."""


class Where(NamedTuple):
    """What one partition was asked for, of whom and when."""

    position: int
    node_id: int
    sent_ms: int
    leader_epoch: int


class Tail:
    """`start` begins to read for all followers, which are given by partition."""

    def __init__(
        self, cluster: BackingCluster, topic: BackingTopic, followers: Mapping[int, Follower]
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._followers = followers
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._complained: dict[str, str] = {}

    def start(self) -> None:
        """Also to be called when leaders may have changed: a broker that leads something new is read from."""
        for node_id in {self._cluster.leader_of(partition) for partition in self._followers}:
            if node_id is None:
                continue
            reader = self._readers.get(node_id)
            if reader is None or reader.done():
                self._readers[node_id] = spawn(self._read(node_id))

    async def close(self) -> None:
        """Read nothing more."""
        for reader in self._readers.values():
            reader.cancel()
        for reader in self._readers.values():
            with suppress(asyncio.CancelledError):
                await reader

    async def _read(self, node_id: int) -> None:
        while positions := self._positions_at(node_id):
            try:
                is_well = await self._fetch(node_id, positions)
            except BackingError as error:
                self._complain(f"broker {node_id}", str(error))
                is_well = False
            if not is_well:
                self._cluster.refresh_soon()
                await asyncio.sleep(RETRY_S)

    def _positions_at(self, node_id: int) -> dict[int, int]:
        """What to ask a broker for: of each partition that it leads, the offset."""
        return {
            partition: follower.position
            for partition, follower in self._followers.items()
            if self._cluster.leader_of(partition) == node_id
        }

    async def _fetch(self, node_id: int, positions: dict[int, int]) -> bool:
        """One Fetch; whether the broker knew all partitions as its own. Raises UnavailableError."""
        opened = await self._cluster.open(node_id, Lane.TAIL)
        return await self._fetch_over(opened, node_id, positions, LONGEST_WAIT_MS)

    async def catch_up(self, opened: OpenConnection, node_id: int, partitions: Iterable[int]) -> None:
        """Read on in these partitions over another connection, waiting for no news. Raises UnavailableError."""
        positions = {partition: self._followers[partition].position for partition in partitions}
        await self._fetch_over(opened, node_id, positions, 0)

    async def _fetch_over(
        self, opened: OpenConnection, node_id: int, positions: dict[int, int], wait_ms: int
    ) -> bool:
        epochs = {partition: self._cluster.leader_epoch_of(partition) for partition in positions}
        asked = [
            FetchPartition(
                partition=partition,
                current_leader_epoch=epochs[partition],
                fetch_offset=offset,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for partition, offset in positions.items()
        ]
        # By the topic's id: one that was deleted and made again under the same name is another log.
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic_id=self._topic.topic_id, partitions=asked)],
        )
        sent_ms = boot_ms()
        answer = await self._cluster.ask_over(opened, request, min_version=FETCH_BY_ID)
        if answer.error_code != ErrorCode.NONE:
            raise UnavailableError(f"Fetch: {error_of(answer.error_code).name}")
        is_well = True
        for topic in answer.responses:
            for data in topic.partitions:
                partition = data.partition_index
                where = Where(positions[partition], node_id, sent_ms, epochs[partition])
                is_well &= self._take(data, where)
        return is_well

    def _take(self, data: PartitionData, where: Where) -> bool:
        partition, about = data.partition_index, f"partition {data.partition_index}"
        follower = self._followers[partition]
        if follower.position != where.position:
            return True  # It has begun anew meanwhile, or read this over another connection.
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            follower.on_position_gone(data.log_start_offset, data.high_watermark)
            return False
        if data.error_code != ErrorCode.NONE:
            self._complain(about, error_of(data.error_code).name)
            return False
        try:
            follower.on_fetched(fetched(data, *where))
        except (CorruptBatch, DecodeError, UnreadableClaimError) as error:
            self._complain(about, str(error))  # It stays where it is, and the others are read on.
            return False
        except Exception as error:  # A bug of ours; the others are read on.
            self._complain(about, f"{type(error).__name__}: {error}", error)
            return False
        self._complained.pop(about, None)
        return True

    def _complain(self, about: str, reason: str, trace: Exception | None = None) -> None:
        """Log a reason once, until it is another or is over."""
        if self._complained.get(about) != reason:
            self._complained[about] = reason
            log.warning(
                "the log on Kafka cannot be read",
                topic=self._topic.name,
                about=about,
                reason=reason,
                exc_info=trace,
            )
