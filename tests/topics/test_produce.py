"""Produce: what is stored and refused, and when the answer leaves (errors as Kafka 4.3.1 answers them)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from google_crc32c import value as crc32c

from coordinator.topics.names import GROUP_EVENTS_TOPIC
from coordinator.topics.settings import TopicSettings
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Codec, Record, encode_batch, parse_header, read_records
from tests.topics.requests import fetch, fetch_request, partitions_of, produce, produce_request
from tests.topics.world import World, batch

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("t", partitions=2)


def with_header(data: bytes, position: int, form: str, value: int) -> bytes:
    """`data` with one header field changed and the CRC right again."""
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_stored_as_it_came_but_for_its_offsets(world: World, codec: Codec) -> None:
    first, second = batch(b"a", b"b", codec=codec), batch(b"c", codec=codec)
    assert produce(world, first).base_offset == 0
    assert produce(world, second).base_offset == 2
    stored = bytes(fetch(world).records or b"")
    assert stored[12 + 4 : len(first)] == first[12 + 4 :]
    assert parse_header(stored, len(first)).base_offset == 2
    assert stored[len(first) + 16 :] == second[16:]


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_leaves_after_the_flush_and_not_before(world: World, acks: int) -> None:
    waiting = world.start(produce_request(batch(b"a"), acks=acks), 9)
    assert not waiting.is_answered
    assert partitions_of(world.start(fetch_request(("t", 0, 0)), 12).answer)[0].records == b""
    world.settle()
    assert waiting.answer.responses[0].partition_responses[0].error_code == 0


def test_pipelined_batches_share_flushes(world: World) -> None:
    waiting = [world.start(produce_request(batch(b"%d" % index)), 9) for index in range(20)]
    world.settle()
    offsets = [each.answer.responses[0].partition_responses[0].base_offset for each in waiting]
    assert offsets == list(range(20))
    assert world.flush_count <= 2


def test_without_acks_there_is_no_answer_but_the_place_is_kept_until_the_flush(world: World) -> None:
    waiting = world.start(produce_request(batch(b"a"), acks=0), 9)
    assert not waiting.is_answered
    world.settle()
    assert waiting.is_answered
    assert waiting.answer is None
    assert fetch(world).high_watermark == 1


def test_without_acks_an_error_closes_the_connection(world: World) -> None:
    """A producer that expects no answer learns of it in no other way; Kafka does the same."""
    waiting = world.start(produce_request(b"", acks=0), 9)
    world.settle()
    assert waiting.answer is None
    assert waiting.dropped_for == "lost with acks=0: t-0 INVALID_RECORD"


def test_each_partition_has_its_own_error(world: World) -> None:
    data = [
        PartitionProduceData(index=0, records=batch(b"a")),
        PartitionProduceData(index=1, records=b""),
        PartitionProduceData(index=7, records=batch(b"a")),
    ]
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    answers = world.ask(request, 9).responses[0].partition_responses
    assert [(each.index, each.error_code, each.base_offset) for each in answers] == [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.INVALID_RECORD, -1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


REFUSED = {
    "two batches": (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
    "a wrong checksum": (batch(b"a")[:-1] + b"\x7e", ErrorCode.CORRUPT_MESSAGE),
    "an offset": (batch(b"a", base_offset=5), ErrorCode.INVALID_RECORD),
    "a control batch": (batch(b"a", control=True), ErrorCode.INVALID_RECORD),
    "more records than said": (with_header(batch(b"a", b"b"), 57, ">i", 1), ErrorCode.INVALID_RECORD),
    "an unknown codec": (with_header(batch(b"a"), 21, ">h", 5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "a producer without sequence": (batch(b"a", producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
    "magic 1": (with_header(batch(b"a"), 16, ">b", 1), ErrorCode.INVALID_RECORD),
    "too many bytes": (batch(b"x" * 1_048_600), ErrorCode.MESSAGE_TOO_LARGE),
    "a time too far ahead": (batch(b"a", at_ms=WALL_MS + DAY_MS), ErrorCode.INVALID_TIMESTAMP),
    "a transaction": (
        batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_not_be_stored_is_refused_and_changes_nothing(world: World, what: str) -> None:
    records, error = REFUSED[what]
    answer = produce(world, records)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert fetch(world).high_watermark == 0


def test_zstd_needs_version_7(world: World) -> None:
    records = batch(b"a", codec=Codec.ZSTD)
    assert produce(world, records, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(world, records, version=7).error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(world: World, acks: int) -> None:
    assert produce(world, batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_unknown_topics_are_answered_by_name_and_by_id(world: World) -> None:
    assert produce(world, batch(b"a"), topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    data = TopicProduceData(
        topic_id=b"\7" * 16, partition_data=[PartitionProduceData(index=0, records=batch(b"a"))]
    )
    answer = world.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[data]), 13).responses[0]
    assert answer.topic_id == b"\7" * 16
    assert answer.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_topics_go_by_id_from_version_13(world: World) -> None:
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    data = TopicProduceData(
        topic_id=topic_id, partition_data=[PartitionProduceData(index=1, records=batch(b"a"))]
    )
    answer = world.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[data]), 13).responses[0]
    assert answer.topic_id == topic_id
    assert answer.partition_responses[0].base_offset == 0
    assert fetch(world, partition=1).high_watermark == 1


def test_only_the_admin_client_writes_internal_topics(world: World) -> None:
    world.registry.internal(GROUP_EVENTS_TOPIC, 1, {})
    refused = produce(world, batch(b"a"), topic=GROUP_EVENTS_TOPIC)
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    taken = produce(world, batch(b"a"), topic=GROUP_EVENTS_TOPIC, client_id="__admin_client")
    assert taken.error_code == ErrorCode.NONE


def test_a_compacted_topic_refuses_records_without_a_key_and_says_which(world: World) -> None:
    world.topic("c", cleanup_policy="compact")
    records = bytes(encode_batch([Record(b"k", b"v", WALL_MS), Record(None, b"v", WALL_MS)]))
    answer = produce(world, records, topic="c")
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert produce(world, batch(b"v"), topic="c").error_code == ErrorCode.NONE


def test_a_producers_time_is_kept_or_replaced_as_the_topic_says(world: World) -> None:
    world.topic("l", message_timestamp_type="LogAppendTime")
    old_ms = WALL_MS - 5 * DAY_MS
    kept, replaced = (
        produce(world, batch(b"a", at_ms=old_ms)),
        produce(world, batch(b"a", at_ms=old_ms), topic="l"),
    )
    assert (kept.log_append_time_ms, replaced.log_append_time_ms) == (-1, WALL_MS)
    assert [record.timestamp_ms for record in records_of(world, "t")] == [old_ms]
    assert [record.timestamp_ms for record in records_of(world, "l")] == [WALL_MS]


def test_timestamps_do_not_matter_where_they_are_replaced(world: World) -> None:
    world.topic("l", message_timestamp_type="LogAppendTime")
    assert produce(world, batch(b"a", at_ms=WALL_MS + DAY_MS), topic="l").error_code == ErrorCode.NONE


def test_a_client_cannot_claim_the_logs_append_time(world: World) -> None:
    produce(world, batch(b"a", at_ms=WALL_MS - 5, log_append_time=True))
    stored = bytes(fetch(world).records or b"")
    assert not parse_header(stored).is_log_append_time


def records_of(world: World, topic: str) -> list[Record]:
    stored = bytes(fetch(world, topic=topic).records or b"")
    return read_records(stored, parse_header(stored))


def test_a_batch_larger_than_a_segment_is_refused(world: World) -> None:
    world.topic("s", segment_bytes=str(1 << 20), max_message_bytes=str(2 << 20))
    answer = produce(world, batch(b"x" * (3 << 19)), topic="s")
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name_is_answered(world: World, version: int) -> None:
    answer: Any = produce(world, batch(b"a"), version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_the_settings_bound_applies_to_all_topics(tmp_path: Any) -> None:
    world = World(tmp_path / "other", TopicSettings(message_max_bytes=1000))
    world.topic("t")
    assert produce(world, batch(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
