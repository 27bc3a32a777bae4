"""The log of a shard on Kafka, as its runner sees it: what is sent when, and when a flush is over."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.backing.kafka.fetched import FetchedBatch
from coordinator.backing.shards.backed_log import BackedLog, Room
from coordinator.backing.shards.backed_shard import FINISH_EVERY_RECORDS, BackedShard
from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.shard_states import ACTIVE
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.records.batch import parse_header
from protocol.records.records import Record, encode_batch
from storage.files import StorageError

ONE_RECORD_BYTES = len(encode_batch([Record(b"k", b"v", 1)]))


class Sent:
    """What a log has sent, and the flushes that are over."""

    def __init__(self, room: Room | None = None) -> None:
        self.batches: list[tuple[bytearray, int]] = []
        self.flushed: list[StorageError | None] = []
        self.log = BackedLog("muster-0", self._send, room or Room())
        self.log.begin(100)

    def _send(self, batch: bytearray, record_count: int) -> int:
        self.batches.append((batch, record_count))
        return len(self.batches)

    def append(self, record_count: int) -> int:
        records = [Record(b"k", b"v", 1)] * record_count
        return self.log.append(encode_batch(records, base_offset=7, leader_epoch=3), wall_ms=1).base_offset


def test_batches_are_sent_one_after_the_other_and_end_their_flush() -> None:
    sent = Sent()
    assert [sent.append(2), sent.append(3)] == [100, 102]
    assert not sent.log.has_work, "no flush has begun"
    sent.log.flush(sent.flushed.append)
    assert sent.log.has_work
    sent.log.hand_over()
    assert not sent.log.has_work, "one is on its way"
    sent.log.written(1)
    assert (sent.log.durable_offset, sent.flushed) == (102, [])
    sent.log.hand_over()
    sent.log.written(2)
    assert (sent.log.durable_offset, sent.flushed) == (105, [None])
    assert [count for _, count in sent.batches] == [2, 3]


def test_a_batch_goes_out_without_a_place() -> None:
    """Kafka's leaders refuse one that claims to have one."""
    sent = Sent()
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    header = parse_header(sent.batches[0][0])
    assert (header.base_offset, header.leader_epoch) == (0, -1)


def test_a_flush_takes_along_what_was_staged_before_it() -> None:
    sent = Sent()
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    sent.append(1)
    sent.log.written(1)
    assert sent.flushed == [None]
    assert not sent.log.has_work, "the next flush takes it"
    assert (sent.log.durable_offset, sent.log.next_offset) == (101, 102)


def test_who_lets_go_hears_yet_of_what_is_on_its_way() -> None:
    sent = Sent()
    sent.append(1)
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    sent.log.give_up()
    assert not sent.log.has_work
    sent.log.written(1)
    assert (sent.log.durable_offset, sent.flushed) == (101, [])
    sent.log.drop()
    assert sent.flushed == [None], "so the log is idle"


def test_who_lets_go_with_nothing_on_its_way_is_through() -> None:
    sent = Sent()
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.give_up()
    assert (sent.flushed, sent.batches) == ([None], [])


def test_the_next_ownership_begins_with_nothing_of_the_last() -> None:
    sent = Sent()
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    sent.append(1)
    sent.log.drop()
    sent.log.begin(200)
    assert sent.flushed == [None]
    assert sent.append(1) == 200
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    sent.log.written(2)
    assert (sent.log.durable_offset, sent.flushed) == (201, [None, None])


def backed_shard(log: BackedLog) -> tuple[BackedShard, list[object]]:
    """A shard of groups on this log, and the runners that were closed."""
    closed: list[object] = []
    runner = SimpleNamespace(
        kind=SimpleNamespace(new_shard=lambda number: Shard(number, GroupSettings(), Topics())),
        partition=0,
        state=ACTIVE,
    )
    runtime = SimpleNamespace(close_shard=lambda runner, done: closed.append(runner))
    return BackedShard(cast(Any, runner), log, cast(Any, runtime)), closed


def test_a_shard_that_is_let_go_sends_nothing_that_still_waits() -> None:
    """The release would be behind it, and its clients were told nothing of it."""
    sent = Sent()
    shard, closed = backed_shard(sent.log)
    sent.append(1)
    sent.append(1)
    sent.log.flush(sent.flushed.append)
    sent.log.hand_over()
    shard.retire()
    assert closed == [shard.runner]
    sent.log.written(1)
    assert not sent.log.has_work
    assert len(sent.batches) == 1


def test_a_follower_keeps_nothing_of_groups_that_are_gone() -> None:
    """However long it follows, and however many groups come and go meanwhile."""
    shard, _ = backed_shard(Sent().log)
    for number in range(FINISH_EVERY_RECORDS // 2 + 10):
        group = f"g{number}"
        key = OffsetCommitKey(group=group, topic="orders", partition=0)
        committed = CoordinatorRecord(key, OffsetCommitValue(offset=1, metadata="", commit_timestamp=1))
        tombstone = new_offset_commit_tombstone(group, "orders", 0)
        records = [Record(*encode_record(each), 1) for each in (committed, tombstone)]
        batch = encode_batch(records, base_offset=2 * number)
        shard.follow(FetchedBatch(parse_header(batch), batch, None))
    assert len(shard._replay._by_name) <= 10
    assert len(shard._replay._shared) <= 20
    assert list(shard._shard.offsets.group_ids()) == []


@pytest.mark.parametrize("end", [BackedLog.give_up, BackedLog.drop], ids=["it lets go", "it is dropped"])
def test_what_all_logs_have_staged_has_one_bound(end: Callable[[BackedLog], None]) -> None:
    """What is on its way does not count: of each log that is one batch."""
    room = Room(limit_bytes=150)
    first, second = Sent(room), Sent(room)
    first.append(1)
    assert (room.staged_bytes, room.is_left) == (ONE_RECORD_BYTES, True)
    second.append(1)
    second.append(1)
    assert not room.is_left
    first.log.flush(first.flushed.append)
    first.log.hand_over()
    assert (room.staged_bytes, room.is_left) == (2 * ONE_RECORD_BYTES, True)
    end(second.log)
    assert room.staged_bytes == 0


def test_a_write_that_fails_its_shard_leaves_nothing_on_its_way() -> None:
    """The shard is dropped while it is sent, and read anew; the next ownership writes."""
    sent = Sent()

    def send(batch: bytearray, record_count: int) -> int:
        sent.log.drop()
        return sent._send(batch, record_count)

    log = sent.log = BackedLog("muster-0", send, Room())
    log.begin(100)
    sent.append(1)
    log.flush(sent.flushed.append)
    log.hand_over()
    assert sent.flushed == [None]
    assert not log.has_work
    log._send = sent._send
    log.begin(200)
    assert sent.append(1) == 200
    log.flush(sent.flushed.append)
    assert log.has_work
    log.hand_over()
    log.written(2)
    assert (log.durable_offset, sent.flushed) == (201, [None, None])
