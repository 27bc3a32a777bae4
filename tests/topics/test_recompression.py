"""`compression.type`: batches of another codec are stored in the topic's, with all else as it came."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.partition import Partition
from coordinator.topics.workers import ThreadWorkers
from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.records.batch import check_crc
from protocol.records.compression import compress
from protocol.records.records import Codec, Record, parse_header, payload_of, read_records
from tests.batches import encode_batch
from tests.topics.requests import fetch, produce, produce_request
from tests.topics.world import World, batch

NAMES = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}
RECORDS = [
    Record(b"k", b"v" * 50, WALL_MS + 3),
    Record(None, None, WALL_MS),
    Record(b"", b"w" * 300, WALL_MS + 9),
]
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2}


def partition_of(world: World, index: int = 0) -> Partition:
    partition = world.registry.partition("t", index)
    assert partition is not None
    return partition


def from_producer(sequence: int, codec: Codec = Codec.NONE) -> bytes:
    return bytes(encode_batch(RECORDS[:1], codec=codec, base_sequence=sequence, **PRODUCER))


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("codec", Codec)
def test_only_the_codec_changes(world: World, name: str, codec: Codec, transactional: bool) -> None:
    world.topic("t", compression_type=name)
    produce(world, batch(b"before"))
    sent = bytes(encode_batch(RECORDS, codec=codec, base_sequence=0, transactional=transactional, **PRODUCER))
    request = produce_request(sent)
    request.transactional_id = "tx" if transactional else None
    (answer,) = world.ask(request, 9).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (0, 1)
    stored = bytes(fetch(world, offset=1).records or b"")
    came, kept = parse_header(sent), parse_header(stored)
    assert kept.codec == NAMES[name]
    assert check_crc(stored, kept)
    differing = {"size_bytes": 0, "base_offset": 0, "leader_epoch": 0, "crc": 0, "attributes": 0}
    assert replace(kept, **differing) == replace(came, **differing)
    assert kept.attributes & ~7 == came.attributes & ~7
    assert payload_of(stored, kept) == payload_of(sent, came)
    assert [record.value for record in read_records(stored, kept)] == [record.value for record in RECORDS]
    if NAMES[name] == codec:
        assert stored[16:] == sent[16:], "nothing was to be done"


def test_the_topics_time_is_written_into_it_too(world: World) -> None:
    world.topic("t", compression_type="zstd", message_timestamp_type="LogAppendTime")
    assert produce(world, batch(b"a", at_ms=5)).log_append_time_ms == world.wall
    stored = bytes(fetch(world).records or b"")
    kept = parse_header(stored)
    assert (kept.is_log_append_time, kept.max_timestamp_ms, kept.codec) == (True, world.wall, Codec.ZSTD)
    assert check_crc(stored, kept)


def test_what_comes_meanwhile_keeps_its_order_and_other_partitions_go_on(world: World) -> None:
    world.topic("t", partitions=2, compression_type="gzip")
    produce(world, batch(b"known", codec=Codec.GZIP))
    first = world.start(produce_request(batch(b"a")), 9)
    second = world.start(produce_request(batch(b"b", codec=Codec.GZIP)), 9)
    third = world.start(produce_request(batch(b"c", codec=Codec.LZ4)), 9)
    other = world.start(produce_request(batch(b"d", codec=Codec.GZIP), partition=1), 9)
    assert partition_of(world).log.next_offset == 1, "the first is on a thread, the others wait for it"
    assert partition_of(world, 1).log.next_offset == 1
    world.settle()
    answers = [each.answer.responses[0].partition_responses[0] for each in (first, second, third, other)]
    assert [answer.base_offset for answer in answers] == [1, 2, 3, 0]


def test_a_batch_that_is_too_large_in_the_topics_codec_is_refused_and_the_next_is_not(world: World) -> None:
    world.topic("t", compression_type="uncompressed", max_message_bytes="1000")
    refused = world.start(produce_request(batch(bytes(1000), codec=Codec.GZIP)), 9)
    taken = world.start(produce_request(batch(b"a", codec=Codec.GZIP)), 9)
    world.settle()
    answer = refused.answer.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert answer.error_message is not None
    assert "in the topic's codec none, and at most 1000 are taken" in answer.error_message
    assert taken.answer.responses[0].partition_responses[0].base_offset == 0


def test_a_batch_that_is_sent_again_is_recognised(world: World) -> None:
    world.topic("t", compression_type="zstd")
    assert produce(world, from_producer(0)).base_offset == 0
    assert produce(world, from_producer(1)).base_offset == 1
    assert produce(world, from_producer(0)).base_offset == 0
    assert partition_of(world).log.next_offset == 2


def test_what_producers_sent_is_read_again_if_the_log_failed_meanwhile(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    world = World(tmp_path, files=files)
    world.topic("t", compression_type="zstd")
    assert produce(world, from_producer(0)).base_offset == 0
    again = world.start(produce_request(from_producer(0)), 9)
    encoding = world.queue.pop()
    partition = partition_of(world)
    files.fail_always("write")
    partition.append_local(bytearray(batch(b"lost")))
    world.queue.popleft()()
    files.fault = None
    world.settle()
    assert (partition.append_error, partition.producers) == (ErrorCode.NONE, None)
    world.queue.append(encoding)
    world.settle()
    assert again.answer.responses[0].partition_responses[0].base_offset == 0
    assert partition.log.next_offset == 1


def test_the_levels_are_kafkas() -> None:
    data = b"".join(b"%d,%d;" % (number * number % 977, number * 31 % 1009) for number in range(20_000))
    sizes = {level: len(compress(Codec.GZIP, data, level)) for level in (None, -1, 1, 6, 9)}
    assert sizes[None] == sizes[-1] == sizes[6]
    assert sizes[1] > sizes[6] >= sizes[9]
    assert compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data)
    assert len(compress(Codec.LZ4, data, 12)) < len(compress(Codec.LZ4, data))
    assert compress(Codec.ZSTD, data, 3) == compress(Codec.ZSTD, data)
    assert len(compress(Codec.ZSTD, data, 19)) < len(compress(Codec.ZSTD, data, -5))


def test_a_topics_level_is_used(world: World) -> None:
    text = b"".join(b"%d;" % (number * number % 977) for number in range(5000))
    sizes = []
    for level in ("1", "9"):
        world.topic(f"t{level}", compression_type="gzip", compression_gzip_level=level)
        assert produce(world, batch(text), topic=f"t{level}").error_code == 0
        partition = world.registry.partition(f"t{level}", 0)
        assert partition is not None
        sizes.append(partition.log.size_bytes)
    assert sizes[0] > sizes[1]


def test_workers_are_idle_when_what_they_brought_has_been_handled() -> None:
    async def run() -> list[str]:
        workers = ThreadWorkers(1, asyncio.get_running_loop().call_soon_threadsafe, "test")
        handled: list[str] = []

        def on_first(_: Future[None]) -> None:
            handled.append("first")
            workers.submit(lambda: None, lambda _: handled.append("second"))

        await workers.idle()
        workers.submit(lambda: None, on_first)
        await workers.idle()
        workers.close()
        return handled

    assert asyncio.run(run()) == ["first", "second"]
