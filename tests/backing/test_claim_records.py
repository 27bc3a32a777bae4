"""Claims as bytes: what is written is read again, and what a later Muster says is not taken for something else."""

from __future__ import annotations

from dataclasses import replace
from struct import pack

import pytest

from coordinator.backing.claims import NO_HEIR, SEAL_EPOCH, Claim, ClaimKind, Endpoint, Writer
from coordinator.backing.kafka.claim_records import (
    CLAIM_TYPE,
    UnreadableClaimError,
    claim_record,
    read_claim,
)
from coordinator.backing.kafka.fetched import Fetched, fetched
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import RECORD_TYPES
from protocol.messages.fetch import PartitionData
from protocol.records.batch import BatchProducer, CorruptBatch
from protocol.records.records import Record, encode_batch

WRITER = Writer(4_000, 7)
CLAIM = Claim(ClaimKind.CLAIMED, 1_000_001, 3_000)
WALL_MS = 1_700_000_000_000


@pytest.mark.parametrize("kind", ClaimKind)
@pytest.mark.parametrize("was_active", [False, True])
def test_a_claim_is_read_as_it_was_written(kind: ClaimKind, was_active: bool) -> None:
    endpoints = (Endpoint("PLAINTEXT", "h", 9_092), Endpoint("OUTSIDE", "::1", 65_535))
    claim = Claim(kind, 7, 10_000, was_active, endpoints)
    assert read_claim(claim_record(claim, WRITER, WALL_MS)) == claim


def test_a_release_names_its_heir_and_one_of_an_older_version_none() -> None:
    release = Claim(ClaimKind.RELEASED, 7, 10_000, was_active=True, heir_id=9)
    written = claim_record(release, WRITER, WALL_MS)
    assert read_claim(written) == release
    nobody = claim_record(replace(release, heir_id=NO_HEIR), WRITER, WALL_MS)
    assert written.value is not None
    assert nobody.value is not None
    assert len(nobody.value) < len(written.value), "it is under a tag, which an older version passes over"


def test_claims_of_a_producer_id_replace_each_other_and_no_others() -> None:
    keys = [
        claim_record(CLAIM, writer, WALL_MS).key
        for writer in (WRITER, Writer(4_000, SEAL_EPOCH), Writer(5, 7))
    ]
    assert keys[0] == keys[1] != keys[2]


def test_its_type_is_none_of_kafka_s() -> None:
    """A reader of group records passes over it, Kafka's and ours."""
    assert CLAIM_TYPE not in RECORD_TYPES
    record = claim_record(CLAIM, WRITER, WALL_MS)
    assert decode_record(record.key, record.value) is None


def test_another_record_is_no_claim() -> None:
    assert read_claim(Record(b"\x00\x01group", b"\x00\x04", WALL_MS)) is None
    assert read_claim(Record(None, b"", WALL_MS)) is None


@pytest.mark.parametrize(
    "value", [None, b"", b"\x00", b"\x00\x00", pack(">hbiibbb", 0, 3, 1, 1, 0, 1, 0), pack(">hb", 1, 0)]
)
def test_a_claim_that_cannot_be_read_is_not_passed_over(value: bytes | None) -> None:
    """Who may write the log is not known then: also of a later version, of another kind, or of a hand."""
    key = claim_record(CLAIM, WRITER, WALL_MS).key
    with pytest.raises(UnreadableClaimError, match="the claim at offset 17 "):
        read_claim(Record(key, value, WALL_MS, offset=17))


def test_what_a_later_version_adds_under_a_tag_is_passed_over() -> None:
    record = claim_record(CLAIM, WRITER, WALL_MS)
    assert record.value is not None
    assert record.value[-1:] == b"\x00", "no tags"
    later = Record(record.key, record.value[:-1] + b"\x01\x09\x02hi", WALL_MS)
    assert read_claim(later) == CLAIM


# What a Fetch brings.


def batch(records: list[Record], base_offset: int, writer: Writer = WRITER) -> bytes:
    return bytes(encode_batch(records, base_offset=base_offset, producer=BatchProducer(*writer, 0)))


def read(buffer: bytes, position: int = 0, high_watermark: int = 100) -> Fetched:
    return fetched(
        PartitionData(partition_index=0, high_watermark=high_watermark, records=buffer), position, 1, 5, 0
    )


DATA = [Record(b"a", b"1", WALL_MS), Record(b"b", b"2", WALL_MS)]


def test_a_fetch_is_read_from_its_position_on() -> None:
    buffer = batch(DATA, 4) + batch([claim_record(CLAIM, WRITER, WALL_MS)], 10) + batch(DATA, 11)
    answer = read(buffer, position=10, high_watermark=13)
    assert [(each.header.base_offset, each.claim) for each in answer.batches] == [(10, CLAIM), (11, None)]
    assert [record.value for record in answer.batches[1].records()] == [b"1", b"2"]
    assert (answer.next_offset, answer.is_whole) == (13, True)
    followed = answer.followed()
    assert [(each.base_offset, each.last_offset, each.writer) for each in followed.batches] == [
        (10, 10, WRITER),
        (11, 12, WRITER),
    ]
    assert (followed.next_offset, followed.high_watermark, followed.sent_ms) == (13, 13, 5)


def test_a_batch_that_is_cut_short_is_read_with_the_next_fetch() -> None:
    whole, cut = batch(DATA, 0), batch(DATA, 2)[:-1]
    answer = read(whole + cut)
    assert (len(answer.batches), answer.next_offset, answer.is_whole) == (1, 2, False)


def test_where_there_is_nothing_the_position_stays() -> None:
    answer = read(b"", position=100)
    assert (answer.batches, answer.next_offset, answer.is_whole) == ([], 100, True)


def test_a_damaged_batch_is_not_read() -> None:
    damaged = bytearray(batch(DATA, 0))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match="the batch at offset 0 does not have the CRC that it names"):
        read(bytes(damaged))
