"""A run is encoded as its records would be, one by one."""

from __future__ import annotations

from struct import pack

import pytest

from protocol.records.records import Record, encode_batch, parse_header, read_records
from protocol.records.run import Columns, RecordRun

BASE_MS = 1_700_000_000_000


def run_of(count: int, timestamp_ms: int = BASE_MS) -> RecordRun:
    keys = Columns(b"key", "i", (range(count),), b"!")
    values = Columns(b"value" * 10, "qi", ([7 << 40] * count, range(count)), b"behind")
    return RecordRun(keys, values, count, timestamp_ms)


def records_of(count: int, timestamp_ms: int = BASE_MS) -> list[Record]:
    return [
        Record(b"key" + pack(">i", number) + b"!", b"value" * 10 + pack(">qi", 7 << 40, number) + b"behind",
               timestamp_ms)
        for number in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("before", [0, 1, 62, 63, 64, 65, 8190, 8191, 8192])
@pytest.mark.parametrize("count", [1, 2, 64, 200])
def test_a_run_behind_so_many_records_is_what_its_records_are(before: int, count: int) -> None:
    """The record's length grows where an offset delta takes a byte more."""
    first = [Record(None, b"before", BASE_MS - 70)] * before
    last = [Record(b"after", None, BASE_MS + 9000)]
    batch = encode_batch([*first, run_of(count), *last], base_offset=5)
    assert batch == encode_batch([*first, *records_of(count), *last], base_offset=5)
    read = read_records(batch, parse_header(batch))
    assert [record.offset for record in read] == list(range(5, 5 + before + count + 1))


def test_its_size_is_that_of_keys_and_values() -> None:
    assert run_of(10).size_bytes == sum(record.size_bytes for record in records_of(10))


def test_a_batch_of_runs_without_records_is_refused() -> None:
    """Kafka has no batch without a record, and no log could be read that has one."""
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([run_of(0)])
