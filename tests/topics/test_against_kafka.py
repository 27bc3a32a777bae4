"""The same requests to Apache Kafka 4.3.1 and to our handlers: the answers are equal.

Not compared: where a byte limit cuts (Kafka sends the part of a batch that still fits, we whole batches only).
What may differ is taken out before comparing: topic ids, addresses, the order of hash maps, words of error
messages, and what Kafka says of settings that come with its own defaults (min.insync.replicas).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from harness.kafka_broker import KafkaBroker
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.records.batch import walk
from protocol.records.records import Codec, payload_of
from tests.topics.requests import fetch_request, produce_request
from tests.topics.world import World, batch

NOT_COMPARED = {"topic_id", "cluster_id", "host", "port", "session_id", "error_message", "throttle_time_ms"}
UNORDERED = {"topics", "responses", "configs", "results", "partitions"}
CREATED_S = 30  # Kafka answers before a new topic is everywhere.


@dataclass(frozen=True, slots=True)
class Pair:
    """One client each, and one time for both."""

    kafka: WireClient
    world: World

    def ask(self, request: Any, version: int) -> tuple[Any, Any]:
        return plain(self.kafka.ask(request, version)), plain(self.world.ask(request, version))

    def same(self, request: Any, version: int) -> Any:
        theirs, ours = self.ask(request, version)
        assert ours == theirs
        return ours


@pytest.fixture(scope="module")
def broker(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(broker: KafkaBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def pair(kafka: WireClient, tmp_path: Path) -> Iterator[Pair]:
    world = World(tmp_path)
    world.wall = int(time.time() * 1000)
    pair = Pair(kafka, world)
    configs = [CreatableTopicConfig(name="retention.ms", value="999999999")]
    made = CreatableTopic(name="t", num_partitions=2, replication_factor=1, configs=configs)
    pair.ask(CreateTopicsRequest(topics=[made]), 7)
    wait_for(pair, partitions=2)
    yield pair
    pair.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5000), 6)


def wait_for(pair: Pair, partitions: int, topic: str = "t") -> None:
    """Until Kafka leads all partitions of the new topic."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    deadline = time.monotonic() + CREATED_S
    while any(each.error_code for each in pair.kafka.ask(request, 5).topics[0].partitions):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def plain(value: Any, name: str = "") -> Any:
    """A message as plain values, without what may differ."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), field.name)
            for field in fields(value)
            if field.name not in NOT_COMPARED
        }
    if isinstance(value, list):
        items = [plain(each) for each in value]
        return sorted(items, key=repr) if name in UNORDERED else items
    return len(value) if name == "records" and value is not None else value


def with_header(
    data: bytes, count: int | None = None, last_delta: int | None = None, codec: int = 0
) -> bytes:
    """`data` with wrong header fields under a right CRC."""
    changed = bytearray(data)
    if last_delta is not None:
        struct.pack_into(">i", changed, 23, last_delta)
    if count is not None:
        struct.pack_into(">i", changed, 57, count)
    changed[22] |= codec
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def two(at_ms: int, **options: Any) -> bytes:
    return batch(b"a", b"b", at_ms=at_ms, **options)


def test_produce(pair: Pair) -> None:
    now_ms = pair.world.wall
    good = two(now_ms)

    def from_producer(sequence: int, epoch: int = 0) -> bytes:
        return two(now_ms, producer_id=50, producer_epoch=epoch, base_sequence=sequence)

    for records in [
        good,
        *(two(now_ms, codec=codec) for codec in Codec),
        good + b"abc",
        good[:-1] + bytes([good[-1] ^ 1]),
        good[:16] + b"\3" + good[17:],
        two(now_ms, base_offset=5),
        two(now_ms, control=True),
        two(now_ms, log_append_time=True),
        two(now_ms, producer_id=5, producer_epoch=0),
        two(now_ms, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        *(from_producer(sequence) for sequence in (7, 7, 20, 3, 9, 7)),
        *(
            from_producer(sequence, epoch)
            for sequence, epoch in ((5, 1), (0, 1), (9, 0), (7, 0), (0, 1), (2, 1))
        ),
        batch(b"x" * 1_048_600, at_ms=now_ms),
        batch(b"x", at_ms=-1),
        with_header(good, 3, 2),
        with_header(good, 1, 0),
        with_header(good, 0, -1),
        with_header(good, 2, 5),
        with_header(good, codec=5),
        with_header(good, codec=4),
        with_header(two(now_ms, codec=Codec.LZ4), 3, 2),
    ]:
        pair.same(produce_request(records), 9)
    pair.same(produce_request(two(now_ms, codec=Codec.ZSTD)), 6)
    for topic, partition, acks in (("nope", 0, 1), ("t", 77, 1), ("t", -1, 1), ("t", 0, 2), ("t", 1, 1)):
        pair.same(produce_request(good, topic, partition, acks), 9)
    # Kafka shows the log's start only where it looked at the log; we do not know the two kinds apart.
    for records in (b"", good + good, good[:50], good[:-3], good[:16] + b"\1" + good[17:]):
        errors = [
            each["responses"][0]["partition_responses"][0]["error_code"]
            for each in pair.ask(produce_request(records), 9)
        ]
        assert errors == [87, 87]


def fetch_t(
    offset: int, version: int = 12, partition: int = 0, topic: str = "t", **fields: Any
) -> tuple[Any, int]:
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
        current_leader_epoch=fields.pop("current_leader_epoch", -1),
        last_fetched_epoch=fields.pop("last_fetched_epoch", -1),
    )
    topics = [FetchTopic(topic=topic, partitions=[asked])]
    return FetchRequest(
        max_wait_ms=50, topics=topics, **{"min_bytes": 0, "max_bytes": 1 << 20, **fields}
    ), version


def test_fetch(pair: Pair) -> None:
    for _ in range(3):
        pair.same(produce_request(two(pair.world.wall)), 9)
    for asked in (
        fetch_t(0),
        fetch_t(3),
        fetch_t(6),
        fetch_t(7),
        fetch_t(-1),
        fetch_t(0, partition=1),
        fetch_t(0, partition=9),
        fetch_t(0, topic="nope"),
        fetch_t(0, isolation_level=1),
        fetch_t(0, max_bytes=1),
        fetch_t(0, partition_max_bytes=1),
        fetch_t(0, partition_max_bytes=0),
        fetch_t(0, current_leader_epoch=0),
        fetch_t(0, current_leader_epoch=1),
        fetch_t(0, current_leader_epoch=-5),
        fetch_t(0, last_fetched_epoch=0),
        fetch_t(0, last_fetched_epoch=1),
        fetch_t(9, last_fetched_epoch=0),
        *(fetch_t(0, version) for version in range(4, 13)),
    ):
        pair.same(*asked)


def test_list_offsets_and_leader_epochs(pair: Pair) -> None:
    now_ms = pair.world.wall
    pair.same(produce_request(two(now_ms)), 9)
    pair.same(produce_request(two(now_ms - 5000)), 9)
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, now_ms - 5000, now_ms + 1, now_ms + 2):
        for version in (1, 3, 6, 8, 11):
            asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in (0, 1, 7)]
            topics = [ListOffsetsTopic(name="t", partitions=asked)]
            pair.same(ListOffsetsRequest(topics=topics), version)
    for epoch, current in ((0, -1), (1, -1), (-1, -1), (0, 0), (0, 1), (0, -3)):
        partitions = [
            OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
            for index in (0, 1, 7)
        ]
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=partitions)]
        )
        pair.same(request, 4)


def test_descriptions(pair: Pair) -> None:
    for version in range(14):
        topics = [MetadataRequestTopic(name="t")]
        pair.same(MetadataRequest(topics=topics), version)
    unknown = [MetadataRequestTopic(name=name) for name in ("nope", "no good")]
    pair.same(
        MetadataRequest(
            topics=unknown, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        ),
        12,
    )
    pair.same(
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in ("t", "nope")]
        ),
        0,
    )
    pair.same(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    for kind, name in ((2, "nope"), (2, "no good"), (4, "2"), (4, "x"), (3, "x")):
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        pair.same(DescribeConfigsRequest(resources=[asked]), 4)
    asked = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    theirs, ours = (
        [config for config in answer["results"][0]["configs"] if config["name"] != "min.insync.replicas"]
        for answer in pair.ask(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4)
    )
    assert ours == theirs


def test_admin(pair: Pair) -> None:
    def create(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
        overrides = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ]
        return CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replicas, configs=overrides
        )

    for topic in (
        create("t"),
        create(""),
        create("a b"),
        create("n", partitions=0),
        create("n", replicas=0),
        create("n", replicas=2),
        create("n", foo="1"),
        create("n", retention_ms="-2"),
        create("n", retention_ms="x"),
        create("n", segment_bytes="100"),
        create("n", cleanup_policy="foo"),
        create("n", compression_gzip_level="0"),
        create("n", min_cleanable_dirty_ratio="2"),
        create("n", remote_storage_enable="true"),
    ):
        request = CreateTopicsRequest(topics=[topic], validate_only=True)
        theirs, ours = pair.kafka.ask(request, 7).topics[0], pair.world.ask(request, 7).topics[0]
        assert (ours.error_code, ours.num_partitions) == (theirs.error_code, theirs.num_partitions)
        if topic.replication_factor != 2:  # There Kafka speaks of directories that we do not have.
            assert ours.error_message == theirs.error_message
    for name, count in (("t", 2), ("t", 1), ("nope", 3)):
        asked = CreatePartitionsTopic(name=name, count=count, assignments=None)
        pair.same(CreatePartitionsRequest(topics=[asked], timeout_ms=5000), 3)
    states = [
        DeleteTopicState(name="nope"),
        DeleteTopicState(name=None),
        DeleteTopicState(topic_id=b"\7" * 16),
    ]
    pair.same(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6)


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_in_the_topics_codec(pair: Pair, name: str) -> None:
    """What lies in the log: the codec, and all that has to stay; how small it became is the library's matter."""
    topic = f"in-{name}"
    make(pair, topic, compression_type=name)
    now_ms = pair.world.wall
    batches = [two(now_ms + number, codec=codec) for number, codec in enumerate(Codec)]
    batches += [
        two(now_ms, codec=codec, producer_id=60, producer_epoch=3, base_sequence=2 * number)
        for number, codec in enumerate(Codec)
    ]
    for records in batches:
        pair.same(produce_request(records, topic=topic), 9)
    fetched = fetch_request((topic, 0, 0))
    theirs, ours = (
        bytes(side.ask(fetched, 12).responses[0].partitions[0].records) for side in (pair.kafka, pair.world)
    )
    assert described_batches(ours) == described_batches(theirs)
    assert len(described_batches(ours)) == len(batches)


