"""Fetch: what is read, within which limits, and how a request waits."""

from __future__ import annotations

import pytest

from coordinator.data import fetch_read
from coordinator.data.delayed_fetch import SLICE_MS
from harness.doubles.fake_pending import FakePending
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.records.records import Codec, parse_header, walk
from storage.files import File
from tests.topics.requests import fetch, fetch_request, partitions_of, produce
from tests.topics.world import World, batch

ONE = len(batch(b"a"))


@pytest.fixture(autouse=True)
def topic(world: World) -> None:
    world.topic("t", partitions=3)


def test_reading_begins_with_the_batch_that_holds_the_offset(world: World) -> None:
    produce(world, batch(b"a", b"b"))
    produce(world, batch(b"c"))
    stored = fetch(world, offset=1).records
    assert [(each.base_offset, each.last_offset) for each in walk(bytes(stored or b""))] == [(0, 1), (2, 2)]


def test_an_empty_record_set_is_not_null_and_the_ends_are_answered(world: World) -> None:
    answer = fetch(world)
    assert answer.records == b""
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (0, 0, 0)
    assert answer.preferred_read_replica == -1


def test_aborted_transactions_are_null_or_empty_by_isolation_level(world: World) -> None:
    assert fetch(world).aborted_transactions is None
    assert fetch(world, isolation_level=1).aborted_transactions == []


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_the_log_is_out_of_range(world: World, offset: int) -> None:
    produce(world, batch(b"a"))
    answer = fetch(world, offset=offset, max_wait_ms=1000)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_unknown_topics_partitions_and_ids(world: World) -> None:
    assert fetch(world, topic="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(world, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id(world, b"\7" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def by_id(world: World, topic_id: bytes, current_leader_epoch: int = -1) -> PartitionData:
    asked = FetchPartition(
        partition=0,
        fetch_offset=0,
        partition_max_bytes=1 << 20,
        current_leader_epoch=current_leader_epoch,
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[asked])]
    )
    (only,) = partitions_of(world.ask(request, 18))
    return only


def test_topics_go_by_id_from_version_13(world: World) -> None:
    produce(world, batch(b"a"))
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    assert by_id(world, topic_id).high_watermark == 1
    assert by_id(world, topic_id, current_leader_epoch=0).error_code == 0
    assert by_id(world, topic_id, current_leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_log_that_is_shorter_than_the_client_thinks_is_answered_as_diverging(world: World) -> None:
    produce(world, batch(b"a"))
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    asked = FetchPartition(partition=0, fetch_offset=9, last_fetched_epoch=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=9, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[asked])]
    )
    (answer,) = partitions_of(world.ask(request, 18))
    assert (answer.error_code, answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 0, 1)
    asked.last_fetched_epoch = 1
    (answer,) = partitions_of(world.ask(request, 18))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def sizes(answers: list[PartitionData]) -> list[int]:
    return [len(answer.records or b"") for answer in answers]


def test_the_first_partition_with_records_gives_a_batch_however_small_the_limits(world: World) -> None:
    for partition in (1, 2):
        produce(world, batch(b"a"), partition=partition)
    wanted = [("t", partition, 0) for partition in range(3)]
    tight = world.ask(fetch_request(*wanted, max_bytes=1, partition_max_bytes=1), 12)
    assert sizes(partitions_of(tight)) == [0, ONE, 0]


def test_limits_of_partition_and_request_cut_at_whole_batches(world: World) -> None:
    for partition in (0, 1):
        for _ in range(3):
            produce(world, batch(b"a"), partition=partition)
    wanted = [("t", 0, 0), ("t", 1, 0)]
    by_partition = world.ask(fetch_request(*wanted, partition_max_bytes=2 * ONE + 5), 12)
    assert sizes(partitions_of(by_partition)) == [2 * ONE, 2 * ONE]
    by_request = world.ask(fetch_request(*wanted, max_bytes=4 * ONE + 5), 12)
    assert sizes(partitions_of(by_request)) == [3 * ONE, ONE]


def test_the_daemons_own_limit_holds_for_every_fetch(world: World) -> None:
    world.topic("big", max_message_bytes=str(40 << 20))
    for _ in range(3):
        produce(world, batch(b"x" * (30 << 20)), topic="big")
    answer = fetch(world, topic="big", max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1)
    assert len(answer.records or b"") <= world.settings.fetch_max_bytes


def test_compressed_batches_come_out_as_they_went_in(world: World) -> None:
    produce(world, batch(b"a" * 1000, codec=Codec.ZSTD))
    assert parse_header(fetch(world).records or b"").codec is Codec.ZSTD


# Waiting.


def parked(world: World, *wanted: tuple[str, int, int], **fields: int) -> FakePending:
    return world.start(fetch_request(*(wanted or (("t", 0, 0),)), **{"max_wait_ms": 500, **fields}), 12)


def test_a_fetch_waits_until_there_is_something(world: World) -> None:
    waiting = parked(world)
    world.settle()
    assert not waiting.is_answered
    assert world.armed == [world.time_ms + 500]
    produce(world, batch(b"a"))
    assert sizes(partitions_of(waiting.answer)) == [ONE]


