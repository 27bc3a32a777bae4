"""An ordinary topic of the backing cluster that a node appends to, beside its shards: what happened to groups.

Batches go to one partition, in their order and each once: as an idempotent producer's, sent again until they are
known to be there. No commit waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from coordinator.backing.claims import Writer
from coordinator.backing.events import AppendError
from coordinator.backing.kafka.cluster import (
    WHILE_LEADERS_CHANGE,
    BackingCluster,
    BackingError,
    Lane,
    UnavailableError,
    error_of,
)
from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.sender import PRODUCE_BY_ID, Outcome, outcome_of, produce_request
from coordinator.backing.kafka.topic import BackingTopic, found_or_made
from coordinator.runtime.tasks import end, spawn
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.batch import BatchProducer, parse_header, set_base_offset, set_producer

PARTITIONS: Final = 1
"""Of a topic that is made here: the events of all nodes, in the order in which they came."""
AGAIN_S: Final = 0.5
CLOSE_S: Final = 1.0
"""What a stop waits for the last events."""
SEQUENCE_LIMIT: Final = 2**31
NO_LEADER_EPOCH: Final = -1
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

log = structlog.get_logger(__name__)

OnDone = Callable[[ErrorCode], None]


class _Waiting(NamedTuple):
    batch: bytearray
    done: OnDone | None


class EventTopic:
    """`open` before anything is appended, `close` at the end. `cluster` is its own: it follows this topic."""

    def __init__(self, cluster: BackingCluster, name: str, node_id: int) -> None:
        self._cluster = cluster
        self._name = name
        self._node_id = node_id
        self._topic: BackingTopic | None = None
        self._settings: Mapping[str, str] = {}
        self._partition = 0
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writer: Writer | None = None
        self._sequence = 0
        self._complaints = Complaints(log, "history events cannot be written", topic=name)

    async def open(self, settings: Mapping[str, str]) -> None:
        """Find the topic, or make it with these settings. Raises BackingError."""
        self._settings = settings
        await self._cluster.start()
        await self._find()

    async def _find(self) -> None:
        """The topic as it is now, which may have been deleted and made again: what it had is not in it."""
        self._topic, _ = await found_or_made(self._cluster, self._name, PARTITIONS, self._settings)
        self._partition = self._node_id % self._topic.partition_count
        self._writer = None
        await self._cluster.follow(self._name)

    def append_local(self, data: bytearray, done: OnDone | None = None) -> None:
        """Append a batch; `done` is called when it is there, or with why it never will be."""
        set_base_offset(data, 0, NO_LEADER_EPOCH)
        self._waiting.append(_Waiting(data, done))
        if self._task is None or self._task.done():
            self._task = spawn(self._run())

    async def close(self) -> None:
        """Append what still waits, if that can be done soon."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)
            await end(self._task)
        if self._waiting:
            log.warning("history events were not written", topic=self._name, batches=len(self._waiting))
        await self._cluster.close()

    async def _run(self) -> None:
        while self._waiting:
            batch, done = self._waiting[0]
            try:
                error = await self._append(batch)
            except Exception:  # A bug of ours, which ends with this batch.
                log.exception("history events cannot be appended", topic=self._name)
                error = ErrorCode.UNKNOWN_SERVER_ERROR
            self._waiting.popleft()
            if done is not None:
                done(error)

    async def _append(self, batch: bytearray) -> ErrorCode:
        """NONE once it is there; an error if it is refused, whenever it is sent."""
        count = parse_header(batch).record_count
        content: bytes | None = None
        while True:
            try:
                if self._topic is None:
                    await self._find()
                if self._writer is None or content is None:
                    content = await self._numbered(batch)
                outcome = await self._sent(content)
            except BackingError as error:
                self._complaints.say(str(error))
                outcome = AppendError.RETRIABLE
            if isinstance(outcome, int):
                self._complaints.over()
                self._sequence = (self._sequence + count) % SEQUENCE_LIMIT
                return ErrorCode.NONE
            if outcome is not AppendError.RETRIABLE:
                self._writer = None  # Where it stands is not known any more: the next is another's first.
                return ErrorCode.INVALID_RECORD
            self._cluster.refresh_soon()
            await asyncio.sleep(AGAIN_S)

    async def _numbered(self, batch: bytearray) -> bytes:
        """The bytes of a batch, the same however often they are sent."""
        if self._writer is None:
            answer = await self._cluster.ask_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            )
            if answer.error_code != ErrorCode.NONE:
                raise UnavailableError(f"InitProducerId: {error_of(answer.error_code).name}")
            self._writer, self._sequence = Writer(answer.producer_id, answer.producer_epoch), 0
        set_producer(batch, BatchProducer(*self._writer, self._sequence))
        return bytes(batch)

    async def _sent(self, content: bytes) -> Outcome:
        leader = self._cluster.leader_of(self._partition)
        assert self._topic is not None, "it was looked for"
        if leader is None:
            return AppendError.RETRIABLE
        answer = await self._cluster.ask(
            leader,
            produce_request(self._topic, {self._partition: content}),
            Lane.APPEND,
            min_version=PRODUCE_BY_ID,
        )
        (result,) = answer.responses[0].partition_responses
        outcome, error = outcome_of(result), error_of(result.error_code)
        if error in GONE:
            self._topic = None
        if error in WHILE_LEADERS_CHANGE:
            self._complaints.say_if_it_lasts(error.name)
        elif isinstance(outcome, AppendError):
            self._complaints.say(error.name)
        return outcome
