"""A user's compacted topic in a real daemon: cleaned while it serves, and as before to a stock client."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

TOPIC = "newest"
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.01"}
TOPIC_SETTINGS = {"segment.bytes": str(1 << 20), "delete.retention.ms": "0"}
VALUE_BYTES = 40_000
ROUNDS = 25
LEFT_BYTES = (
    1_300_000  # Of four MB: the first of the two large records at the end, and what is newest before.
)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_shrinks_while_it_serves_and_keeps_the_newest_of_each_key(
    tmp_path: Path, policy: str
) -> None:
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        create(daemon, policy)
        offsets = produce(daemon)
        directory = daemon.log_dir / f"{TOPIC}-0"
        wait_until(lambda: sealed_bytes(directory) < LEFT_BYTES, "it is cleaned", 30)
        assert "not cleaned until" not in daemon.log_path.read_text()
        hold(daemon, offsets)
        assert daemon.terminate() == 0
        daemon.start()
        hold(daemon, offsets)


def create(daemon: MusterDaemon, policy: str) -> None:
    settings = {"cleanup.policy": policy, **TOPIC_SETTINGS}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=configs)
    with WireClient(daemon.bootstrap) as client:
        assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0


def produce(daemon: MusterDaemon) -> dict[bytes, int]:
    """Write a few keys again and again, and delete one; the offset of the newest record of each."""
    newest: dict[bytes, int] = {}
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, acks="all")
    for number in range(ROUNDS):
        for key in (b"a", b"b", b"c", b"gone"):
            value = f"{key.decode()}-{number}-".encode() + b"v" * VALUE_BYTES
            newest[key] = producer.send(TOPIC, value, key).get(30).offset
    newest[b"gone"] = producer.send(TOPIC, None, b"gone").get(30).offset
    for key in (b"last", b"last"):
        newest[key] = producer.send(TOPIC, b"v" * VALUE_BYTES * 20, key).get(30).offset
    producer.close()
    return newest


def sealed_bytes(directory: Path) -> float:
    """Of all segments but the active one; without bound if a cleaning takes one away just now."""
    try:
        return sum(path.stat().st_size for path in sorted(directory.glob("*.log"))[:-1])
    except FileNotFoundError:
        return math.inf


def hold(daemon: MusterDaemon, newest: dict[bytes, int]) -> None:
    """What a consumer reads from the start: offsets rise, and the newest record of each key is among them."""
    consumer = KafkaConsumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest")
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    assert end == max(newest.values()) + 1
    found: dict[bytes, tuple[int, bytes | None]] = {}
    count, position = 0, -1
    while position < end - 1:
        for record in consumer.poll(timeout_ms=5000).get(partition, []):
            assert record.offset > position
            position, count = record.offset, count + 1
            found[record.key] = (record.offset, record.value)
    consumer.close()
    assert count < ROUNDS
    assert {key: offset for key, (offset, _) in found.items() if key != b"gone"} == {
        key: offset for key, offset in newest.items() if key != b"gone"
    }
    assert found.get(b"gone", (newest[b"gone"], None)) == (newest[b"gone"], None)
    for key in (b"a", b"b", b"c"):
        assert (found[key][1] or b"").startswith(f"{key.decode()}-{ROUNDS - 1}-".encode())
