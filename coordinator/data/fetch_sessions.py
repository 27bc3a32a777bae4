"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

A session remembers, per partition, the last request and the last answer. A full fetch (epoch 0) opens a session
when it is answered; an incremental fetch carries the next epoch, adds, changes and forgets partitions, and is
answered only for partitions with news. The number of sessions is bounded; a new one may evict a session that has
not been used for a while, or an older one with fewer partitions. Knows no logs.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0  # Open a session.
FINAL_EPOCH: Final = -1  # Close the session that is named, and open none.
LAST_EPOCH: Final = 2**31 - 1

EVICTABLE_AFTER_MS: Final = 120_000
"""Time without use after which any new session may evict one, and age from which a larger one may (Kafka's)."""

MAX_PARTITIONS: Final = 200_000
"""Most partitions in all sessions together, some 300 bytes each; beyond it, no more sessions are opened."""

Key: TypeAlias = tuple[bytes, str, int]
"""Topic id, topic name, partition. A request carries either an id or a name: the other is zero or empty."""


@dataclass(slots=True)
class WantedPartition:
    """One partition of a fetch: what the client last asked for, and what it was last sent."""

    topic_id: bytes
    topic: str
    index: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1
    known_name: str | None = None  # The topic's name, once found, where the client asks by id.

    @property
    def key(self) -> Key:
        return (self.topic_id, self.topic, self.index)

    def update(self, newer: WantedPartition) -> None:
        """Change the fields that the client asks for to those of a later request for the same partition."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch

    def is_news(self, answer: PartitionData) -> bool:
        """Whether `answer` must be sent to a client that remembers the last answer."""
        return bool(
            answer.records
            or answer.error_code
            or answer.high_watermark != self.sent_high_watermark
            or answer.log_start_offset != self.sent_log_start_offset
            or answer.diverging_epoch.epoch >= 0
        )

    def record_sent(self, answer: PartitionData) -> None:
        """Remember the answer that the client is sent; after an error, the next good answer is always news."""
        self.sent_high_watermark = -1 if answer.error_code else answer.high_watermark
        self.sent_log_start_offset = answer.log_start_offset


def wanted_partition(topic_id: bytes, topic: str, asked: FetchPartition) -> WantedPartition:
    return WantedPartition(
        topic_id=topic_id,
        topic=topic,
        index=asked.partition,
        fetch_offset=asked.fetch_offset,
        max_bytes=asked.partition_max_bytes,
        current_leader_epoch=asked.current_leader_epoch,
        last_fetched_epoch=asked.last_fetched_epoch,
    )


Answers: TypeAlias = list[tuple[WantedPartition, PartitionData]]


@dataclass(slots=True)
class FetchContext:
    """One fetch: the partitions to read, and the function that makes the response from the answers."""

    partitions: list[WantedPartition]
    respond: Callable[[Answers], FetchResponse]
    error: ErrorCode = ErrorCode.NONE
    preview: Callable[[Answers], FetchResponse] = lambda answers: response_of(NO_SESSION, answers)
    """Makes a response of the size of the one that `respond` would make, and changes nothing."""
    throttled: Callable[[], FetchResponse] = lambda: response_of(NO_SESSION, [])
    """Makes the response to a client over its quota: without answers, and its session stays as it was."""


@dataclass(slots=True)
class FetchSession:
    """One session; `partitions` are in the order in which they are read."""

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    partitions: OrderedDict[Key, WantedPartition] = field(default_factory=OrderedDict)

    @property
    def is_settled(self) -> bool:
        """Whether the session has been used for so long that a larger one may evict it."""
        return self.used_ms - self.created_ms > EVICTABLE_AFTER_MS

    def update(self, asked: Iterable[WantedPartition], forgotten: Iterable[Key]) -> int:
        """Add, change and remove partitions as a request asks; return by how much their number has grown."""
        before = len(self.partitions)
        for newer in asked:
            known = self.partitions.get(newer.key)
            if known is None:
                self.partitions[newer.key] = newer
            else:
                known.update(newer)
        for key in forgotten:
            self.partitions.pop(key, None)
        return len(self.partitions) - before

    def respond(self, expected_epoch: int, answers: Answers) -> FetchResponse:
        """Return the response with the answers that are news; partitions with records are read last next time."""
        if self.epoch != expected_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self.session_id)
        response = self.preview(answers)
        for wanted, answer in answers:
            wanted.record_sent(answer)
            if answer.records and wanted.key in self.partitions:
                self.partitions.move_to_end(wanted.key)
        return response

    def preview(self, answers: Answers) -> FetchResponse:
        """Return the response with the answers that are news; nothing is remembered of them."""
        return response_of(self.session_id, [each for each in answers if each[0].is_news(each[1])])

    def throttled(self, expected_epoch: int) -> FetchResponse:
        """Return the response to a client over its quota: no answers, and the session stays as it was."""
        error = ErrorCode.NONE if self.epoch == expected_epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return FetchResponse(error_code=error, session_id=self.session_id)


class FetchSessions:
    """The cache of at most `slots` sessions (max.incremental.fetch.session.cache.slots)."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.total_partitions = 0  # Number of partitions in all sessions together.
        # The one unused for longest comes first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def full_fetch(
        self, session_id: int, epoch: int, asked: list[WantedPartition], uses_topic_ids: bool, now_ms: int
    ) -> FetchContext:
        """Begin a fetch that names all wanted partitions: closes the session it names, and may open a new one."""
        self._remove(session_id)
        if epoch == FINAL_EPOCH:
            return FetchContext(asked, lambda answers: response_of(NO_SESSION, answers))
        return FetchContext(asked, lambda answers: self._open(answers, uses_topic_ids, now_ms))

    def incremental_fetch(
        self,
        session_id: int,
        epoch: int,
        asked: list[WantedPartition],
        forgotten: list[Key],
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """Begin a fetch that names the changes to the partitions of its session.

        Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return failed_fetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return failed_fetch(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return failed_fetch(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self.total_partitions += session.update(asked, forgotten)
        if not session.partitions:
            self._remove(session_id)
            return FetchContext(asked, lambda answers: response_of(NO_SESSION, answers))
        if asked and self.total_partitions > MAX_PARTITIONS:
            self._remove(session_id)
            return failed_fetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # The client goes on with a full fetch.
        self._sessions.move_to_end(session_id)
        session.used_ms = now_ms
        session.epoch = expected_epoch = next_epoch(epoch)
        return FetchContext(
            list(session.partitions.values()),
            lambda answers: session.respond(expected_epoch, answers),
            preview=session.preview,
            throttled=lambda: session.throttled(expected_epoch),
        )

    def _open(self, answers: Answers, uses_topic_ids: bool, now_ms: int) -> FetchResponse:
        size = len(answers)
        if self.total_partitions + size > MAX_PARTITIONS or not self._make_room(size, now_ms):
            return response_of(NO_SESSION, answers)
        session = FetchSession(self._new_id(), uses_topic_ids, created_ms=now_ms, used_ms=now_ms)
        for wanted, answer in answers:
            wanted.record_sent(answer)
            session.partitions[wanted.key] = wanted
        self._sessions[session.session_id] = session
        self.total_partitions += len(session.partitions)
        return response_of(session.session_id, answers)

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.total_partitions -= len(session.partitions)

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions, by eviction if necessary; return whether there is room."""
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms <= EVICTABLE_AFTER_MS:
            settled = [each for each in self._sessions.values() if each.is_settled]
            oldest = min(settled, key=lambda each: (len(each.partitions), each.session_id), default=None)
            if oldest is None or len(oldest.partitions) >= size:
                return False
        self._remove(oldest.session_id)
        return True

    def _new_id(self) -> int:
        while True:
            candidate = 1 + secrets.randbelow(2**31 - 1)
            if candidate not in self._sessions:
                return candidate


def failed_fetch(error: ErrorCode) -> FetchContext:
    """Return the context of a failed fetch, whose answer is the error alone."""
    return FetchContext([], lambda _answers: FetchResponse(error_code=error), error)


def next_epoch(epoch: int) -> int:
    return 1 if epoch == LAST_EPOCH else epoch + 1


def response_of(session_id: int, answers: Answers) -> FetchResponse:
    """Return the response with the answers in their order; neighbours of the same topic are put together."""
    topics: list[FetchableTopicResponse] = []
    last: tuple[bytes, str] | None = None
    for wanted, answer in answers:
        if (wanted.topic_id, wanted.topic) != last:
            last = (wanted.topic_id, wanted.topic)
            topics.append(
                FetchableTopicResponse(
                    topic=wanted.topic, topic_id=wanted.topic_id or ZERO_UUID, partitions=[]
                )
            )
        topics[-1].partitions.append(answer)
    return FetchResponse(session_id=session_id, responses=topics)
