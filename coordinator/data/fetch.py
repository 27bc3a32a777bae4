"""Fetch (key 1): records from partitions, at once or when there are enough (KIP-74, KIP-227, KIP-320).

The request, or the session that it continues, names the wanted partitions. They are read; if that gives fewer
bytes than `min_bytes` and there is time to wait, the request is parked, and they are read once more when it wakes.
With READ_COMMITTED a partition is read up to its last stable offset, and the answer names the aborted transactions
before that.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from coordinator.data.broker import Broker, ClientRequest, Meter
from coordinator.data.delayed_fetch import SLICE_MS, DelayedFetch, Mark, mark
from coordinator.data.fetch_read import FetchLimits, FetchRead, Target, resolve
from coordinator.data.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Answers,
    FetchContext,
    Key,
    WantedPartition,
    wanted_partition,
)
from coordinator.security.acls import CLUSTER_NAME, Operation, ResourceType
from coordinator.topics.partition import READ_COMMITTED
from coordinator.topics.refusal import Countdown
from protocol.codec.codec import encode_into
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse

TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15


def handle(broker: Broker, request: FetchRequest, pending: ClientRequest) -> None:
    """Answer with record batches, at once or when there are enough.

    Errors of the whole: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
    Per partition: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID,
    UNKNOWN_SERVER_ERROR (a limit below zero), OFFSET_OUT_OF_RANGE, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
    """
    context = _context(broker, request, pending.api_version)
    limits = _limits(broker, request, pending.meter)
    _Fetch(broker, context, limits, pending, _reading(request, pending)).start()


def _reading(request: FetchRequest, pending: ClientRequest) -> Reading | None:
    """Return what the client may read; None: everything, as a replica may with CLUSTER_ACTION."""
    if not pending.is_guarded:
        return None
    by_state = pending.api_version >= REPLICA_STATE_SINCE
    replica_id = request.replica_state.replica_id if by_state else request.replica_id
    if replica_id < 0:
        return Reading(lambda name: pending.may(Operation.READ, ResourceType.TOPIC, name))
    if pending.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    return Reading(lambda _name: False, refuses_all=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """Which topics the client may read, by name, for as long as the fetch is parked (A9)."""

    may_read: Callable[[str], bool]
    refuses_all: bool = False
    """Whether partitions of unknown topics are refused as well."""


def _context(broker: Broker, request: FetchRequest, version: int) -> FetchContext:
    uses_topic_ids = version >= TOPIC_IDS_SINCE
    asked = _wanted_partitions(request)
    now_ms = broker.now_ms()
    sessions = broker.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        return sessions.full_fetch(request.session_id, request.session_epoch, asked, uses_topic_ids, now_ms)
    forgotten: list[Key] = [
        (topic.topic_id, topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return sessions.incremental_fetch(
        request.session_id, request.session_epoch, asked, forgotten, uses_topic_ids, now_ms
    )


def _wanted_partitions(request: FetchRequest) -> list[WantedPartition]:
    """Return the request's partitions; of one named twice the last entry counts, in the place of the first."""
    asked: dict[Key, WantedPartition] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted = wanted_partition(topic.topic_id, topic.topic, partition)
            asked[wanted.key] = wanted
    return list(asked.values())


def _limits(broker: Broker, request: FetchRequest, meter: Meter | None) -> FetchLimits:
    max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
    if meter is not None:
        max_bytes = min(max_bytes, meter.fetch_max_bytes)
    return FetchLimits(
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_wait_ms=request.max_wait_ms,
        is_read_committed=request.isolation_level == READ_COMMITTED,
    )


def _size_bytes(response: FetchResponse, version: int) -> int:
    """Return the size of an answer as Kafka counts it for quotas: the body, and its length."""
    out: list[Any] = []
    encode_into(response, version, out)
    return 4 + sum(map(len, out))


@dataclass(frozen=True, slots=True)
class _Fetch:
    """One fetch from the first read, through parking, to the answer."""

    broker: Broker
    context: FetchContext
    limits: FetchLimits
    pending: ClientRequest
    reading: Reading | None

    def start(self) -> None:
        """Read; with READ_COMMITTED, once the open transactions of all partitions are known."""
        deadline_ms = self.broker.now_ms() + self.limits.max_wait_ms
        known = Countdown(lambda: self._read(deadline_ms))
        for wanted in self.context.partitions if self.limits.is_read_committed else ():
            partition = self._resolved(wanted).partition
            if partition is not None and partition.is_readable:
                known.begin()
                partition.when_producers_known(known.end)
        known.seal()

    def _read(self, deadline_ms: int | None) -> None:
        """Read all partitions; if there are too few bytes, park until `deadline_ms`, unless it is None."""
        targets = [self._resolved(wanted) for wanted in self.context.partitions]
        # Made before the read, so that bytes that are flushed while it runs are not missed.
        is_read_committed = self.limits.is_read_committed
        marks = [each for target in targets if (each := mark(target, is_read_committed)) is not None]
        reading = FetchRead(targets, self.limits)

        def on_read() -> None:
            bytes_needed = self.limits.min_bytes - reading.bytes_read
            may_wait = deadline_ms is not None and self.limits.max_wait_ms > 0
            if may_wait and marks and bytes_needed > 0 and not reading.has_error:
                self._park(marks, bytes_needed, deadline_ms or 0)
            else:
                self.pending.reply(self._response(reading.answers))

        if reading.read_warm():
            on_read()
            return

        def on_rest(rest: Future[None]) -> None:
            rest.result()
            on_read()

        self.broker.readers.submit(reading.read_rest, on_rest)

    def _response(self, answers: Answers) -> FetchResponse:
        """Return the response with `answers`; if the client is throttled without, and its session as it was."""
        meter, version = self.pending.meter, self.pending.api_version
        if meter is None:
            return self.context.respond(answers)
        if meter.is_fetch_throttled(lambda: _size_bytes(self.context.preview(answers), version)):
            return self.context.throttled()
        return self.context.respond(answers)

    def _resolved(self, wanted: WantedPartition) -> Target:
        by_id = self.pending.api_version >= TOPIC_IDS_SINCE
        if self.reading is None:
            return resolve(self.broker.registry, wanted, by_id)
        if self.reading.refuses_all:
            return Target(wanted, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return resolve(self.broker.registry, wanted, by_id, self.reading.may_read)

    def _park(self, marks: list[Mark], bytes_needed: int, deadline_ms: int) -> None:
        def on_woken(parked: DelayedFetch) -> None:
            if self.broker.now_ms() >= deadline_ms:
                self._read(deadline_ms=None)
            elif parked.has_enough():
                # Bytes below the last stable offset were not counted: there may still be too few.
                self._read(deadline_ms if self.limits.is_read_committed else None)
            else:
                self._park(marks, bytes_needed, deadline_ms)

        now_ms = self.broker.now_ms()
        slice_end_ms = min(deadline_ms, now_ms + SLICE_MS)
        parked = DelayedFetch(slice_end_ms, marks, bytes_needed, self.pending, on_woken)
        keys = [each.partition.key for each in marks]
        if not self.broker.purgatory.try_complete_else_watch(parked, keys, now_ms):
            self.broker.arm(slice_end_ms)
