"""The Kafka that has the logs, played: logs in memory, brokers that answer Produce, Fetch and InitProducerId.

It speaks our messages in bytes, over connections that take aiokafka's place, so that what is sent is as long and
costs a node as much as over a socket; but for the socket itself. Its own CPU is taken apart. A Fetch is answered
at once where there is anything to read, else after the longest wait; in a session with what is new, as in Kafka's
`FetchSession`, and without one with every partition that was asked for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final, cast

from aiokafka.conn import AIOKafkaConnection

from bench.cluster_growth.virtual_time import VirtualClock
from coordinator.backing.claims import Claim, Writer
from coordinator.backing.kafka.claim_records import claim_record
from coordinator.backing.kafka.cluster import BackingCluster, BrokerAddress, OpenConnection
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.runtime.clock import boot_ms
from protocol.carried import CarriedRequest
from protocol.errors import ErrorCode
from protocol.framing import response_frame
from protocol.messages import RESPONSES
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from protocol.messages.find_coordinator import FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.records.batch import BatchProducer, parse_header, set_base_offset, set_producer
from protocol.records.records import encode_batch

ROUND_TRIP_S: Final = 0.001
LEADER_EPOCH: Final = 0
FIRST_PRODUCER_ID: Final = 1_000
VERSIONS: Final = dict.fromkeys(RESPONSES, (0, 99))
"""Every version that we speak, as a Kafka of the newest kind."""

Stored = Callable[[int], bytes]
"""Returns the batch of this number. It is made anew each time: a log takes no memory of the process."""


@dataclass(slots=True)
class PlayedLog:
    """One partition: what was stored before, and behind it what was appended."""

    partition: int
    stored: Stored = lambda _: b""
    stored_batches: int = 0
    stored_records: int = 0
    records_in_batch: int = 1
    appended: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0
    epoch: int = -1

    def fill(self, stored: Stored, batches: int, records: int, records_in_batch: int) -> None:
        """All batches but the last have as many records."""
        self.stored, self.stored_batches = stored, batches
        self.stored_records = self.end = records
        self.records_in_batch = records_in_batch

    def append(self, batch: bytes | bytearray) -> int:
        """Return the batch's base offset."""
        placed, base_offset = bytearray(batch), self.end
        set_base_offset(placed, base_offset, LEADER_EPOCH)
        self.appended.append((base_offset, bytes(placed)))
        self.end += parse_header(placed).record_count
        return base_offset

    def claim(self, claim: Claim) -> None:
        """Have a node say this of the log, under the next epoch."""
        writer = self.next_writer()
        batch = encode_batch([claim_record(claim, writer, 0)])
        set_producer(batch, BatchProducer(*writer, 0))
        self.append(batch)

    def next_writer(self) -> Writer:
        self.epoch += 1
        return self.writer

    @property
    def writer(self) -> Writer:
        """Under what its owner writes."""
        return Writer(FIRST_PRODUCER_ID + self.partition, self.epoch)

    def read(self, offset: int, limit: int) -> bytes:
        """Whole batches from this offset on, at most about `limit` bytes."""
        found: list[bytes] = []
        size = 0
        for batch in self._from(offset):
            if found and size + len(batch) > limit:
                break
            found.append(batch)
            size += len(batch)
        return b"".join(found)

    def _from(self, offset: int) -> Iterator[bytes]:
        if offset < self.stored_records:
            for number in range(offset // self.records_in_batch, self.stored_batches):
                yield self.stored(number)
        at = len(self.appended)
        while at and self.appended[at - 1][0] >= offset:
            at -= 1
        yield from (batch for _, batch in self.appended[at:])


@dataclass(slots=True)
class Session:
    """What a broker keeps of a fetch session: what is read, and the high watermark that was last answered."""

    epoch: int = 0
    asked: dict[int, FetchPartition] = field(default_factory=dict)
    told: dict[int, int] = field(default_factory=dict)

    def update(self, request: FetchRequest) -> None:
        for topic in request.topics:
            self.asked.update({each.partition: each for each in topic.partitions})
        for gone in request.forgotten_topics_data:
            for partition in gone.partitions:
                del self.asked[partition]
                self.told.pop(partition, None)

    def news(self, read: Iterable[PartitionData]) -> list[PartitionData]:
        """What of it has to be answered."""
        found = [
            each
            for each in read
            if each.records or self.told.get(each.partition_index) != each.high_watermark
        ]
        self.told.update({each.partition_index: each.high_watermark for each in found})
        return found


@dataclass(slots=True)
class Traffic:
    """What a node asked of the Kafka, by the name of the request."""

    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: Counter[str] = field(default_factory=Counter)
    received_bytes: Counter[str] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    """How many partitions were in these requests."""


class PlayedKafka:
    """All brokers together; partition p is led by broker p modulo their number."""

    def __init__(
        self, clock: VirtualClock, topic: BackingTopic, brokers: int, *, has_sessions: bool = True
    ) -> None:
        """Without sessions its brokers are as those that have no room for more."""
        self.clock = clock
        self.topic = topic
        self.brokers = brokers
        self.logs = [PlayedLog(partition) for partition in range(topic.partition_count)]
        self.traffic = Traffic()
        self._has_sessions = has_sessions
        self._sessions: dict[int, Session] = {}
        self._news: defaultdict[int, set[asyncio.Future[None]]] = defaultdict(set)

    def append(self, partition: int, batch: bytes | bytearray) -> int:
        """Append as another node does, or the one that is measured."""
        base_offset = self.logs[partition].append(batch)
        self.notify(partition)
        return base_offset

    def notify(self, partition: int) -> None:
        """There is more to read here."""
        for waiting in self._news.pop(partition % self.brokers, ()):
            if not waiting.done():
                waiting.set_result(None)

    async def answer(self, node_id: int, request: Any) -> Any:
        """Any request that a node has for its logs."""
        await asyncio.sleep(ROUND_TRIP_S)
        if isinstance(request, FetchRequest):
            return await self._fetch(node_id, request)
        with self.clock.apart():
            return ANSWERS[type(request).__name__](self, request)

    async def _fetch(self, node_id: int, request: FetchRequest) -> FetchResponse:
        with self.clock.apart():
            session_id, session = self._session_of(request)
            found, size = self._read(session, request.max_bytes)
        if not size and request.max_wait_ms:
            news = asyncio.get_running_loop().create_future()
            self._news[node_id].add(news)
            await asyncio.wait([news], timeout=request.max_wait_ms / 1000)
            with self.clock.apart():
                self._news[node_id].discard(news)
                found, _ = self._read(session, request.max_bytes)
        with self.clock.apart():
            if request.session_epoch >= 0:
                found = session.news(found)
            topics = [FetchableTopicResponse(topic_id=self.topic.topic_id, partitions=found)]
            return FetchResponse(session_id=session_id, responses=topics if found else [])

    def _session_of(self, request: FetchRequest) -> tuple[int, Session]:
        if request.session_epoch > 0:
            session = self._sessions[request.session_id]
            assert request.session_epoch == session.epoch + 1, "INVALID_FETCH_SESSION_EPOCH"
            session.epoch += 1
        else:
            session = Session()
        session.update(request)
        session_id = request.session_id
        if request.session_epoch == 0 and self._has_sessions:
            session_id = len(self._sessions) + 1
            self._sessions[session_id] = session
        return session_id, session

    def _read(self, session: Session, limit: int) -> tuple[list[PartitionData], int]:
        found, size = [], 0
        for asked in session.asked.values():
            log, records = self.logs[asked.partition], b""
            room = min(asked.partition_max_bytes, limit - size)
            if log.end > asked.fetch_offset and room > 0:
                records = log.read(asked.fetch_offset, room)
            size += len(records)
            found.append(
                PartitionData(
                    partition_index=asked.partition,
                    high_watermark=log.end,
                    last_stable_offset=log.end,
                    log_start_offset=0,
                    records=records,
                )
            )
        return found, size

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        parts = [
            PartitionProduceResponse(
                index=each.index, base_offset=self.append(each.index, bytes(each.records or b""))
            )
            for each in request.topic_data[0].partition_data
        ]
        return ProduceResponse(
            responses=[TopicProduceResponse(topic_id=self.topic.topic_id, partition_responses=parts)]
        )

    def _init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        assert request.transactional_id is not None
        partition = int(request.transactional_id.rpartition(".")[2])
        writer = self.logs[partition].next_writer()
        return InitProducerIdResponse(producer_id=writer.producer_id, producer_epoch=writer.epoch)

    def _metadata(self, _: object) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=each.partition,
                leader_id=each.partition % self.brokers,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=[each.partition % self.brokers],
                isr_nodes=[each.partition % self.brokers],
            )
            for each in self.logs
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each, host="kafka", port=1) for each in range(self.brokers)
            ],
            topics=[
                MetadataResponseTopic(
                    name=self.topic.name, topic_id=self.topic.topic_id, partitions=partitions
                )
            ],
        )


