"""Ranges of a log: shared out to batches and tasks, and read through librdkafka, whatever is missing in them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.observer import Observer
from harness.processes import ServerProcess
from muster.spark.decoding import reading
from muster.spark.decoding.log_source import OffsetsLogReader, Reach, next_ends, pieces
from muster.spark.decoding.reading import Range, read_ranges
from muster.spark.errors import PassingError
from tests.spark.topics import write

PARTITIONS = 2
FIRST_MS = time.time_ns() // 1_000_000 - 3_600_000

offsets = st.integers(0, 10_000)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 9), st.tuples(offsets, offsets), min_size=1), st.integers(100, 5_000))
def test_batches_come_to_the_end_in_steps_of_bounded_size(log: dict[int, tuple[int, int]], most: int) -> None:
    at = {partition: min(ends) for partition, ends in log.items()}
    ends = {partition: max(ends) for partition, ends in log.items()}
    steps = 0
    while at != ends:
        after = next_ends(at, ends, most)
        taken = [after[each] - at[each] for each in ends]
        assert all(count >= 0 for count in taken)
        assert 0 < sum(taken) <= most + len(ends)
        assert all(after[each] > at[each] for each in ends if at[each] < ends[each]), "one stands still"
        at, steps = after, steps + 1
    assert steps <= 2 * (sum(max(ends) - min(ends) for ends in log.values()) // most + 1)
    assert next_ends(at, ends, most) == ends


@settings(deadline=None)
@given(st.lists(st.tuples(offsets, offsets), max_size=12), st.integers(1, 8))
def test_tasks_share_the_ranges_evenly_and_whole(log: list[tuple[int, int]], count: int) -> None:
    ranges = [Range(number, min(ends), max(ends)) for number, ends in enumerate(log)]
    shared = pieces(ranges, count)
    total = sum(each.end - each.start for each in ranges)
    sizes = [sum(each.end - each.start for each in some) for some in shared]
    assert sum(sizes) == total
    assert len(shared) <= count
    assert all(0 < size <= -(-total // count) for size in sizes)
    places = [(each.partition, at) for some in shared for each in some for at in (each.start, each.end)]
    for number, ends in enumerate(log):
        mine = [at for partition, at in places if partition == number]
        assert mine == sorted(mine)
        assert not mine or (mine[0], mine[-1]) == (min(ends), max(ends))


def test_a_query_goes_on_behind_the_batch_that_was_planned_last() -> None:
    """Spark asks for the next end, and does not say from where."""
    reach = Reach("b:1", {"x": "y"}, "log", {0: 5, 1: 0}, {0: 50, 1: 40}, {0: 100, 1: 90}, 60, 2, 7)
    reader = OffsetsLogReader(Reach.from_json(reach.to_json()))
    assert reader.initialOffset() == {"log": {"0": 5, "1": 0}}
    assert reader.latestOffset() == {"log": {"0": 80, "1": 70}}
    assert reader.latestOffset() == {"log": {"0": 100, "1": 90}}
    assert reader.latestOffset() == {"log": {"0": 100, "1": 90}}


@pytest.fixture(scope="module")
def topic(broker: ServerProcess, observer: Observer) -> str:
    """In each partition: 0 to 49 plain, 50 to 52 aborted and a marker, 54 to 56 committed and a marker."""
    name = observer.create_topic("log", PARTITIONS)
    write(broker.bootstrap, name, [f"v{n}" for n in range(100)], partitions=PARTITIONS, first_ms=FIRST_MS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(20)
    for outcome in ("aborted", "committed"):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for number in range(3):
                producer.produce(name, None if number else outcome, outcome, partition=partition)
        assert producer.flush(20) == 0  # What is aborted before it was sent is never written.
        if outcome == "aborted":
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    return name


def places(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for batch in batches:
        assert batch.schema == reading.SCHEMA
        found += zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    return found


def test_a_range_is_read_whole_and_no_further(broker: ServerProcess, topic: str) -> None:
    ranges = [Range(0, 10, 20), Range(1, 0, 50), Range(0, 30, 30)]
    (first, *more) = read_ranges(broker.bootstrap, {}, topic, ranges)
    assert first.column("value").to_pylist() == [f"v{2 * n}".encode() for n in range(10, 20)]
    assert first.column("key").to_pylist() == first.column("value").to_pylist()
    times = first.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [(FIRST_MS + 2 * n) * 1000 for n in range(10, 20)]
    assert places(iter([first, *more])) == [(0, n) for n in range(10, 20)] + [(1, n) for n in range(50)]


def test_what_was_aborted_is_left_out_and_an_end_that_is_a_marker_is_found(
    broker: ServerProcess, topic: str
) -> None:
    batches = list(read_ranges(broker.bootstrap, {}, topic, [Range(1, 45, 58)]))
    assert places(iter(batches)) == [(1, n) for n in (45, 46, 47, 48, 49, 54, 55, 56)]
    assert [each for batch in batches for each in batch.column("value").to_pylist()][-3:] == [
        b"committed", None, None,
    ]  # fmt: skip
    # A range that is nothing but an aborted transaction; records come behind it.
    assert places(read_ranges(broker.bootstrap, {}, topic, [Range(1, 50, 54), Range(0, 56, 58)])) == [(0, 56)]


def test_a_log_of_which_nothing_comes_is_reported(
    broker: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PATIENCE_S", 0.3)
    for bootstrap, topic in ((broker.bootstrap, "no-such-topic"), ("127.0.0.1:9", "log")):
        with pytest.raises(PassingError, match="nothing came of partition 0"):
            places(read_ranges(bootstrap, {}, topic, [Range(0, 0, 5)]))


def test_what_the_client_says_instead_of_a_record_is_the_end_or_an_error() -> None:
    assert reading._is_end(Message(error=KafkaError(KafkaError._PARTITION_EOF, "as it says")))
    with pytest.raises(PassingError, match="could not be read: as it says"):
        reading._is_end(Message(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "as it says")))


def test_a_log_that_ends_before_its_range_ends_the_range(broker: ServerProcess, topic: str) -> None:
    assert places(read_ranges(broker.bootstrap, {}, topic, [Range(0, 55, 500)])) == [(0, 55), (0, 56)]
