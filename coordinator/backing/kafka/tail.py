"""Reading all logs without end: one Fetch after the other at each broker, for the partitions that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import structlog

from coordinator.backing.kafka.claim_records import UnreadableClaimError
from coordinator.backing.kafka.cluster import (
    SLOW_RETRY_S,
    WHILE_LEADERS_CHANGE,
    BackingCluster,
    BackingError,
    Lane,
    OpenConnection,
    TooOldError,
    UnavailableError,
    error_of,
)
from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.fetch_session import Asked, FetchSession, partitions_of
from coordinator.backing.kafka.fetched import Fetched, UntakenBatchError, fetched
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.runtime.clock import boot_ms
from coordinator.runtime.tasks import end, spawn
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from protocol.records.batch import CorruptBatch

LONGEST_WAIT_MS: Final = 500
"""For news: so often an owner that has nothing to write is proven to be the newest."""
NEWS_EVERY_S: Final = 0.02
"""Where all is read, Fetches at one broker are so far apart: else each batch of anybody is one of every node."""
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
RETRY_S: Final = 0.1
UNREADABLE_RETRY_MS: Final = 100
UNREADABLE_RETRY_MS_MAX: Final = 5_000
"""What could not be read or taken is left alone for so long, and twice as long each time after."""
FETCH_BY_ID: Final = 13
"""The first version that names a topic by its id."""
OUT_OF_SESSION: Final = -1
"""The epoch of a Fetch that is in no session and asks for none."""

log = structlog.get_logger(__name__)


class Follower(Protocol):
    """What reads one log."""

    @property
    def position(self) -> int:
        """The next offset to read."""

    def heeds_silence(self, now_ms: int) -> bool:
        """Whether it has to hear of an answer with nothing new: it proves an owner, or that all was read."""

    def on_fetched(self, fetched: Fetched) -> None:
        """The answer to a Fetch at `position`, as that was when it was asked.

        What it raises is why it could not take it: it has begun anew then.
        """

    def on_position_gone(self, log_start_offset: int, high_watermark: int) -> None:
        """The log does not have `position`: it begins, or ends, elsewhere."""


class Where(NamedTuple):
    """What one partition was asked for, of whom and when."""

    asked: Asked
    node_id: int
    sent_ms: int


class Tail:
    """`start` begins to read for all followers, which are given by partition."""

    def __init__(
        self, cluster: BackingCluster, topic: BackingTopic, followers: Mapping[int, Follower]
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._followers = followers
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._led: dict[int, list[int]] = {}  # The partitions of each broker, as of the newest `start`.
        # By broker, with the connection over which it was opened.
        self._sessions: dict[int, tuple[OpenConnection, FetchSession]] = {}
        # Whether the newest Fetch at a broker did not reach the end of all logs.
        self._is_behind: dict[int, bool] = {}
        # Partitions that could not be read, until they were: when they are looked into again, after how long.
        self._left_alone: dict[int, tuple[int, int]] = {}
        self._complaints = Complaints(log, "the log on Kafka cannot be read", topic=topic.name)

    def start(self) -> None:
        """Also to be called when leaders may have changed: a broker that leads something new is read from."""
        self._led = {}
        for partition in self._followers:
            if (leader := self._cluster.leader_of(partition)) is not None:
                self._led.setdefault(leader, []).append(partition)
        for node_id in self._led:
            reader = self._readers.get(node_id)
            if reader is None or reader.done():
                self._readers[node_id] = spawn(self._read(node_id))

    async def close(self) -> None:
        """Read nothing more."""
        await end(*self._readers.values())

    async def _read(self, node_id: int) -> None:
        while partitions := self._led.get(node_id):
            began_s = asyncio.get_running_loop().time()
            if not (readable := self._readable(partitions)):
                await asyncio.sleep(RETRY_S)
                continue
            pause_s = RETRY_S
            try:
                is_well = await self._fetch(node_id, readable)
            except BackingError as error:
                self._complaints.say(str(error), f"broker {node_id}")
                is_well = False
                if isinstance(error, TooOldError):
                    pause_s = SLOW_RETRY_S
            except Exception as error:  # A bug of ours; without this nothing of this broker is read any more.
                self._complaints.bug(error, f"broker {node_id}")
                is_well, pause_s = False, SLOW_RETRY_S
            else:
                self._complaints.over(f"broker {node_id}")
            if not is_well:
                self._cluster.refresh_soon()
                await asyncio.sleep(pause_s)
            elif not self._is_behind[node_id]:
                await asyncio.sleep(began_s + NEWS_EVERY_S - asyncio.get_running_loop().time())

    async def _fetch(self, node_id: int, partitions: Iterable[int]) -> bool:
        """One Fetch; whether the broker knew all partitions as its own. Raises UnavailableError."""
        opened = await self._cluster.open(node_id, Lane.TAIL)
        # It comes back when its answer was understood: without that it is not known where the broker is in it.
        of_connection, session = self._sessions.pop(node_id, (opened, FetchSession()))
        if of_connection is not opened:
            session = FetchSession()
        wanted = self._asked(partitions)
        changed, gone = session.changes(wanted)
        request = self._request(changed, LONGEST_WAIT_MS)
        request.session_id, request.session_epoch = session.session_id, session.epoch
        if gone:
            request.forgotten_topics_data = [ForgottenTopic(topic_id=self._topic.topic_id, partitions=gone)]
        answer, sent_ms = await self._answer(opened, request)
        named = session.take(answer)
        self._sessions[node_id] = opened, session
        is_well = self._take_all(answer, node_id, sent_ms, wanted)
        for partition, asked in wanted.items():
            if partition in named:
                continue
            if partition not in changed and not self._followers[partition].heeds_silence(sent_ms):
                continue
            if (data := session.silent(answer, partition)) is not None:
                is_well &= self._take(data, Where(asked, node_id, sent_ms))
        self._is_behind[node_id] = any(
            self._followers[each.partition_index].position < each.high_watermark
            for each in partitions_of(answer)
        )
        return is_well

    async def catch_up(self, opened: OpenConnection, node_id: int, partitions: Iterable[int]) -> None:
        """Read on in these partitions over another connection, waiting for no news. Raises UnavailableError."""
        wanted = self._asked(self._readable(partitions))
        if not wanted:
            return
        answer, sent_ms = await self._answer(opened, self._request(wanted, 0))
        self._take_all(answer, node_id, sent_ms, wanted)

    def _readable(self, partitions: Iterable[int]) -> list[int]:
        """Those that are not left alone for a while."""
        if not self._left_alone:
            return list(partitions)
        now_ms = boot_ms()
        return [each for each in partitions if self._left_alone.get(each, (0, 0))[0] <= now_ms]

    def _asked(self, partitions: Iterable[int]) -> dict[int, Asked]:
        followers, epoch_of = self._followers, self._cluster.leader_epoch_of
        return {each: Asked(followers[each].position, epoch_of(each)) for each in partitions}

    def _request(self, wanted: Mapping[int, Asked], wait_ms: int) -> FetchRequest:
        # By the topic's id: one that was deleted and made again under the same name is another log.
        named = [
            FetchPartition(
                partition=partition,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.position,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for partition, asked in wanted.items()
        ]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            session_epoch=OUT_OF_SESSION,
            topics=[FetchTopic(topic_id=self._topic.topic_id, partitions=named)] if named else [],
        )

    async def _answer(self, opened: OpenConnection, request: FetchRequest) -> tuple[FetchResponse, int]:
        """And when it was asked for."""
        sent_ms = boot_ms()
        answer: FetchResponse = await self._cluster.ask_over(opened, request, min_version=FETCH_BY_ID)
        if answer.error_code != ErrorCode.NONE:
            raise UnavailableError(f"Fetch: {error_of(answer.error_code).name}")
        return answer, sent_ms

    def _take_all(
        self, answer: FetchResponse, node_id: int, sent_ms: int, wanted: Mapping[int, Asked]
    ) -> bool:
        is_well = True
        for data in partitions_of(answer):
            if (asked := wanted.get(data.partition_index)) is not None:
                is_well &= self._take(data, Where(asked, node_id, sent_ms))
        return is_well

    def _take(self, data: PartitionData, where: Where) -> bool:
        partition, about = data.partition_index, f"partition {data.partition_index}"
        follower = self._followers[partition]
        if follower.position != where.asked.position:
            return True  # It has begun anew meanwhile, or read this over another connection.
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            follower.on_position_gone(data.log_start_offset, data.high_watermark)
            return False
        if data.error_code != ErrorCode.NONE:
            error = error_of(data.error_code)
            complain = (
                self._complaints.say_if_it_lasts if error in WHILE_LEADERS_CHANGE else self._complaints.say
            )
            complain(error.name, about)
            return False
        (position, leader_epoch), node_id, sent_ms = where
        try:
            read = fetched(data, position, node_id, sent_ms, leader_epoch)
        except (CorruptBatch, DecodeError, UnreadableClaimError) as error:
            self._leave_alone(partition, f"from offset {position} on: {error}")  # It stays where it is.
            return True
        try:
            follower.on_fetched(read)
        except UntakenBatchError as error:
            self._leave_alone(partition, str(error), error)
            return True
        except Exception as error:  # A bug of ours; the others are read on.
            self._leave_alone(partition, f"from offset {position} on: {type(error).__name__}: {error}", error)
            return True
        if read.is_whole:  # Before that it may be on its way to what it could not take.
            self._complaints.over(about)
            self._left_alone.pop(partition, None)
        return True

    def _leave_alone(self, partition: int, reason: str, trace: Exception | None = None) -> None:
        """Read nothing of a partition for a while; the others are read on."""
        self._complaints.say(reason, f"partition {partition}", trace)
        _, before_ms = self._left_alone.get(partition, (0, 0))
        pause_ms = min(2 * before_ms or UNREADABLE_RETRY_MS, UNREADABLE_RETRY_MS_MAX)
        self._left_alone[partition] = boot_ms() + pause_ms, pause_ms
