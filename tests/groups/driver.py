"""A `ClockedDriver` of one shard of groups: its log is bytes in a list, and its disk is held when a test says so.

Time stands still until a test moves it. Records go to the log as bytes, so that a restart reads what a
restart would read; every reply is encoded in the version it was asked in. The disk answers at once, unless
a test holds it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    RequestReceived,
    Result,
    Work,
    WorkFinished,
    rows_in_spite_of_refusal,
)
from coordinator.groups.classic.group import Group
from coordinator.groups.consumer.records import group_records
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_codec import decode_record, encode_commit_run, encode_record
from coordinator.shard.error_responses import error_response
from coordinator.shard.shard import Shard
from harness.doubles.core_driver import ClockedDriver
from harness.doubles.topics import Topics
from protocol.errors import ErrorCode
from protocol.records.control import Marker
from protocol.records.records import encode_batch, parse_header, read_records


class Entry(NamedTuple):
    """A record of the log, or a marker, which has an offset like one."""

    key: bytes
    value: bytes | None
    producer: ProducerAndEpoch | None = None
    marker: Marker | None = None


@dataclass
class Driver(ClockedDriver[Shard]):
    """One shard of groups, its log and its disk."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    topics: Topics = field(default_factory=lambda: Topics(orders=4, clicks=2))
    log: list[Entry] = field(default_factory=list)
    history: list[GroupEvent] = field(default_factory=list)
    superseded: list[Hashable] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    consumer_settings: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    disk_is_held: bool = False
    refusal: ErrorCode = ErrorCode.NONE

    def __post_init__(self) -> None:
        self._waiting: list[Reply | Any] = []
        self._durable = 0
        super().__post_init__()

    @contextmanager
    def refusing_records(self, error: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE) -> Iterator[None]:
        """Let the log refuse every record in the block: none is appended, none replayed."""
        self.refusal = error
        yield
        self.refusal = ErrorCode.NONE

    def group(self, group_id: str = "g") -> Group:
        return self.shard.groups[group_id]

    def accepted(self, event: Event, result: Result) -> Result:
        """Carry out a result as the runtime does: refused records give an error to the request and to `then`."""
        if not self.refusal or not result.records:
            return result
        replies = result.replies
        if isinstance(event, RequestReceived):
            context = event.context
            refusal = error_response(event.request, self.refusal, context.api_version)
            replies = tuple(
                Reply(r.reply_to, refusal) if r.reply_to == context.reply_to else r for r in replies
            )
        history = rows_in_spite_of_refusal(result.history)
        return result._replace(records=(), replies=replies, history=history)

    def hold_disk(self) -> None:
        """Let nothing become durable until `flush`."""
        self.disk_is_held = True

    def flush(self) -> None:
        """Make all that was appended durable."""
        self.disk_is_held = False
        self._durable = len(self.log)
        self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if isinstance(one, Reply):
                self._deliver(one)
            else:
                self.handle(AppendFinished(one, self.refusal, self.wall_ms))

    def crash(self) -> None:
        """Lose power: only the durable part of the log remains."""
        del self.log[self._durable :]
        self.disk_is_held = False
        self.restart()

    def restart(self) -> None:
        """Kill the coordinator and read the log again; clients stay, parked requests and timers do not."""
        self._waiting.clear()
        self.load()

    def read_log(self) -> Shard:
        shard = Shard(0, self.settings, self.topics, self.consumer_settings)
        replay_into(shard, self.log)
        return shard

    def assert_replay_agrees(self) -> None:
        """Assert that a replay of the log gives what the shard has stored."""
        shadow = self.read_log()
        assert shadow.stored == self.shard.stored
        assert shadow.offsets == self.shard.offsets
        assert shadow.consumer_groups.keys() == self.shard.consumer_groups.keys()
        for group_id, group in shadow.consumer_groups.items():
            assert group_records(group) == group_records(self.shard.consumer_groups[group_id])

    def last_event(self) -> GroupEvent:
        return self.history[-1]

    def reasons(self) -> list[str]:
        return [event.reason for event in self.history]

    def carry_out(self, result: Result) -> None:
        super().carry_out(result)
        if not self.disk_is_held:
            self._release()

    def append(self, record: Appendable, producer: ProducerAndEpoch | None) -> None:
        if isinstance(record, CommitRun):
            self._append_run(record)
            return
        assert isinstance(record, CoordinatorRecord), record
        self._write([Entry(*encode_record(record), producer)])
        self.shard.replay(record, len(self.log) - 1, producer)

    def _append_run(self, run: CommitRun) -> None:
        batch = encode_batch([encode_commit_run(run, self.wall_ms)])
        written = read_records(batch, parse_header(batch))
        self._write([Entry(record.key or b"", record.value) for record in written])
        self.shard.replay(run, len(self.log) - len(written))

    def _write(self, entries: list[Entry]) -> None:
        self.log += entries
        if not self.disk_is_held:
            self._durable = len(self.log)

    def end_transaction(self, producer_id: int, is_commit: bool = True, epoch: int = 0) -> None:
        """Write the marker that ends a transaction."""
        marker = Marker(producer_id, epoch, 0, is_commit)
        self.log.append(Entry(b"", None, marker=marker))
        self._durable = len(self.log)
        self.shard.replay(marker, len(self.log) - 1)

    def await_append(self, then: Any) -> None:
        self._waiting.append(then)

    def answer(self, reply: Reply) -> None:
        if self.disk_is_held and reply.reveals_stored and self._durable < len(self.log):
            self._waiting.append(reply)
        else:
            self._deliver(reply)

    def _deliver(self, reply: Reply) -> None:
        assert reply.reply_to not in self.superseded, "a superseded request is not answered"
        super().answer(reply)

    def record_event(self, event: GroupEvent) -> None:
        self.history.append(event)

    def begin_work(self, work: Work) -> None:
        self.works.append(work)

    def handle_released(self, group_id: str) -> None:
        while (event := self.shard.release(group_id)) is not None:
            self.handle(event)

    def finish_work(self) -> None:
        """Have all work done that was asked for."""
        works, self.works = self.works, []
        for work in works:
            self.handle(WorkFinished(work.run(), self.wall_ms))

    def supersede(self, reply_to: Hashable) -> None:
        self.superseded.append(reply_to)


def replay_into(shard: Shard, log: Iterable[Entry]) -> None:
    """Read a log from its start, as a load does."""
    for offset, entry in enumerate(log):
        if entry.marker is not None:
            shard.replay(entry.marker, offset)
            continue
        record = decode_record(entry.key, entry.value)
        assert record is not None
        shard.replay(record, offset, entry.producer)
