"""Batches that other implementations wrote, as a running Apache Kafka 4.3.1 stored them.

`captured_batches.txt` holds whole segments. Each producer wrote the same records with each codec; the
fourth, of 66,000 bytes, spans several blocks of snappy's and lz4's framings and is left out uncompressed.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from protocol.records.compression import XERIAL_HEADER
from protocol.records.records import BATCH_OVERHEAD, Codec, Record, read_batch, read_records, walk

T0_MS = 1_700_000_000_000
HEADERS = (("trace", "é✓".encode()), ("empty", b""), ("none", None))
RECORDS = [
    Record(b"key-0", b"value-0", T0_MS, offset=0),
    Record(b"key-1", None, T0_MS - 5, HEADERS, offset=1),
    Record(None, b"value-2", T0_MS + 2000, offset=2),
    Record(b"big", (b"muster " * 9429)[:66_000], T0_MS + 3, offset=3),
]


def captured() -> dict[str, bytes]:
    lines = (Path(__file__).parent / "captured_batches.txt").read_text().splitlines()
    return {
        name: base64.b64decode(data)
        for name, data in (line.split() for line in lines if not line.startswith("#"))
    }


SEGMENTS = captured()


@pytest.mark.parametrize("writer", ["java", "rd"])
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_another_writer_is_read(writer: str, codec: Codec) -> None:
    segment = SEGMENTS[f"{writer}-{codec.name.lower()}"]
    batch = read_batch(segment, 0)
    assert batch is not None
    assert (batch.codec, batch.end) == (codec, len(segment))
    assert batch.max_timestamp_ms == T0_MS + 2000
    assert read_records(segment, batch) == RECORDS[: 4 if codec else 3]


def test_the_two_framings_of_snappy_are_both_among_them() -> None:
    """Java writes xerial's frame, librdkafka one raw block."""
    assert SEGMENTS["java-snappy"][BATCH_OVERHEAD:].startswith(XERIAL_HEADER)
    assert not SEGMENTS["rd-snappy"][BATCH_OVERHEAD:].startswith(XERIAL_HEADER[:8])


@pytest.mark.parametrize("writer", ["java", "rd"])
def test_an_idempotent_batch_names_its_producer(writer: str) -> None:
    batch = next(walk(SEGMENTS[f"{writer}-none"]))
    assert batch.producer_id >= 0
    assert (batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (0, 0, 2)


def test_transactions_and_their_markers_are_distinguished() -> None:
    """A commit and an abort: a control batch holds one record; its key is the version, then 1 or 0."""
    segment = SEGMENTS["java-txn"]
    batches = list(walk(segment))
    assert [batch.is_transactional for batch in batches] == [True] * 4
    assert [batch.is_control for batch in batches] == [False, True, False, True]
    assert [batch.base_offset for batch in batches] == [0, 1, 2, 3]
    commit, abort = (read_records(segment, batches[index])[0] for index in (1, 3))
    assert (commit.key, abort.key) == (b"\0\0\0\1", b"\0\0\0\0")
