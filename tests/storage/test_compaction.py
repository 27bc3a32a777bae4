"""What a cleaning keeps and what it takes, against Kafka's rules, by plain calls with the time as an argument."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from protocol.records.batch import CRC, CRC_POSITION, check_crc, checksum
from protocol.records.records import Codec, Record, read_records
from storage.check.log import LogCheck, check_log
from storage.cleaning.cleanable import cleanable
from storage.cleaning.compaction import Cleaned
from storage.files import CorruptSegment, Files
from storage.log.partition_log import PartitionLog
from tests.batches import encode_batch
from tests.storage.cleaning import (
    ABORT,
    CODECS,
    COMMIT,
    COMPACTED,
    DAY_MS,
    NOW_MS,
    RETENTION_MS,
    batches,
    clean,
    data_records,
    end_transaction,
    open_compacted,
    put,
    record,
    roll,
    table,
    texts,
)
from tests.storage.logs import reopen

EVERYTHING = 1 << 30


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_compacted(tmp_path / "c-0")


# Records.


def test_the_newest_record_of_each_key_stays_at_its_offset(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"), ("a", "2"))
    put(log, ("c", "1"), ("b", "2"))
    roll(log)
    put(log, ("c", "2"))
    done = clean(log)
    assert texts(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "c", "2")]
    assert (done.end_offset, done.keys) == (5, 3)
    assert log.next_offset == 6


def test_the_active_segment_is_never_touched(log: PartitionLog) -> None:
    for _ in range(5):
        put(log, ("a", "1"))
    assert len(log.segments) == 1
    assert clean(log) == Cleaned(end_offset=0)
    assert len(texts(log)) == 5


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_keeps_its_place_its_producer_and_its_compression(log: PartitionLog, codec: Codec) -> None:
    put(log, ("x", "0"))
    records = [record("a", "1", NOW_MS + 50), record("b", "v" * 50, NOW_MS + 7), record("a", "2", NOW_MS + 9)]
    records[1].headers = (("h", b"x"), ("n", None))
    log.append(
        encode_batch(records, codec=codec, producer_id=7, producer_epoch=3, base_sequence=40), wall_ms=NOW_MS
    )
    log.flush()
    put(log, ("a", "3"))
    roll(log)
    clean(log)
    found, data = next((batch, data) for batch, data in log.batches(1) if batch.base_offset == 1)
    assert check_crc(data, found)
    assert (found.base_offset, found.last_offset, found.record_count) == (1, 3, 1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.last_sequence) == (
        7,
        3,
        40,
        42,
    )
    assert (found.codec, found.max_timestamp_ms, found.leader_epoch) == (codec, NOW_MS + 7, 0)
    assert read_records(data, found) == [replace(records[1], offset=2)]


def test_timestamps_of_log_append_time_stay(log: PartitionLog) -> None:
    records = [record("a", None, NOW_MS), record("b", "1", NOW_MS)]
    log.append(encode_batch(records, log_append_time=True), wall_ms=NOW_MS)
    put(log, ("b", "2"))
    roll(log)
    clean(log)
    first = next(iter(data_records(log)))
    assert (first.key, first.timestamp_ms, batches(log)[0].is_log_append_time) == (b"a", NOW_MS, True)


def test_a_record_without_a_key_goes(log: PartitionLog) -> None:
    log.append(encode_batch([record(None, "lost"), record("a", "1")]), wall_ms=NOW_MS)
    roll_after(log)
    clean(log)
    assert texts(log)[0] == (1, "a", "1")


def roll_after(log: PartitionLog) -> None:
    log.flush()
    roll(log)
    put(log, ("last", "1"))


# Tombstones.


def test_a_tombstone_goes_when_its_retention_is_over_since_the_first_cleaning(log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None))
    roll_after(log)
    clean(log, wall_ms=NOW_MS)
    assert texts(log) == [(1, "b", "1"), (2, "a", None), (3, "last", "1")]
    marked = batches(log)[1]
    assert (marked.has_delete_horizon, marked.base_timestamp_ms) == (True, NOW_MS + RETENTION_MS)
    assert [each.timestamp_ms for each in data_records(log)] == [NOW_MS] * 3

    for wall_ms, there in ((NOW_MS + RETENTION_MS - 1, True), (NOW_MS + RETENTION_MS, False)):
        roll(log)
        put(log, ("last", "2"))
        clean(log, wall_ms=wall_ms)
        assert ((2, "a", None) in texts(log)) is there
    assert table(log) == {"b": "1", "last": "2"}


def test_a_tombstone_takes_the_value_before_it_at_once(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", None))
    clean(log)
    assert texts(log) == [(0, "a", "1"), (1, "a", None)]  # The active segment does not count yet.
    roll(log)
    put(log, ("b", "1"))
    clean(log)
    assert texts(log) == [(1, "a", None), (2, "b", "1")]


# Segments.


def test_small_segments_are_joined_and_offsets_stay_readable(log: PartitionLog) -> None:
    for number in range(40):
        put(log, (f"k{number % 3}", f"{number}" * 20))
    before = len(log.segments)
    done = clean(log)
    assert before > 3
    assert len(log.segments) == before  # They were full: what became small is joined the next time.
    clean(log)
    assert len(log.segments) == 2
    assert done.bytes_after < done.bytes_before
    assert sorted(table(log)) == ["k0", "k1", "k2"]
    for offset in range(log.next_offset):
        first = next(iter(log.batches(offset)))[0]
        assert first.last_offset >= offset
        assert log.read(offset, EVERYTHING)
        assert bytes(log.read(offset, EVERYTHING)[:8]) == first.base_offset.to_bytes(8, "big")
    expected = texts(log)
    again = reopen(log)
    assert (texts(again), again.next_offset) == (expected, 40)


def test_a_cleaned_segment_ends_where_its_last_one_did(log: PartitionLog) -> None:
    """An empty batch stands for it: finishing a swap needs to know how far it reaches."""
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    roll(log)
    put(log, ("a", "3"))
    roll(log)
    clean(log)
    kept = batches(log)
    assert [(batch.base_offset, batch.record_count) for batch in kept] == [(2, 1)]
    put(log, ("a", "4"))
    roll(log)
    clean(log)
    assert [(batch.base_offset, batch.record_count) for batch in batches(log)] == [(3, 1)]
    put(log, ("b", "1"))
    put(log, ("b", None))
    roll(log)
    put(log, ("x", "1"))
    clean(log)
    roll(log)
    clean(log, wall_ms=NOW_MS + RETENTION_MS)
    assert table(log) == {"a": "4", "x": "1"}


def test_a_segment_of_which_nothing_stays_holds_an_empty_batch(log: PartitionLog) -> None:
    put(log, ("a", "1" * 800))
    put(log, ("a", "2" * 800))
    roll(log)
    clean(log)
    first, second = batches(log)
    assert (first.record_count, first.size_bytes, first.last_offset) == (0, 61, 0)
    assert second.record_count == 1
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert log.max_timestamp() == (1, NOW_MS)


def test_a_full_buffer_ends_the_round_and_the_next_goes_on(log: PartitionLog) -> None:
    for number in range(60):
        put(log, (f"k{number % 20}", str(number)))
    roll(log)
    checkpoint, rounds = 0, 0
    while checkpoint < 60:
        done = clean(log, checkpoint=checkpoint, buffer_bytes=700)
        assert done.keys <= 6
        assert checkpoint < done.end_offset <= 60
        checkpoint, rounds = done.end_offset, rounds + 1
        assert table(log) == {f"k{number}": str(40 + number) for number in range(20)}
    assert rounds > 5


def test_a_round_that_would_change_nothing_leaves_the_file_alone(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    before = log.segments[0]
    assert clean(log).end_offset == 1
    assert log.segments[0] is before


# What may be cleaned.


def test_young_records_are_left_alone(tmp_path: Path) -> None:
    log = open_compacted(tmp_path / "c-0", config=replace(COMPACTED, min_compaction_lag_ms=100))
    for age_ms in (300, 200, 50):
        put(log, ("a", str(age_ms)), timestamp_ms=NOW_MS - age_ms)
        roll(log)
    part = cleanable(log, 0, NOW_MS)
    assert (part.first_dirty_offset, part.end_offset) == (0, 2)
    clean(log)
    assert texts(log) == [(1, "a", "200"), (2, "a", "50")]


def test_old_records_are_overdue_whatever_the_ratio(tmp_path: Path) -> None:
    log = open_compacted(tmp_path / "c-0", config=replace(COMPACTED, max_compaction_lag_ms=100))
    put(log, ("a", "1"), timestamp_ms=NOW_MS)
    assert not cleanable(log, 0, NOW_MS + 1000).is_overdue
    roll(log)
    assert not cleanable(log, 0, NOW_MS + 100).is_overdue
    assert cleanable(log, 0, NOW_MS + 101).is_overdue
    again = reopen(log)
    assert cleanable(again, 0, NOW_MS + 101).is_overdue
    assert not cleanable(again, 1, NOW_MS + 101).is_overdue


def test_the_ratio_is_of_dirty_bytes(log: PartitionLog) -> None:
    for key in "abcd":
        put(log, (key, "1"))
        roll(log)
    assert [cleanable(log, dirty, NOW_MS).ratio for dirty in (0, 1, 2, 4)] == [1.0, 0.75, 0.5, 0.0]
    assert cleanable(log, 99, NOW_MS).first_dirty_offset == 0  # Beyond the log: nothing is believed of it.
    log.advance_start(2)
    assert cleanable(log, 1, NOW_MS).first_dirty_offset == 2


# Transactions and producers.


def test_records_of_aborted_transactions_go_and_their_marker_later(log: PartitionLog) -> None:
    txn = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    put(log, ("a", "kept"))
    put(log, ("a", "aborted"), base_sequence=0, **txn)
    put(log, ("b", "aborted"), base_sequence=1, **txn)
    end_transaction(log, 5, ABORT)
    put(log, ("b", "committed"), base_sequence=2, **txn)
    end_transaction(log, 5, COMMIT)
    roll_after(log)
    later_ms = NOW_MS + 2 * DAY_MS  # The producer is forgotten, so nothing of it has to stay.
    clean(log, wall_ms=later_ms)
    assert table(log) == {"a": "kept", "b": "committed", "last": "1"}
    assert [(batch.base_offset, batch.is_control) for batch in batches(log)][:4] == [
        (0, False), (3, True), (4, False), (5, True),
    ]  # fmt: skip

    roll_after(log)
    clean(log, wall_ms=later_ms)  # Now nothing of the aborted transaction was met: its marker gets a horizon.
    marker = next(batch for batch in batches(log) if batch.base_offset == 3)
    assert (marker.has_delete_horizon, marker.base_timestamp_ms) == (True, later_ms + RETENTION_MS)
    roll_after(log)
    clean(log, wall_ms=later_ms + RETENTION_MS - 1)
    assert 3 in [batch.base_offset for batch in batches(log)]
    roll_after(log)
    clean(log, wall_ms=later_ms + RETENTION_MS)
    assert [batch.base_offset for batch in batches(log)][:3] == [0, 4, 5]
    assert table(log) == {"a": "kept", "b": "committed", "last": "1"}


def test_an_aborted_value_replaces_nothing(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 5, ABORT)
    roll_after(log)
    clean(log)
    assert table(log)["a"] == "1"


def test_nothing_is_cleaned_beyond_a_transaction_that_is_open(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", "2"))
    roll(log)
    put(log, ("a", "3"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    roll(log)
    put(log, ("a", "4"))
    roll(log)
    assert clean(log).end_offset == 2
    assert [offset for offset, _, _ in texts(log)] == [1, 2, 3]
    end_transaction(log, 5, COMMIT)
    roll(log)
    clean(log, checkpoint=2)
    assert [offset for offset, _, _ in texts(log)] == [3]


def test_the_last_batch_of_a_producer_stays_empty_while_it_may_come_back(log: PartitionLog) -> None:
    idempotent = {"producer_id": 9, "producer_epoch": 1}
    put(log, ("a", "1"), base_sequence=0, **idempotent)
    put(log, ("a", "2"), base_sequence=1, **idempotent)
    put(log, ("a", "3"))
    put(log, ("b", "3"))
    roll_after(log)
    clean(log)
    held = batches(log)[0]
    assert (held.base_offset, held.record_count, held.producer_id, held.last_sequence) == (1, 0, 9, 1)
    assert held.max_timestamp_ms == NOW_MS
    roll_after(log)
    clean(log, wall_ms=NOW_MS + DAY_MS)
    assert batches(log)[0].base_offset == 2


@pytest.mark.parametrize("expiration_ms", [1000, 7 * DAY_MS])
def test_how_long_a_producer_may_stay_away_is_what_the_setting_says(
    log: PartitionLog, expiration_ms: int
) -> None:
    put(log, ("a", "1"), producer_id=9, producer_epoch=1, base_sequence=0)
    put(log, ("a", "2"))
    roll_after(log)
    clean(log, wall_ms=NOW_MS + expiration_ms - 1, producer_expiration_ms=expiration_ms)
    assert [(batch.producer_id, batch.record_count) for batch in batches(log)][:2] == [(9, 0), (-1, 1)]
    roll_after(log)
    clean(log, wall_ms=NOW_MS + expiration_ms, producer_expiration_ms=expiration_ms)
    assert 9 not in [batch.producer_id for batch in batches(log)]


# Failure.


def test_a_corrupt_batch_ends_the_cleaning_and_names_its_place(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    roll(log)
    segment = log.segments[0]
    data = bytearray(segment.path.read_bytes())
    data[-1] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(CorruptSegment, match=f"{segment.path}: corrupt at byte {segment.size_bytes // 2}"):
        clean(log)
    assert log.segments[0] is segment
    put(log, ("b", "1"))


def test_a_batch_whose_records_make_no_sense_is_named_too(log: PartitionLog) -> None:
    batch = encode_batch([record("a", "1")], codec=Codec.NONE)
    put(log, ("x", "1"))
    broken = encode_batch([Record(b"k", b"v" * 10, NOW_MS)])
    broken[61] = 0x7F  # The record's length, under a CRC that is right.
    CRC.pack_into(broken, CRC_POSITION, checksum(broken))
    log.append(broken, wall_ms=NOW_MS)
    log.append(batch, wall_ms=NOW_MS)
    log.flush()
    roll(log)
    with pytest.raises(CorruptSegment, match="corrupt at byte"):
        clean(log)


def test_what_the_retention_took_meanwhile_is_not_brought_back(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    roll(log)
    old = log.segments[0]
    draft = old.draft(Files(), log.directory, 0, 200, 0)
    draft.finish_draft(2)
    log.advance_start(2)
    log.apply_retention(NOW_MS)
    assert log.replace([old], draft) is False
    assert log.log_start_offset == 2


def test_a_cleaned_segment_has_nothing_to_say_of_aborted_transactions(log: PartitionLog) -> None:
    """Their records are gone from it; those of later segments are listed as before, also after a restart."""
    txn = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    put(log, ("a", "kept"))
    put(log, ("a", "aborted"), base_sequence=0, **txn)
    end_transaction(log, 5, ABORT)
    first_index = log.segments[0].transactions.path
    assert first_index.exists()
    roll_after(log)
    put(log, ("b", "aborted"), base_sequence=1, **txn)
    end_transaction(log, 5, ABORT)
    (_, second) = log.producers.aborted(0, log.next_offset)
    clean(log)
    assert not first_index.exists()
    assert log.producers.aborted(0, log.next_offset) == [second]
    findings, _ = check_log(LogCheck(Files(), log.directory))
    assert findings == []
    again = reopen(log)
    again.producers.state = again.producers.read(NOW_MS).state
    assert again.producers.aborted(0, again.next_offset) == [second]


def test_nothing_beyond_the_last_stable_offset_is_cleaned(log: PartitionLog) -> None:
    put(log, ("a", "1"))
    roll(log)
    put(log, ("a", "2"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    roll(log)
    put(log, ("a", "3"))
    roll_after(log)
    assert clean(log).end_offset == log.producers.last_stable_offset == 1
    assert texts(log)[:3] == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]
    end_transaction(log, 5, COMMIT)
    log.producers.settle()
    roll_after(log)
    assert clean(log).end_offset > 3
    assert table(log)["a"] == "3"