ANSWERS: Final[dict[str, Callable[[PlayedKafka, Any], Any]]] = {
    "ProduceRequest": PlayedKafka._produce,
    "InitProducerIdRequest": PlayedKafka._init_producer_id,
    "MetadataRequest": PlayedKafka._metadata,
    # What is looked at every few minutes: these brokers do not say it.
    "ApiVersionsRequest": lambda _, __: ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION),
    "DescribeConfigsRequest": lambda _, asked: DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in asked.resources
        ]
    ),
    "FindCoordinatorRequest": lambda _, __: FindCoordinatorResponse(node_id=0, host="kafka", port=1),
}


class PlayedConnection:
    """What is used of aiokafka's connection, to one broker."""

    host, port = "kafka", 1

    def __init__(self, kafka: PlayedKafka, node_id: int) -> None:
        self._kafka = kafka
        self._node_id = node_id
        self._is_open = True

    def connected(self) -> bool:
        return self._is_open

    def close(self, reason: object = None) -> None:
        self._is_open = False

    async def send(self, request: CarriedRequest) -> Any:
        """Encode the request, have it answered, and decode the answer, as over a socket."""
        prepared, message = request.prepare(VERSIONS), request._message
        sent = prepared.build_request_header(1, "muster").encode()
        with self._kafka.clock.apart():
            self._count(type(message).__name__.removesuffix("Request"), message, len(sent))
        answer = await self._kafka.answer(self._node_id, message)
        with self._kafka.clock.apart():
            frame = b"".join(response_frame(1, answer, prepared.API_VERSION))[4:]
            name = type(message).__name__.removesuffix("Request")
            self._kafka.traffic.received_bytes[name] += len(frame) + 4
        prepared.parse_response_header(BytesIO(frame))
        return prepared.decode(BytesIO())

    def _count(self, name: str, message: Any, size: int) -> None:
        traffic = self._kafka.traffic
        traffic.requests[name] += 1
        traffic.sent_bytes[name] += size + 4
        if isinstance(message, FetchRequest):
            traffic.partitions[name] += sum(len(topic.partitions) for topic in message.topics)
        elif isinstance(message, ProduceRequest):
            traffic.partitions[name] += sum(len(topic.partition_data) for topic in message.topic_data)


class PlayedCluster(BackingCluster):
    """The real one, but for bootstrap and sockets."""

    def __init__(self, kafka: PlayedKafka) -> None:
        super().__init__("played:1")
        self._kafka = kafka

    async def start(self) -> None:
        self._brokers = {each: BrokerAddress("kafka", 1) for each in range(self._kafka.brokers)}

    async def _connected(self, node_id: int) -> OpenConnection:
        return OpenConnection(cast(AIOKafkaConnection, PlayedConnection(self._kafka, node_id)), boot_ms())
