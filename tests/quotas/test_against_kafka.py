"""What a client that ignores throttle times gets through, and how fast it connects: here and on a Kafka."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import pytest

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess
from harness.wire import WireClient
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records.records import Record, encode_batch
from tests.quotas.asking import Parts, alteration, described, entry, quotas_in

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.timeout(180)]

TOPIC: Final = "t"
RATE: Final = 100_000
BATCH_BYTES: Final = 20_000
BATCH: Final = bytes(
    encode_batch([Record(key=None, value=bytes(BATCH_BYTES), timestamp_ms=1_790_000_000_000)])
)
FLOOD: Final = 45
"""Batches: those of two seconds at once, as the windows are three, and then some seven seconds of them."""
SETTINGS: Final = {"quota.window.num": "3"}
BESIDE_OTHERS: Final = 1.3
"""Beside other tests a client is late now and then; tests/long/test_quota_rates.py holds a tenth, alone."""
HELD_S: Final = 8.0
"""Longest time that a connection is held: Kafka looks twice a second, where the machine lets it."""
PATIENCE_S: Final = 30.0


@pytest.fixture(scope="module")
def both(
    java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    folder: Path = tmp_path_factory.mktemp("both")
    with (
        KafkaBroker(folder / "kafka", SETTINGS) as kafka,
        MusterDaemon(folder / "muster", SETTINGS) as muster,
    ):
        for server in (kafka, muster):
            with WireClient(server.bootstrap) as client:
                kept = [CreatableTopicConfig(name="retention.ms", value="-1")]  # The records are old.
                topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=kept)
                client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
        yield kafka, muster


def limit(server: ServerProcess, parts: Parts, **quotas: float) -> None:
    """Set quotas; returns when they are in force."""
    with WireClient(server.bootstrap) as client:
        assert client.ask(alteration(entry(parts, **quotas)), 1).entries[0].error_code == 0
        asked: DescribeClientQuotasRequest = described()
        deadline = time.monotonic() + 10
        while quotas_in(client.ask(asked, 1)).get(tuple(sorted(parts.items()))) != quotas:
            assert time.monotonic() < deadline


def produced_per_s(server: ServerProcess, client_id: str, batches: int) -> float:
    """Bytes a second that a producer gets through that sends on, whatever it is told."""
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=BATCH)])]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=5_000, topic_data=data)
    with WireClient(server.bootstrap, client_id) as client, ThreadPoolExecutor(1) as sender:
        began_s = time.monotonic()
        sent: SimpleQueue[int] = SimpleQueue()

        def send_all() -> None:
            for number in range(batches):
                client.send(request, 9)
                sent.put(number)

        sending = sender.submit(send_all)
        for _ in range(batches):
            sent.get(timeout=PATIENCE_S)  # As many of them as the sockets hold are on the way.
            assert client.receive().responses[0].partition_responses[0].error_code == 0
        sending.result()
        return batches * len(BATCH) / (time.monotonic() - began_s)


def fetched_per_s(server: ServerProcess, client_id: str, batches: int) -> float:
    """Bytes a second that a consumer gets that asks again at once, whatever it is told; batch by batch.

    Kafka would send a part of a batch, too, where the limit of a partition is no whole number of them.
    """
    fetched = 0
    with WireClient(server.bootstrap, client_id) as client:
        began_s = time.monotonic()
        while fetched < batches:
            offset = fetched % FLOOD
            wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=len(BATCH))]
            topics = [FetchTopic(topic=TOPIC, partitions=wanted)]
            answer = client.ask(
                FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics),
                11,
            )
            for part in (part for topic in answer.responses for part in topic.partitions):
                assert part.error_code == 0
                fetched += len(part.records or b"") // len(BATCH)
        return fetched * len(BATCH) / (time.monotonic() - began_s)


def test_a_raw_client_gets_through_what_kafka_lets_through(both: tuple[ServerProcess, ServerProcess]) -> None:
    compare_rates(both, FLOOD, BESIDE_OTHERS)


def compare_rates(both: tuple[ServerProcess, ServerProcess], batches: int, tolerance: float) -> None:
    """Hold that what a client gets through in both directions differs by this factor at most.

    Over a short time it is what the windows make of it: both let a client wait for up to two seconds at once.
    """
    for server in both:
        limit(server, {"client-id": f"flood {batches}"}, producer_byte_rate=RATE)
        limit(server, {"client-id": f"thirst {batches}"}, consumer_byte_rate=RATE)
    with ThreadPoolExecutor(2) as threads:
        for measured, name in ((produced_per_s, "flood"), (fetched_per_s, "thirst")):
            asked = partial(measured, client_id=f"{name} {batches}", batches=batches)
            theirs, ours = threads.map(asked, both)
            print(f"{measured.__name__}: {theirs:.0f} of Kafka, {ours:.0f} here")
            assert theirs / tolerance <= ours <= theirs * tolerance, (
                f"{measured.__name__}: {theirs:.0f}, here {ours:.0f}"
            )


def closed_of(server: ServerProcess, address: str, count: int) -> int:
    """How many of the connections from an address, which came one after the other, are closed by the server."""
    host, port = server.bootstrap.rsplit(":", 1)
    made = [
        socket.create_connection((host, int(port)), timeout=HELD_S, source_address=(address, 0))
        for _ in range(count)
    ]
    closed = 0
    for connected in reversed(made):  # Those that were let in came first: the first that stays ends the wait.
        try:
            closed += connected.recv(1) == b""
        except TimeoutError:
            break
    for connected in made:
        connected.close()
    return closed


def test_as_many_connections_of_an_address_stay_as_on_kafka(
    both: tuple[ServerProcess, ServerProcess],
) -> None:
    """Two seconds' worth at 2 a second; the others are held, and closed. 127.0.0.1 is not limited."""
    for server in both:
        limit(server, {"ip": "127.0.0.9"}, connection_creation_rate=2)
    assert [closed_of(server, "127.0.0.9", 8) for server in both] == [4, 4]
