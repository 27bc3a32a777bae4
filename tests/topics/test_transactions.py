"""Transactions on partitions: verification, markers, what committed readers see (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator.data.transaction_verifier import OnVerified
from harness.doubles.fake_pending import FakePending
from harness.doubles.runtime_world import WALL_MS
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.list_offsets import (
    LATEST,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.records.batch import walk
from protocol.topic_partition import TopicPartition
from tests.topics.requests import fetch, fetch_request, partitions_of, produce, produce_request
from tests.topics.world import World, batch

READ_COMMITTED = 1
DAY_MS = 86_400_000


class Coordinator:
    """The double of the transaction coordinator: gives the answers that a test chose, at once or when asked to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, Sequence[tuple[str, int]], bool]] = []
        self.says: dict[tuple[str, int], ErrorCode] = {}
        self.is_slow = False
        self.waiting: list[Callable[[], None]] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        add: bool,
        done: OnVerified,
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, partitions, add))
        answers = {each: self.says.get(each, ErrorCode.NONE) for each in partitions}
        if self.is_slow:
            self.waiting.append(lambda: done(answers))
        else:
            done(answers)

    def answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def world(tmp_path: Path, coordinator: Coordinator) -> World:
    world = World(tmp_path, verifier=coordinator)
    world.topic("t", partitions=2)
    return world


def within(sequence: int, *values: bytes, producer_id: int = 7, epoch: int = 0, **options: Any) -> bytes:
    """A batch of a transaction."""
    given = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, **options}
    return batch(*(values or (b"v",)), transactional=True, **given)


