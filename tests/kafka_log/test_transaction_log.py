"""The log of transactions is Kafka's: both write the same records for the same requests, byte by byte.

One script is played to a Kafka and to a Muster; afterwards the segments on their disks are read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.transactions.record_schemas import TransactionLogValue
from coordinator.transactions.records import VALUE_VERSION, decode_record, encode_record
from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.batch import walk
from protocol.records.records import read_records

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
PATIENCE_S = 60.0

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(300)]


class Producer:
    """One transactional id, by hand."""

    def __init__(self, client: WireClient, name: str, timeout_ms: int = 60_000) -> None:
        self._client = client
        self._name = name
        self._timeout_ms = timeout_ms
        self._producer: dict[str, Any] = {}

    def init(self) -> None:
        """Begin, as soon as whatever is in the way has ended."""
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=self._timeout_ms)
        given = wait_until(lambda: self._given(request), "a producer id", PATIENCE_S)
        self._producer = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}

    def _given(self, request: InitProducerIdRequest) -> Any:
        reply = self._client.ask(request, 5)
        return None if reply.error_code else reply

    def add(self, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer["producer_id"],
            v3_and_below_producer_epoch=self._producer["producer_epoch"],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=list(partitions))],
        )
        (topic,) = self._client.ask(request, 3).results_by_topic_v3_and_below
        assert {each.partition_error_code for each in topic.results_by_partition} == {ErrorCode.NONE}

    def add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(transactional_id=self._name, group_id="g", **self._producer)
        assert self._client.ask(request, 4).error_code == ErrorCode.NONE

    def end(self, version: int, *, committed: bool) -> None:
        request = EndTxnRequest(transactional_id=self._name, committed=committed, **self._producer)
        reply = self._client.ask(request, version)
        assert reply.error_code == ErrorCode.NONE
        if version >= 5:
            self._producer = {"producer_id": reply.producer_id, "producer_epoch": reply.producer_epoch}
        self.settled("CompleteCommit" if committed else "CompleteAbort")

    def settled(self, state: str) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[self._name])

        def is_settled() -> bool:
            (seen,) = self._client.ask(request, 0).transaction_states
            return bool(seen.transaction_state == state)

        wait_until(is_settled, f"{self._name} is {state}", PATIENCE_S)


def play(client: WireClient) -> None:
    """Commits and aborts in both protocols, a fence and a timeout."""
    topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
    assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == ErrorCode.NONE
    find = FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, coordinator_keys=["both"])
    wait_until(lambda: not client.ask(find, 4).coordinators[0].error_code, "a coordinator", PATIENCE_S)
    group = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=["g"])
    wait_until(lambda: not client.ask(group, 4).coordinators[0].error_code, "the offsets topic", PATIENCE_S)
    both = Producer(client, "both")
    both.init()
    for version, committed in ((4, True), (4, False), (5, True), (5, False)):
        both.add(0, 2)
        both.add_offsets()
        both.end(version, committed=committed)
    both.end(5, committed=False)  # An empty transaction.
    both.add(1)
    both.init()
    hasty = Producer(client, "hasty", timeout_ms=100)
    hasty.init()
    hasty.add(0)
    hasty.settled("CompleteAbort")


def written(log_dir: Path) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of all records, partition by partition."""
    records = []
    for path in sorted(log_dir.glob("__transaction_state-*/*.log")):
        data = path.read_bytes()
        records += [
            (record.key, record.value) for batch in walk(data) for record in read_records(data, batch)
        ]
    return [(bytes(key or b""), None if value is None else bytes(value)) for key, value in records]


def story(entries: list[tuple[bytes, bytes | None]]) -> dict[str, list[TransactionLogValue]]:
    """The stored values of each transactional id, without times and producer ids."""
    values: dict[str, list[TransactionLogValue]] = {}
    for entry in entries:
        record = decode_record(*entry)
        assert record is not None
        assert isinstance(record.value, TransactionLogValue)
        values.setdefault(record.key.transactional_id, []).append(_timeless(record.value))
    return values


def _timeless(value: TransactionLogValue) -> TransactionLogValue:
    assert value.previous_producer_id == value.producer_id, "no epoch ran out"
    topics = sorted(value.transaction_partitions or [], key=lambda topic: topic.topic)
    for topic in topics:
        topic.partition_ids.sort()
    began = value.transaction_start_timestamp_ms
    return replace(
        value,
        producer_id=0,
        previous_producer_id=0,
        transaction_partitions=topics,
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=min(began, 0),
    )


@pytest.fixture(scope="module")
def logs(java: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[bytes, bytes | None]]]:
    """The records that Kafka and Muster wrote."""
    kafka, muster = tmp_path_factory.mktemp("kafka"), tmp_path_factory.mktemp("muster")
    servers: dict[str, KafkaBroker | MusterDaemon] = {
        "kafka": KafkaBroker(kafka, SETTINGS),
        "muster": MusterDaemon(muster, SETTINGS),
    }
    return {name: _log_of(server, server.log_dir) for name, server in servers.items()}


def _log_of(server: ServerProcess, log_dir: Path) -> list[tuple[bytes, bytes | None]]:
    try:
        server.start()
        with WireClient(server.bootstrap) as client:
            play(client)
        server.terminate()
    finally:
        server.kill()
    return written(log_dir)


def test_both_store_the_same_for_the_same_requests(logs: dict[str, list[tuple[bytes, bytes | None]]]) -> None:
    kafka, muster = story(logs["kafka"]), story(logs["muster"])
    assert kafka.keys() == {"both", "hasty"}
    assert muster == kafka


def test_every_record_of_kafkas_is_written_by_us_as_it_is(
    logs: dict[str, list[tuple[bytes, bytes | None]]],
) -> None:
    for key, value in logs["kafka"]:
        record = decode_record(key, value)
        assert record is not None
        assert value is not None
        assert value[:2] == VALUE_VERSION.to_bytes(2, "big")
        assert encode_record(record) == (key, value)