def make(pair: Pair, topic: str, **settings: str) -> None:
    """A topic on both, option names with '_' for '.'."""
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in settings.items()]
    made = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, configs=configs)
    pair.ask(CreateTopicsRequest(topics=[made]), 7)
    wait_for(pair, partitions=1, topic=topic)


def test_a_batch_that_is_too_large_in_the_topics_codec(pair: Pair) -> None:
    make(pair, "large", compression_type="uncompressed", max_message_bytes="1000")
    large = batch(bytes(2000), at_ms=pair.world.wall, codec=Codec.GZIP)
    answer = pair.same(produce_request(large, topic="large"), 9)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("step_ms", [10, 0])
def test_full_indexes_roll_segments(pair: Pair, broker: KafkaBroker, step_ms: int) -> None:
    topic = f"rolled-{step_ms}"
    make(pair, topic, segment_index_bytes="48", index_interval_bytes="1")
    for number in range(30):
        records = batch(b"x", at_ms=pair.world.wall + number * step_ms)
        pair.same(produce_request(records, topic=topic), 9)
    theirs, ours = (
        sorted(path.name for path in (directory / f"{topic}-0").glob("*.log"))
        for directory in (broker.log_dir, pair.world.directory)
    )
    assert ours == theirs
    assert len(ours) > 4


def described_batches(records: bytes) -> list[tuple[dict[str, int], bytes]]:
    """Each header without what follows from the size, and the payload inflated."""
    shown = []
    for found in walk(records):
        header = {
            key: value for key, value in asdict(found).items() if key not in ("position", "size_bytes", "crc")
        }
        header.pop("leader_epoch")  # Kafka's rises with a start of its own.
        shown.append((header, payload_of(records, found)))
    return shown