def test_a_fetch_that_waits_sees_nothing_that_is_not_durable(world: World) -> None:
    waiting = parked(world)
    partition = world.registry.partition("t", 0)
    assert partition is not None
    partition.log.append(bytearray(batch(b"a")), wall_ms=0)
    world.purgatory.check_and_complete(partition.key, world.time_ms)
    assert not waiting.is_answered


def test_a_fetch_that_waits_in_vain_is_answered_in_time_and_empty(world: World) -> None:
    waiting = parked(world)
    world.pass_time(499)
    assert not waiting.is_answered
    world.pass_time(1)
    assert sizes(partitions_of(waiting.answer)) == [0]
    assert world.purgatory.delayed == 0


def test_min_bytes_are_counted_over_all_partitions_and_what_was_there_before(world: World) -> None:
    produce(world, batch(b"a"))
    waiting = parked(world, ("t", 0, 0), ("t", 1, 0), min_bytes=3 * ONE)
    produce(world, batch(b"b"), partition=1)
    assert not waiting.is_answered
    produce(world, batch(b"c"), partition=0)
    assert sizes(partitions_of(waiting.answer)) == [2 * ONE, ONE]


def test_one_partition_counts_no_more_than_it_may_give(world: World) -> None:
    waiting = parked(world, ("t", 0, 0), ("t", 1, 0), min_bytes=2 * ONE, partition_max_bytes=ONE)
    produce(world, batch(b"a"))
    produce(world, batch(b"b"))
    assert not waiting.is_answered
    produce(world, batch(b"c"), partition=1)
    assert sizes(partitions_of(waiting.answer)) == [ONE, ONE]


def test_what_is_written_past_the_partition_wakes_too(world: World) -> None:
    waiting = parked(world, min_bytes=1000)
    partition = world.registry.partition("t", 0)
    assert partition is not None
    partition.log.append(bytearray(batch(b"a")), wall_ms=0)
    partition.log.flush()
    partition._on_advanced()
    assert sizes(partitions_of(waiting.answer)) == [ONE]


def test_an_error_does_not_wait(world: World) -> None:
    waiting = parked(world, ("t", 0, 0), ("t", 1, 99))
    assert [answer.error_code for answer in partitions_of(waiting.answer)] == [0, 1]


def test_what_is_unknown_does_not_end_the_wait_of_the_others(world: World) -> None:
    """As Kafka has it: a consumer of many topics does not spin because one of them was deleted."""
    waiting = parked(world, ("nope", 0, 0), ("t", 0, 0))
    assert not waiting.is_answered
    produce(world, batch(b"a"))
    assert [answer.error_code for answer in partitions_of(waiting.answer)] == [0, 3]


def test_only_what_is_unknown_does_not_wait(world: World) -> None:
    assert parked(world, ("nope", 0, 0)).is_answered


def test_no_partitions_do_not_wait(world: World) -> None:
    waiting = world.start(FetchRequest(max_wait_ms=500, min_bytes=1), 12)
    assert waiting.answer.responses == []


def test_a_fetch_whose_connection_is_gone_reads_nothing(world: World) -> None:
    waiting = parked(world)
    waiting.is_open = False
    produce(world, batch(b"a"))
    assert not waiting.is_answered
    assert world.purgatory.delayed == 0


def test_a_long_wait_is_cut_into_slices_that_the_client_does_not_see(world: World) -> None:
    waiting = parked(world, max_wait_ms=3 * SLICE_MS)
    world.pass_time(SLICE_MS)
    world.pass_time(SLICE_MS)
    assert not waiting.is_answered
    produce(world, batch(b"a"))
    assert sizes(partitions_of(waiting.answer)) == [ONE]


def test_a_client_that_is_gone_is_not_kept_for_as_long_as_it_asked(world: World) -> None:
    waiting = parked(world, max_wait_ms=2**31 - 1)
    waiting.is_open = False
    world.pass_time(SLICE_MS)
    assert world.purgatory.delayed == 0
    assert not waiting.is_answered


def test_cold_records_are_read_off_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(world, batch(b"a"))
    monkeypatch.setattr(File, "read_at_nowait", lambda *_: None)
    waiting = world.start(fetch_request(("t", 0, 0), ("t", 1, 0)), 12)
    assert not waiting.is_answered
    world.settle()
    assert sizes(partitions_of(waiting.answer)) == [ONE, 0]


def test_more_than_a_loops_turn_may_look_up_is_found_off_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_read, "INLINE_FINDS", 2)
    for partition in range(3):
        produce(world, batch(b"a"), partition=partition)
    waiting = world.start(fetch_request(*(("t", partition, 0) for partition in range(3))), 12)
    assert not waiting.is_answered
    world.settle()
    assert sizes(partitions_of(waiting.answer)) == [ONE] * 3


def test_the_deletion_of_a_topic_wakes_those_who_wait(world: World) -> None:
    waiting = parked(world)
    topic = world.registry.get("t")
    assert topic is not None
    world.registry.delete(topic, lambda _: None)
    world.settle()
    assert [each.error_code for each in partitions_of(waiting.answer)] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_answered(world: World, version: int) -> None:
    produce(world, batch(b"a"))
    topic_id = world.registry.topic_id("t")
    assert topic_id is not None
    name = {"topic": "t"} if version < 13 else {"topic_id": topic_id}
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(partitions=[asked], **name)])
    assert sizes(partitions_of(world.ask(request, version))) == [ONE]