def request_of(*parts: tuple[int, bytes], topic: str = "t") -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    return ProduceRequest(
        transactional_id="x",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


def send(world: World, records: bytes, partition: int = 0, version: int = 11) -> PartitionProduceResponse:
    answer: ProduceResponse = world.ask(request_of((partition, records)), version)
    return answer.responses[0].partition_responses[0]


def finish(
    world: World,
    commit: bool = True,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    topic: str = "t",
    partition: int = 0,
) -> int:
    """The error of WriteTxnMarkers for one partition."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer: WriteTxnMarkersResponse = world.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
    (only,) = answer.markers[0].topics[0].partitions
    assert (answer.markers[0].producer_id, only.partition_index) == (producer_id, partition)
    return only.error_code


def committed(world: World, offset: int = 0, **fields: Any) -> tuple[int, int, int, list[tuple[int, int]]]:
    """End of the fetched batches, high watermark, last stable offset, and what was aborted."""
    answer = fetch(world, offset=offset, isolation_level=READ_COMMITTED, **fields)
    assert answer.error_code == 0
    assert answer.records is not None
    end = max((each.last_offset + 1 for each in walk(answer.records)), default=offset)
    aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or []]
    return end, answer.high_watermark, answer.last_stable_offset, aborted


# What committed readers see.


def test_committed_readers_stop_at_the_first_open_transaction(world: World) -> None:
    produce(world, batch(b"plain"))
    assert committed(world) == (1, 1, 1, [])
    send(world, within(0))
    produce(world, batch(b"plain"))
    assert committed(world) == (1, 3, 1, [])
    assert committed(world, offset=1) == (1, 3, 1, [])
    plain = fetch(world)
    assert (plain.high_watermark, plain.last_stable_offset, plain.aborted_transactions) == (3, 1, None)
    assert plain.records is not None
    assert max(each.last_offset for each in walk(plain.records)) == 2
    assert finish(world) == 0
    assert committed(world) == (4, 4, 4, [])


def test_aborted_transactions_are_listed_for_those_who_read_their_records(world: World) -> None:
    send(world, within(0))
    send(world, within(0, producer_id=8))
    assert finish(world, commit=False) == 0
    assert committed(world) == (1, 3, 1, [(7, 0)])
    assert finish(world, commit=False, producer_id=8) == 0
    assert committed(world) == (4, 4, 4, [(7, 0), (8, 1)])
    assert committed(world, offset=3) == (4, 4, 4, [(8, 1)])
    assert committed(world, offset=0, partition_max_bytes=1) == (1, 4, 4, [(7, 0)])
    assert committed(world, offset=4) == (4, 4, 4, [])


def test_a_long_poll_of_a_committed_reader_ends_when_the_transaction_does(world: World) -> None:
    send(world, within(0))
    request = fetch_request(("t", 0, 0), max_wait_ms=5000, isolation_level=READ_COMMITTED)
    waiting = world.start(request, 12)
    produce(world, batch(b"plain"))
    assert not waiting.is_answered
    finish(world)
    assert waiting.is_answered
    (answer,) = partitions_of(waiting.answer)
    assert (answer.last_stable_offset, len(list(walk(answer.records)))) == (3, 3)


def test_a_long_poll_goes_on_where_too_little_was_decided(world: World) -> None:
    send(world, within(0))
    request = fetch_request(("t", 0, 0), max_wait_ms=5000, min_bytes=400, isolation_level=READ_COMMITTED)
    waiting = world.start(request, 12)
    finish(world)
    assert not waiting.is_answered
    send(world, within(1, b"x" * 400))
    assert not waiting.is_answered
    finish(world)
    assert waiting.is_answered


def listed(world: World, timestamp: int, isolation_level: int) -> int:
    asked = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    )
    request = ListOffsetsRequest(isolation_level=isolation_level, topics=[asked])
    answer: ListOffsetsResponse = world.ask(request, 11)
    return answer.topics[0].partitions[0].offset


def test_the_latest_offset_of_committed_readers_is_the_last_stable_one(world: World) -> None:
    produce(world, batch(b"plain"))
    send(world, within(0, at_ms=WALL_MS + 5))
    assert [listed(world, LATEST, level) for level in (0, 1)] == [2, 1]
    assert [listed(world, WALL_MS + 1, level) for level in (0, 1)] == [1, -1]
    assert [listed(world, MAX_TIMESTAMP, level) for level in (0, 1)] == [1, -1]
    finish(world, commit=False)
    assert [listed(world, LATEST, level) for level in (0, 1)] == [3, 3]
    assert listed(world, WALL_MS + 1, 1) == 1


def test_a_restart_remembers_open_and_aborted_transactions(world: World) -> None:
    send(world, within(0))
    finish(world, commit=False)
    send(world, within(1))
    produce(world, batch(b"plain"))
    after = world.restart()
    assert committed(after) == (2, 4, 2, [(7, 0)])
    assert listed(after, LATEST, READ_COMMITTED) == 2
    assert send(after, within(2)).error_code == 0
    assert after.broker.verifier is not None
    assert finish(after) == 0
    assert committed(after) == (6, 6, 6, [(7, 0)])


def test_a_plain_reader_is_not_kept_waiting_for_what_it_does_not_ask(world: World) -> None:
    send(world, within(0))
    after = world.restart()
    answer = fetch(after)
    assert (answer.high_watermark, answer.last_stable_offset) == (1, -1)
    committed(after)
    assert fetch(after).last_stable_offset == 0


def test_a_producer_with_an_open_transaction_is_not_forgotten(world: World) -> None:
    send(world, within(0))
    world.pass_time(2 * DAY_MS)
    assert world.registry.expire_producers(world.registry.partitions()) == 0
    finish(world)
    world.pass_time(2 * DAY_MS)
    assert world.registry.expire_producers(world.registry.partitions()) == 1


# Verification.


@pytest.mark.parametrize(("version", "add"), [(9, False), (11, False), (12, True)])
def test_the_coordinator_is_asked_once_for_all_partitions_that_begin(
    world: World, coordinator: Coordinator, version: int, add: bool
) -> None:
    answer = world.ask(request_of((0, within(0)), (1, within(0, epoch=0))), version)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0]
    assert coordinator.asked == [("x", 7, 0, [("t", 0), ("t", 1)], add)]
    send(world, within(1), version=version)
    assert len(coordinator.asked) == 1


REFUSALS = [
    (10, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
    (11, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE),
    (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    (12, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    (11, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    (12, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (11, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    (12, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
    (12, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
    (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.parametrize(("version", "says", "answered"), REFUSALS)
def test_what_the_coordinator_says_is_answered_as_the_version_understands_it(
    world: World, coordinator: Coordinator, version: int, says: ErrorCode, answered: ErrorCode
) -> None:
    coordinator.says[("t", 0)] = says
    answer = world.ask(request_of((0, within(0)), (1, within(0))), version)
    first, second = answer.responses[0].partition_responses
    assert (first.error_code, first.base_offset, second.error_code) == (answered, -1, 0)
    assert fetch(world).high_watermark == 0


def test_a_coordinator_that_still_ends_the_last_transaction_is_asked_again(
    world: World, coordinator: Coordinator
) -> None:
    coordinator.says[("t", 0)] = ErrorCode.CONCURRENT_TRANSACTIONS
    waiting = world.start(request_of((0, within(0))), 12)
    for _ in range(3):
        assert not waiting.is_answered
        world.pass_time(20)
    coordinator.says.clear()
    world.pass_time(20)
    world.settle()
    assert waiting.answer.responses[0].partition_responses[0].error_code == 0
    assert len(coordinator.asked) == 5


def test_it_is_not_asked_for_ever(world: World, coordinator: Coordinator) -> None:
    coordinator.says[("t", 0)] = ErrorCode.CONCURRENT_TRANSACTIONS
    waiting = world.start(request_of((0, within(0))), 12)
    for _ in range(5):
        world.pass_time(20)
    answer = waiting.answer.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_marker_makes_the_word_of_the_coordinator_void(world: World, coordinator: Coordinator) -> None:
    """Else a batch that comes late opens a transaction that nothing ends (KIP-890)."""
    coordinator.is_slow = True
    waiting = world.start(request_of((0, within(0))), 11)
    finish(world, commit=False)
    coordinator.answer()
    world.settle()
    answer = waiting.answer.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert committed(world) == (1, 1, 1, [])


def test_two_batches_that_wait_for_one_word_are_both_taken(world: World, coordinator: Coordinator) -> None:
    coordinator.is_slow = True
    waiting = [world.start(request_of((0, within(sequence))), 12) for sequence in (0, 1)]
    coordinator.answer()
    world.settle()
    assert [error_of(each) for each in waiting] == [0, 0]


@pytest.mark.parametrize("version", [11, 12])
def test_batches_keep_their_order_while_some_wait_for_a_word(
    world: World, coordinator: Coordinator, version: int
) -> None:
    """The first has been vouched for, the second still waits, and a third comes: it must not overtake that."""
    coordinator.is_slow = True
    waiting = [world.start(request_of((0, within(sequence))), version) for sequence in (0, 1)]
    coordinator.waiting.pop(0)()
    waiting.append(world.start(request_of((0, within(2))), version))
    coordinator.answer()
    world.settle()
    assert [error_of(each) for each in waiting] == [0, 0, 0]


def test_a_batch_behind_one_that_was_refused_is_asked_about_again(
    world: World, coordinator: Coordinator
) -> None:
    coordinator.is_slow = True
    coordinator.says[("t", 0)] = ErrorCode.INVALID_TXN_STATE
    waiting = [world.start(request_of((0, within(sequence))), 11) for sequence in (0, 1)]
    for _ in waiting:
        coordinator.answer()
    world.settle()
    assert [error_of(each) for each in waiting] == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    assert len(coordinator.asked) == 2


def error_of(waiting: FakePending) -> int:
    answer: ProduceResponse = waiting.answer
    return answer.responses[0].partition_responses[0].error_code


def test_a_higher_sequence_does_not_overtake_one_that_waits_for_its_word(
    world: World, coordinator: Coordinator
) -> None:
    coordinator.says[("t", 0)] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert send(world, within(3)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.says.clear()
    assert send(world, within(4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(world, within(3)).error_code == 0


@pytest.mark.parametrize(("version", "error"), [(11, 0), (12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)])
def test_a_transaction_of_its_own_epoch_begins_with_sequence_0(
    world: World, version: int, error: int
) -> None:
    assert send(world, within(5), version=version).error_code == error


def test_each_transaction_of_version_2_has_an_epoch_and_a_numbering_of_its_own(world: World) -> None:
    assert send(world, within(0), version=12).error_code == 0
    assert send(world, within(1), version=12).error_code == 0
    assert finish(world, epoch=1, transaction_version=2) == 0
    assert send(world, within(2), version=12).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert send(world, within(2, epoch=1), version=12).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(world, within(0, epoch=1), version=12).error_code == 0


def test_a_batch_of_another_epoch_than_the_open_transaction_is_asked_about(
    world: World, coordinator: Coordinator
) -> None:
    send(world, within(0, epoch=1))
    coordinator.says[("t", 0)] = ErrorCode.PRODUCER_FENCED
    assert send(world, within(1, epoch=1)).error_code == 0
    answer = send(world, within(1, epoch=0))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert len(coordinator.asked) == 2


def test_a_plain_batch_does_not_fit_into_an_open_transaction(world: World) -> None:
    send(world, within(0))
    plain = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=1)
    answer = produce(world, plain)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_TXN_STATE, 0)


def test_one_request_has_one_producer(world: World, coordinator: Coordinator) -> None:
    answer = world.ask(request_of((0, within(0)), (1, within(0, producer_id=8))), 12)
    errors = {each.error_code for each in answer.responses[0].partition_responses}
    assert errors == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert coordinator.asked == []


# Markers.


def test_markers_of_older_epochs_are_fenced(world: World) -> None:
    send(world, within(0, epoch=3))
    assert finish(world, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert finish(world, epoch=3, coordinator_epoch=5) == 0
    assert finish(world, epoch=3, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert finish(world, epoch=4, coordinator_epoch=5) == 0
    assert send(world, within(1, epoch=3)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_under_version_2_the_epoch_of_an_open_transaction_is_too_low_for_its_end(world: World) -> None:
    send(world, within(0, epoch=3))
    assert finish(world, epoch=3, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert finish(world, epoch=4, transaction_version=2) == 0
    assert finish(world, epoch=4, transaction_version=2) == 0  # Written again.
    last = 2**15 - 1
    send(world, within(0, epoch=last))
    assert finish(world, epoch=last, transaction_version=2) == 0  # There is no higher one.


def test_markers_go_to_topics_that_are_there(world: World) -> None:
    assert finish(world, topic="nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert finish(world, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.ask(WriteTxnMarkersRequest(markers=[]), 1).markers == []


def test_several_markers_of_one_producer_are_answered_together(world: World) -> None:
    markers = [
        WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes)],
            coordinator_epoch=0,
        )
        for producer_id, name, indexes in ((7, "t", [0, 1]), (8, "t", [0]), (7, "nope", [3]))
    ]
    answer = world.ask(WriteTxnMarkersRequest(markers=markers), 1)
    answered = {
        (marker.producer_id, topic.name, each.partition_index): each.error_code
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    }
    assert answered == {(7, "t", 0): 0, (7, "t", 1): 0, (8, "t", 0): 0, (7, "nope", 3): 3}
    assert len(answer.markers) == 2


def test_a_marker_that_the_topic_has_no_room_for_is_too_large(world: World) -> None:
    world.topic("small", max_message_bytes="50")
    assert finish(world, topic="small") == ErrorCode.MESSAGE_TOO_LARGE


# DescribeProducers.


def describe(topic: str = "t", partition: int = 0) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[DescribeProducersTopicRequest(name=topic, partition_indexes=[partition])]
    )


def described(world: World, topic: str = "t", partition: int = 0) -> Any:
    return world.ask(describe(topic, partition), 0).topics[0].partitions[0]


def test_producers_are_described(world: World) -> None:
    produce(world, batch(b"a", b"b", producer_id=1, producer_epoch=4, base_sequence=0))
    send(world, within(0))
    finish(world, epoch=0, coordinator_epoch=6)
    send(world, within(1))
    for each in (world, world.restart()):
        found = described(each)
        rows = [
            (
                row.producer_id,
                row.producer_epoch,
                row.last_sequence,
                row.last_timestamp,
                row.coordinator_epoch,
                row.current_txn_start_offset,
            )
            for row in found.active_producers
        ]
        assert rows == [(1, 4, 1, WALL_MS + 1, -1, -1), (7, 0, 1, WALL_MS, 6, 4)]


@pytest.mark.parametrize(
    ("topic", "partition", "error"),
    [
        ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_producers_of_what_is_not_there(world: World, topic: str, partition: int, error: ErrorCode) -> None:
    assert described(world, topic, partition).error_code == error


def test_producers_are_not_described_by_batches_that_a_failure_cuts_off(world: World) -> None:
    """Not before the log has been cut back either, which is done on a thread."""
    produce(world, batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0))
    lost = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=1)
    world.start(produce_request(lost), 9)
    world.queue.clear()  # Its flush does not begin.
    partition = world.registry.partition("t", 0)
    assert partition is not None
    partition.durable_log.fail(ZeroDivisionError("ours"))
    meanwhile = world.start(describe(), 0)
    assert meanwhile.answer.topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    world.settle()
    (found,) = described(world).active_producers
    assert found.last_sequence == 0
