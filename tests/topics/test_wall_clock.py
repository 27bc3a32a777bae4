"""The wall clock goes back, or ahead: what goes by it, and that nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.records.batch import parse_header, walk
from storage.log.partition_log import PartitionLog
from storage.producers.producer_state import ProducerState
from tests.topics.requests import fetch, list_offset, produce
from tests.topics.world import World, batch

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LATEST, MAX_TIMESTAMP = -1, -3


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def log_of(world: World, topic: str) -> PartitionLog:
    partition = world.registry.partition(topic, 0)
    assert partition is not None
    return partition.log


# Retention.


def aged(world: World) -> PartitionLog:
    """Two segments of a record each: of two minutes ago, and of now."""
    world.topic("t", retention_ms=str(MINUTE_MS), segment_ms="1000")
    for at_ms in (WALL_MS - 2 * MINUTE_MS, WALL_MS):
        produce(world, batch(b"v", at_ms=at_ms))
    log = log_of(world, "t")
    assert len(log.segments) == 2
    return log


def test_a_clock_that_goes_back_deletes_nothing_and_what_is_old_goes_when_it_is_right_again(
    world: World,
) -> None:
    log = aged(world)
    assert log.apply_retention(WALL_MS - HOUR_MS) == 0
    assert log.apply_retention(WALL_MS) == 1
    assert log.log_start_offset == 1


def test_a_clock_that_goes_ahead_takes_what_it_calls_old_and_the_log_goes_on(world: World) -> None:
    """As in Kafka: retention has no other clock. What is then written by the right clock is as old as it says."""
    log = aged(world)
    assert log.apply_retention(WALL_MS + HOUR_MS) == 2
    assert (log.log_start_offset, log.next_offset) == (2, 2)
    assert produce(world, batch(b"v", at_ms=WALL_MS)).error_code == ErrorCode.NONE
    assert log.apply_retention(WALL_MS) == 0
    assert fetch(world, offset=2).records


def test_records_from_a_future_that_was_none_are_kept_until_it_has_passed(world: World) -> None:
    world.topic("t", retention_ms=str(MINUTE_MS), segment_ms="1000")
    world.wall += HOUR_MS
    produce(world, batch(b"v", at_ms=world.wall))
    world.wall -= HOUR_MS
    log = log_of(world, "t")
    assert log.apply_retention(WALL_MS + HOUR_MS + MINUTE_MS) == 0
    assert log.apply_retention(WALL_MS + HOUR_MS + MINUTE_MS + 1) == 1


# Producers.


def numbered(sequence: int, *, transactional: bool = False) -> bytes:
    return batch(b"v", producer_id=9, producer_epoch=0, base_sequence=sequence, transactional=transactional)


def test_a_clock_that_goes_back_forgets_no_producer(world: World) -> None:
    world.topic("t")
    expiration_ms = world.settings.producer_id_expiration_ms
    produce(world, numbered(0))
    world.wall -= HOUR_MS
    assert world.registry.expire_producers(world.registry.partitions()) == 0
    assert produce(world, numbered(5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    world.wall = WALL_MS + expiration_ms - 1
    assert world.registry.expire_producers(world.registry.partitions()) == 0
    world.wall += 1
    assert world.registry.expire_producers(world.registry.partitions()) == 1


def test_a_producer_that_a_leap_of_the_clock_has_forgotten_goes_on(world: World) -> None:
    """It costs what it knows of repetitions, and no record: its next batch may begin anywhere."""
    world.topic("t")
    produce(world, numbered(0))
    world.wall += 2 * world.settings.producer_id_expiration_ms
    assert world.registry.expire_producers(world.registry.partitions()) == 1
    world.wall = WALL_MS
    assert produce(world, numbered(1)).error_code == ErrorCode.NONE
    assert produce(world, numbered(1)).base_offset == 1, "known again, so it is seen to be repeated"
    assert produce(world, numbered(3)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_no_leap_of_the_clock_forgets_a_producer_in_a_transaction() -> None:
    """Its marker is still to come."""
    state, data = ProducerState(), numbered(0, transactional=True)
    state.appended(parse_header(data), data, 0, WALL_MS)
    assert state.expire(WALL_MS + 1000 * HOUR_MS, expiration_ms=1) == 0
    assert state.has_open_transaction(9)


# Log append time, and the times that producers claim.


def test_log_append_time_is_what_the_clock_said_and_look_ups_find_it(world: World) -> None:
    world.topic("l", message_timestamp_type="LogAppendTime", segment_ms=str(10 * HOUR_MS))
    times_ms = (WALL_MS, WALL_MS - HOUR_MS, WALL_MS - HOUR_MS + 1, WALL_MS + 1)
    for wall_ms in times_ms:
        world.wall = wall_ms
        assert produce(world, batch(b"v", at_ms=5), "l").log_append_time_ms == wall_ms
    for life in (world, world.restart()):
        found = [each.max_timestamp_ms for each in walk(bytes(fetch(life, "l").records or b""))]
        assert found == list(times_ms)
        # The first record that is as late as asked; earlier ones may be later, as their clock was.
        assert [list_offset(life, at_ms, "l").offset for at_ms in times_ms] == [0, 0, 0, 3]
        assert list_offset(life, MAX_TIMESTAMP, "l").offset == 3
        assert list_offset(life, WALL_MS + 2, "l").offset == -1
        assert list_offset(life, LATEST, "l").offset == 4
        assert len(log_of(life, "l").segments) == 1, "a clock that goes back rolls nothing"


def test_a_clock_that_goes_ahead_rolls_once(world: World) -> None:
    world.topic("l", message_timestamp_type="LogAppendTime", segment_ms=str(MINUTE_MS))
    for leap_ms in (0, HOUR_MS, 0, 1):
        world.wall = WALL_MS + leap_ms
        produce(world, batch(b"v"), "l")
    assert [segment.base_offset for segment in log_of(world, "l").segments] == [0, 1]


def test_producers_with_the_right_time_are_refused_by_a_clock_that_went_back_too_far(world: World) -> None:
    """`message.timestamp.after.max.ms` is an hour; until it is passed nothing shows."""
    world.topic("t")
    world.wall -= HOUR_MS
    assert produce(world, batch(b"v", at_ms=WALL_MS)).error_code == ErrorCode.NONE
    world.wall -= 1
    assert produce(world, batch(b"v", at_ms=WALL_MS)).error_code == ErrorCode.INVALID_TIMESTAMP
