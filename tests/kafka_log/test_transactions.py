"""Producer snapshots and transaction indexes are Kafka's: each goes on with the partition that the other left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.kafka_broker import KafkaBroker
from harness.wire import WireClient
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.control import Marker, encode_marker
from protocol.records.records import Record
from storage.files import Files
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from storage.producers.producer_snapshot import snapshot_offsets
from tests.batches import encode_batch

TOPIC, PARTITION = "transactions", "transactions-0"
WITHIN_S = 60.0
CONFIG = LogConfig(flush_messages=1)

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(300)]

Rows = dict[int, tuple[int, int, int, int, int]]
"""Rows by producer: epoch, last sequence, last timestamp, coordinator epoch, first offset of what is open."""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Producer:
    """A transactional producer, by hand, of protocol version 1."""

    def __init__(self, client: WireClient, name: str) -> None:
        self._client, self._name, self._sequence = client, name, 0
        given: list[Any] = []

        def is_given() -> bool:
            client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)  # Makes the topic.
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
            answer: InitProducerIdResponse = client.ask(request, 4)
            given.append(answer)
            return answer.error_code == 0

        until(is_given)
        self.producer_id, self.epoch = given[-1].producer_id, given[-1].producer_epoch

    def write(self) -> None:
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        until(lambda: _only(self._client.ask(added, 3)) == 0)
        data = batch_of(self.producer_id, self.epoch, self._sequence)
        self._sequence += 1
        assert produce(self._client, data, self._name) == 0

    def end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        until(lambda: self._client.ask(request, 3).error_code == 0)


def _only(reply: Any) -> int:
    return int(reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def batch_of(producer_id: int, epoch: int, sequence: int, transactional: bool = True) -> bytearray:
    record = Record(b"k", b"v", int(time.time() * 1000))
    return encode_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def produce(client: WireClient, data: bytes | bytearray, transactional_id: str | None = None) -> int:
    part = PartitionProduceData(index=0, records=bytes(data))
    topics = [TopicProduceData(name=TOPIC, partition_data=[part])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=9000, topic_data=topics)
    return int(client.ask(request, 11).responses[0].partition_responses[0].error_code)


def described(client: WireClient) -> Rows:
    request = DescribeProducersRequest(
        topics=[DescribeProducersTopicRequest(name=TOPIC, partition_indexes=[0])]
    )
    part = client.ask(request, 0).topics[0].partitions[0]
    assert part.error_code == 0
    return {
        each.producer_id: (
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in part.active_producers
    }


def committed(client: WireClient) -> tuple[int, int, list[tuple[int, int]]]:
    """High watermark, last stable offset, and what was aborted."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )
    partition = client.ask(request, 11).responses[0].partitions[0]
    aborted = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions or []]
    return partition.high_watermark, partition.last_stable_offset, aborted


def known_to(log: PartitionLog) -> Rows:
    assert log.producers.state is not None
    return {
        key: (
            each.epoch,
            each.last_sequence,
            each.timestamp_ms,
            each.coordinator_epoch,
            -1 if each.transaction_start is None else each.transaction_start,
        )
        for key, each in log.producers.state.items()
    }


def read_by_us(log: PartitionLog) -> tuple[int, int | None, list[tuple[int, int]]]:
    stable_offset = log.producers.last_stable_offset
    aborted = log.producers.aborted(0, stable_offset or 0)
    return log.durable_offset, stable_offset, [each[:2] for each in aborted]


def opened(directory: Path) -> PartitionLog:
    """The log opened as after a clean stop: nothing but the snapshot is read."""
    end_offset = max(snapshot_offsets(path.name for path in directory.iterdir()))
    log = PartitionLog.open(directory, CONFIG, Files(), recovery_point=end_offset, shut_down_cleanly=True)
    found = log.producers.read(int(time.time() * 1000))
    assert (found.scanned_bytes, found.damaged) == (0, [])
    log.producers.state = found.state
    return log


def write_in_kafka(client: WireClient) -> None:
    """A committed and an aborted transaction, one that is left open, and an idempotent producer."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
    until(lambda: produce(client, batch_of(9_000_000, 3, 0, transactional=False)) == 0)
    first, second, third = (Producer(client, name) for name in ("first", "second", "third"))
    for producer in (first, second, first, third):
        producer.write()
    first.end(committed=True)
    second.end(committed=False)
    until(lambda: [row[4] for row in described(client).values()].count(-1) == 3)


def test_each_goes_on_with_what_the_other_left(java: None, tmp_path: Path) -> None:
    kafka = KafkaBroker(tmp_path / "kafka")
    ours = tmp_path / PARTITION
    try:
        kafka.start()
        with WireClient(kafka.bootstrap) as client:
            write_in_kafka(client)
            before, seen = described(client), committed(client)
        kafka.terminate()
        shutil.copytree(kafka.log_dir / PARTITION, ours)
        log = opened(ours)
        assert known_to(log) == before
        assert read_by_us(log) == seen
        assert len(seen[2]) == 1
        go_on(log)
        known, read = known_to(log), read_by_us(log)
        log.close()
        assert len(read[2]) == 2
        shutil.rmtree(kafka.log_dir / PARTITION)
        shutil.copytree(ours, kafka.log_dir / PARTITION)
        kafka.start()
        with WireClient(kafka.bootstrap) as client:
            until(lambda: committed(client)[0] == read[0])
            assert described(client) == known
            assert committed(client) == read
            plain = batch_of(9_000_000, 3, 1, transactional=False)
            assert [produce(client, plain), produce(client, plain)] == [0, 0]
        assert "Loading producer state from snapshot" in kafka.log_path.read_text(errors="replace")
    finally:
        kafka.kill()


def go_on(log: PartitionLog) -> None:
    """What Muster appends: an aborted transaction of another producer, and an idempotent one's batch."""
    now_ms = int(time.time() * 1000)
    log.append(batch_of(9_100_000, 0, 0), wall_ms=now_ms)
    marker = Marker(9_100_000, 0, coordinator_epoch=0, is_commit=False)
    log.append(encode_marker(marker, base_offset=0, wall_ms=now_ms), wall_ms=now_ms)
    third = next(key for key, row in known_to(log).items() if row[4] >= 0)
    log.append(
        encode_marker(Marker(third, 0, 0, is_commit=True), base_offset=0, wall_ms=now_ms), wall_ms=now_ms
    )
    log.append(batch_of(9_000_001, 0, 0, transactional=False), wall_ms=now_ms)
    log.append(batch_of(9_000_001, 0, 1, transactional=True), wall_ms=now_ms)
    log.flush()
    log.producers.settle()
