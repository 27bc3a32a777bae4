"""What the scenarios of produced data share: a topic of the run's own, batches, and short ways to ask."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.batch import walk
from protocol.records.records import Record
from tests.batches import encode_batch
from tests.conformance.actors import PARTITIONS
from tests.conformance.run import POLL_S, Run
from tests.conformance.scenarios.fetching import make_topic
from tests.fields import with_fields

PRODUCE: Final = range(3, 14)
READ: Final = range(4, 19)
LIST_OFFSETS: Final = range(1, 12)
LISTED_BY_ISOLATION: Final = range(2, 12)
WRITE_MARKERS: Final = range(1, 3)
TOPIC_IDS_SINCE: Final = 13
READ_COMMITTED: Final = 1
READY_WITHIN_S: Final = 20.0
AT_MS: Final = 1_700_000_000_000


def batch(*values: bytes, key: bytes | None = b"k", at_ms: int = AT_MS, **options: Any) -> bytes:
    """A batch of these values at one time."""
    records = [Record(key, value, at_ms) for value in values or (b"v",)]
    return bytes(encode_batch(records, **options))


@dataclass(slots=True)
class Writer:
    """A client with one topic, which it may write to as any producer."""

    run: Run
    topic: str
    topic_id: bytes

    @classmethod
    async def begin(cls, run: Run) -> Writer:
        name = run.group.replace("/", "-").replace(" ", "-")
        writer = cls(run, name, await make_topic(run, name))
        await writer._ready()
        return writer

    async def _ready(self) -> None:
        """Wait until all partitions are led, which is a while after the metadata shows them."""
        connection = await self.run.free_connection("observer")
        asked = DescribeProducersRequest(
            topics=[DescribeProducersTopicRequest(name=self.topic, partition_indexes=list(range(PARTITIONS)))]
        )
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            reply = await connection.send(asked, 0)
            if not any(each.error_code for each in reply.topics[0].partitions):
                return
            assert time.monotonic() < deadline, reply
            await asyncio.sleep(POLL_S)

    def request(
        self,
        *parts: tuple[int, bytes | None],
        version: int,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> ProduceRequest:
        by_id = version >= TOPIC_IDS_SINCE
        data = [PartitionProduceData(index=index, records=records) for index, records in parts]
        topic = TopicProduceData(
            name="" if by_id else self.topic,
            topic_id=self.topic_id if by_id else bytes(16),
            partition_data=data,
        )
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[topic]
        )

    async def ask(self, request: ProduceRequest, version: int, note: str) -> list[PartitionProduceResponse]:
        """Ask; return the answers by partition. The transcript has what software may rely on, no messages."""
        asked = await self.run.send("writer", request, version, note)
        reply = await asked.reply
        answers: list[PartitionProduceResponse] = []
        for topic in reply.responses:
            topic.name, topic.topic_id = "", bytes(16)
            topic.partition_responses.sort(key=lambda each: each.index)  # Kafka's come out of a hash map.
            for answer in topic.partition_responses:
                answer.error_message = None
                for record_error in answer.record_errors:
                    record_error.batch_index_error_message = None
                answers.append(answer)
        self.run.saw(asked.what, reply)
        return answers

    async def write(
        self,
        records: bytes | None,
        error: int = 0,
        *,
        version: int = 9,
        note: str = "",
        partition: int = 0,
        **fields: Any,
    ) -> PartitionProduceResponse:
        request = self.request((partition, records), version=version, **fields)
        (answer,) = await self.ask(request, version, note)
        self.run.expect(answer.error_code == error, f"{note}: {answer.error_code}, not {error}")
        return answer

    async def mark(
        self,
        producer_id: int,
        epoch: int = 0,
        error: int | None = 0,
        *,
        commit: bool = True,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        version: int = 1,
        note: str = "",
        topics: dict[str, list[int]] | None = None,
    ) -> None:
        """WriteTxnMarkers for one producer."""
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in (topics or {self.topic: [0]}).items()
            ],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version if version >= 2 else 0,
        )
        asked = await self.run.send("writer", WriteTxnMarkersRequest(markers=[marker]), version, note)
        reply = await self.run.answer(asked)
        errors = {
            part.error_code for each in reply.markers for topic in each.topics for part in topic.partitions
        }
        if error is not None:
            self.run.expect(errors == {error}, f"{note}: {errors}, not {error}")

    async def read(
        self, offset: int = 0, *, version: int = 12, isolation_level: int = READ_COMMITTED, note: str = "",
        **fields: Any,
    ) -> PartitionData:  # fmt: skip
        """A fetch; the transcript has the offsets of the batches, which are what a broker puts into them."""
        by_id = version >= TOPIC_IDS_SINCE
        asked_part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchTopic(
            topic="" if by_id else self.topic,
            topic_id=self.topic_id if by_id else bytes(16),
            partitions=[asked_part],
        )
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation_level, topics=[topic]
        )
        asked = await self.run.send("reader", with_fields(request, **fields), version, note)
        reply: FetchResponse = await asked.reply
        if not reply.responses:  # A session that has nothing new.
            self.run.saw(asked.what, reply)
            return PartitionData(partition_index=0, high_watermark=-1)
        (answer,) = reply.responses[0].partitions
        spans = [
            (each.base_offset, each.last_offset, each.is_control) for each in walk(answer.records or b"")
        ]
        answer.records = b""
        self.run.saw(asked.what, answer)
        self.run.saw(f"{asked.what}: batches", [list(map(int, span)) for span in spans])
        return answer

    async def latest(self, version: int, isolation_level: int, timestamp: int = -1, note: str = "") -> int:
        """ListOffsets of the one partition."""
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        fields: dict[str, Any] = {} if version < 2 else {"isolation_level": isolation_level}
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.topic, partitions=[part])], **fields)
        asked = await self.run.send("reader", request, version, note)
        reply: ListOffsetsResponse = await asked.reply
        (answer,) = reply.topics[0].partitions
        self.run.saw(asked.what, answer)
        return answer.offset

    async def describe(self, *partitions: int, topic: str | None = None, note: str = "") -> list[Any]:
        """DescribeProducers; the times of markers are a broker's own, and masked."""
        name = self.topic if topic is None else topic
        request = DescribeProducersRequest(
            topics=[DescribeProducersTopicRequest(name=name, partition_indexes=list(partitions or (0,)))]
        )
        asked = await self.run.send("observer", request, 0, note)
        reply = await asked.reply
        for part in reply.topics[0].partitions:
            part.error_message = None
            part.active_producers.sort(key=lambda each: each.producer_id)
            for producer in part.active_producers:
                if producer.last_timestamp > AT_MS + 86_400_000:
                    producer.last_timestamp = 0
        self.run.saw(asked.what, reply)
        return list(reply.topics[0].partitions)


OUT_OF_ORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
