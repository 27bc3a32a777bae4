"""Plays the runtime for one shard: appends and replays records, keeps the timers, delivers replies.

Time stands still until a test moves it. Records go to the log as bytes, so that a restart reads what a
restart would read; every reply is encoded in the version it was asked in. The disk answers at once, unless
a test holds it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from coordinator.effects import (
    Appendable,
    AppendFinished,
    CommitRun,
    CoordinatorRecord,
    Event,
    GroupEvent,
    ProducerAndEpoch,
    Reply,
    RequestContext,
    RequestReceived,
    Result,
    TimerFired,
)
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.records import decode_record, encode_commit_run, encode_record
from coordinator.groups.group_settings import GroupSettings
from coordinator.shard.error_responses import error_response
from coordinator.shard.shard import Shard
from protocol.codec.codec import encode
from protocol.errors import ErrorCode
from protocol.records.control import Marker
from protocol.records.records import encode_batch, parse_header, read_records

WALL_START_MS = 1_700_000_000_000


def topic_id_of(number: int) -> bytes:
    """A topic id that is easy to recognize."""
    return number.to_bytes(16, "big")


class Topics:
    """A TopicCatalog of a few topics."""

    def __init__(self, **partition_counts: int) -> None:
        self._counts = partition_counts
        self._ids = {name: topic_id_of(i) for i, name in enumerate(partition_counts, start=1)}
        self.deleted_ids: set[bytes] = set()

    def partition_count(self, topic: str) -> int | None:
        return self._counts.get(topic)

    def topic_id(self, topic: str) -> bytes | None:
        return self._ids.get(topic)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self.deleted_ids

    def grow(self, name: str, partition_count: int) -> None:
        """The topic has so many partitions from now on, and is made if it is not there."""
        self._counts[name] = partition_count
        self._ids.setdefault(name, topic_id_of(len(self._ids) + 1))

    def forget(self, name: str) -> None:
        """The topic is gone."""
        self.deleted_ids.add(self._ids.pop(name))
        del self._counts[name]

    def recreate(self, name: str, topic_id: bytes) -> None:
        """The topic is deleted and made again, under another id."""
        self.deleted_ids.add(self._ids[name])
        self._ids[name] = topic_id


class Entry(NamedTuple):
    """A record of the log, or a marker, which has an offset like one."""

    key: bytes
    value: bytes | None
    producer: ProducerAndEpoch | None = None
    marker: Marker | None = None


@dataclass
class Driver:
    """One shard and the world around it."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    topics: Topics = field(default_factory=lambda: Topics(orders=4, clicks=2))
    now_ms: int = 1_000
    log: list[Entry] = field(default_factory=list)
    timers: dict[Hashable, int] = field(default_factory=dict)
    history: list[GroupEvent] = field(default_factory=list)
    superseded: list[Hashable] = field(default_factory=list)
    disk_is_held: bool = False
    refusal: ErrorCode = ErrorCode.NONE
    replies: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids = count(1)
        self._versions: dict[Hashable, int] = {}
        self._answered: set[Hashable] = set()
        self._waiting: list[Reply | Any] = []
        self._durable = 0
        self.shard = Shard(0, self.settings, self.topics)
        self._carry_out(self.shard.loaded(self.now_ms, self.wall_ms))

    @contextmanager
    def refusing_records(self, error: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE) -> Iterator[None]:
        """Meanwhile the log refuses every record: none is appended, none replayed."""
        self.refusal = error
        yield
        self.refusal = ErrorCode.NONE

    @property
    def wall_ms(self) -> int:
        return WALL_START_MS + self.now_ms

    def group(self, group_id: str = "g") -> Group:
        return self.shard.groups[group_id]

    def send(self, request: Any, version: int, client_id: str = "client", host: str = "/10.0.0.1") -> int:
        """Give `request` to the shard; returns the token under which its reply will be found."""
        token = next(self._ids)
        self._versions[token] = version
        uuid = f"uuid{token}"
        context = RequestContext(token, version, client_id, host, uuid)
        self.handle(RequestReceived(request, context, self.wall_ms))
        return token

    def call(self, request: Any, version: int, client_id: str = "client") -> Any:
        """Send and return the reply, which must be there at once."""
        return self.replies.pop(self.send(request, version, client_id))

    def handle(self, event: Event) -> Result:
        result = self.shard.handle(event, self.now_ms)
        self._carry_out(self._refused(event, result) if self.refusal and result.records else result)
        return result

    def _refused(self, event: Event, result: Result) -> Result:
        """As the runtime does: no records, the error to the request that asked for them, and to `then`."""
        replies = result.replies
        if isinstance(event, RequestReceived):
            context = event.context
            refusal = error_response(event.request, self.refusal, context.api_version)
            replies = tuple(
                Reply(r.reply_to, refusal) if r.reply_to == context.reply_to else r for r in replies
            )
        return result._replace(records=(), replies=replies)

    def answered(self, token: Hashable | None) -> bool:
        return token in self.replies

    def advance(self, ms: int) -> None:
        """Let time pass, firing every timer when it is due."""
        target = self.now_ms + ms
        while due := [(deadline, i) for i, deadline in enumerate(self.timers.values()) if deadline <= target]:
            deadline, position = min(due)
            key = list(self.timers)[position]
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline)
            self.handle(TimerFired(key, self.wall_ms))
        self.now_ms = target

    def hold_disk(self) -> None:
        """From now on nothing becomes durable until `flush`."""
        self.disk_is_held = True

    def flush(self) -> None:
        """The disk is done with all it was given."""
        self.disk_is_held = False
        waiting, self._waiting = self._waiting, []
        self._durable = len(self.log)
        for one in waiting:
            if isinstance(one, Reply):
                self._deliver(one)
            else:
                self.handle(AppendFinished(one, ErrorCode.NONE, self.wall_ms))

    def crash(self) -> None:
        """Power loss: what is not durable is gone, and so is everything but the log."""
        del self.log[self._durable :]
        self.disk_is_held = False
        self.restart()

    def restart(self) -> None:
        """Kill the coordinator and read the log again; clients stay, parked requests and timers do not."""
        self.shard = Shard(0, self.settings, self.topics)
        self.timers.clear()
        self._waiting.clear()
        replay_into(self.shard, self.log)
        self._carry_out(self.shard.loaded(self.now_ms, self.wall_ms))

    def assert_replay_agrees(self) -> None:
        """What the log says is what the shard has stored."""
        shadow = Shard(0, self.settings, self.topics)
        replay_into(shadow, self.log)
        assert shadow.stored == self.shard.stored
        assert shadow.offsets == self.shard.offsets

    def last_event(self) -> GroupEvent:
        return self.history[-1]

    def reasons(self) -> list[str]:
        return [event.reason for event in self.history]

    def _carry_out(self, result: Result) -> None:
        for record in result.records:
            self._append(record, result.producer)
        for reply in result.replies:
            if self.disk_is_held and reply.reveals_stored and self._durable < len(self.log):
                self._waiting.append(reply)
            else:
                self._deliver(reply)
        for timer in result.timers:
            self.timers.pop(timer.key, None)
            if timer.deadline_ms is not None:
                self.timers[timer.key] = timer.deadline_ms
        self.history += result.history
        self.superseded += result.superseded
        if result.then is not None and self.disk_is_held:
            self._waiting.append(result.then)
        elif result.then is not None:
            self.handle(AppendFinished(result.then, self.refusal, self.wall_ms))

    def _append(self, record: Appendable, producer: ProducerAndEpoch | None) -> None:
        if isinstance(record, CommitRun):
            self._append_run(record)
            return
        assert isinstance(record, CoordinatorRecord), record
        self.log.append(Entry(*encode_record(record), producer))
        if not self.disk_is_held:
            self._durable = len(self.log)
        self.shard.replay(record, len(self.log) - 1, producer)

    def _append_run(self, run: CommitRun) -> None:
        batch = encode_batch([encode_commit_run(run, self.wall_ms)])
        written = read_records(batch, parse_header(batch))
        self.log += [Entry(record.key or b"", record.value) for record in written]
        if not self.disk_is_held:
            self._durable = len(self.log)
        self.shard.replay(run, len(self.log) - len(written))

    def end_transaction(self, producer_id: int, is_commit: bool = True, epoch: int = 0) -> None:
        """A marker is written."""
        marker = Marker(producer_id, epoch, 0, is_commit)
        self.log.append(Entry(b"", None, marker=marker))
        self._durable = len(self.log)
        self.shard.replay(marker, len(self.log) - 1)

    def _deliver(self, reply: Reply) -> None:
        assert reply.reply_to not in self._answered, "a request is answered once"
        assert reply.reply_to not in self.superseded, "a superseded request is not answered"
        self._answered.add(reply.reply_to)
        encode(reply.response, self._versions[reply.reply_to])
        self.replies[reply.reply_to] = reply.response


def replay_into(shard: Shard, log: Iterable[Entry]) -> None:
    """Read a log from its start, as a load does."""
    for offset, entry in enumerate(log):
        if entry.marker is not None:
            shard.replay(entry.marker, offset)
            continue
        record = decode_record(entry.key, entry.value)
        assert record is not None
        shard.replay(record, offset, entry.producer)
