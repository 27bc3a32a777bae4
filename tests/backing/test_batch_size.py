"""What a node writes at once fits into what the topic takes: else it would lose a shard with each repetition."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from coordinator.backing.kafka.cluster import BackingCluster
from coordinator.backing.kafka.topic import BackingTopic, max_batch_bytes_of
from coordinator.backing.shards.backed_log import BackedLog, Room
from coordinator.daemon import node_backing
from coordinator.daemon.node import Node
from coordinator.daemon.node_backing import Backing, BackingClient, largest_batch_bytes, prepared
from coordinator.runtime.open_batch import OpenBatch
from coordinator.settings.model import Settings
from coordinator.settings.sources import load
from protocol.records.batch import BatchProducer, set_producer
from protocol.records.records import Codec, Record, encode_batch

pytestmark = pytest.mark.asyncio

TAKES = 1_048_588
TOPIC = BackingTopic("logs", b"\x07" * 16, 2, max_batch_bytes=TAKES)
LARGER = {"muster.backing.bootstrap.servers": "kafka:9092", "message.max.bytes": "5000000"}


def settings_of(given: dict[str, str]) -> Settings:
    return load(given).settings


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    cluster = BackingCluster("nowhere:1")
    made = Node(settings_of(LARGER), Backing(BackingClient("nowhere:1"), cluster, TOPIC))
    yield made
    await made.stop()


async def test_a_shard_refuses_what_the_topic_would_not_take(node: Node) -> None:
    """So a commit is answered RECORD_LIST_TOO_LARGE, as by a daemon, and the shard serves on."""
    for runner in node.runtime.runners:
        assert not runner._open_batch.add([Record(b"k", bytes(TAKES), 1)], 1)
        assert runner._open_batch.add([Record(b"k", bytes(TAKES - 200), 1)], 1)
        runner._open_batch.forget()


async def test_the_node_s_own_bound_holds_where_it_is_the_smaller() -> None:
    assert largest_batch_bytes(settings_of({"message.max.bytes": "123456"}), TOPIC) == 123_456
    assert largest_batch_bytes(settings_of(LARGER), TOPIC) == TAKES


async def test_the_largest_batch_is_not_larger_as_it_is_sent() -> None:
    """Its producer is written over what is there."""
    sent: list[bytearray] = []

    def send(batch: bytearray, _: int) -> int:
        set_producer(batch, BatchProducer(2**62, 32_000, 2**30))
        sent.append(batch)
        return 1

    log = BackedLog("logs-0", send, Room())

    class Appending:
        def __init__(self) -> None:
            self.log = log

        def append(self, batch: bytearray, wall_ms: int) -> None:
            log.append(batch, wall_ms=wall_ms)

    for largest_bytes in range(3_000, 3_040):
        batch = OpenBatch(cast(Any, Appending()), largest_bytes, Codec.NONE)
        size_bytes = 10
        while batch.add([Record(b"key", bytes(size_bytes), 1)], 1) and log.next_offset == 0:
            size_bytes += 1
        batch.cut(1)
        log.flush(lambda _: None)
        while log.has_work:
            log.hand_over()
            assert len(sent[-1]) <= largest_bytes
            log.written(1)
        log.begin(0)
    assert len(sent) >= 40


@pytest.mark.parametrize("compression", ["producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"])
async def test_a_topic_that_compresses_anew_is_left_room_for_it(compression: str) -> None:
    """Its leaders look at the size again; what does not get smaller gets a little larger."""
    largest_bytes = max_batch_bytes_of({"max.message.bytes": str(TAKES), "compression.type": compression})
    records = [Record(b"k", random.Random(7).randbytes(largest_bytes - 100), 1)]
    codec = Codec[compression.upper()] if compression not in ("producer", "uncompressed") else Codec.NONE
    assert TAKES - 3_000 < len(encode_batch(records, codec=codec)) <= TAKES
    assert (largest_bytes == TAKES) is (compression == "producer")


@pytest.mark.parametrize("given", ["5000000", "1048588"], ids=["larger", "as large"])
async def test_a_start_says_that_the_node_s_setting_is_the_larger(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    async def start(self: BackingCluster) -> None:
        self._brokers = {1: cast(Any, None)}

    async def found(*_: object) -> BackingTopic:
        return TOPIC

    monkeypatch.setattr(BackingCluster, "start", start)
    monkeypatch.setattr(node_backing, "prepared_topic", found)
    with capture_logs() as logs:
        assert await prepared(
            BackingCluster("kafka:9092"), settings_of({**LARGER, "message.max.bytes": given})
        )
    said = [
        "message.max.bytes=5000000 of this node is more than topic logs takes by its max.message.bytes: what a "
        "group writes at once is refused beyond 1048588 bytes"
    ]
    assert [each["reason"] for each in logs] == (said if given == "5000000" else [])
