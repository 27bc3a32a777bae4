"""Produce (key 0): check each partition's batch, append it, and answer when all batches are on the disk.

A batch is stored as it came; only its offsets, its leader epoch and, if the topic is set so, the log's append time
are written into it. If the topic's `compression.type` is not `producer`, batches of another codec are compressed
again, on a thread. The partitions of a request are checked and appended to one by one; the answer leaves when the
last of them is durable, whether acks is 1 or all. With acks 0 there is no answer, but the request stays among the
unanswered ones until then: that bounds the memory of a producer that does not wait.

A batch that begins a transaction on its partition first waits for the transaction coordinator
(`produce_verification`).
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.data.broker import Broker, ClientRequest
from coordinator.data.produce_checks import checked_batch, request_error
from coordinator.data.produce_verification import ADDS_SINCE, ask, refusal
from coordinator.data.recompression import recompressed
from coordinator.data.transaction_verifier import Outcomes
from coordinator.topics.partition import Partition
from coordinator.topics.refusal import Countdown, Refused
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import Compression
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import (
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    Batch,
    parse_header,
    set_max_timestamp,
)
from protocol.topic_partition import TopicPartition
from storage.files import StorageError
from storage.log.partition_log import BatchTooLarge
from storage.producers.producer_checks import (
    ProducerError,
    ProducerVerification,
    check_batch,
    check_verified,
)
from storage.producers.producer_state import ProducerState

TOPIC_IDS_SINCE: Final = 13
NO_OFFSET: Final = -1

SHOWS_LOG_START: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors whose answers carry the log start offset, as in Kafka, if they were found with the log at hand."""

log = structlog.get_logger("muster.topics")


def handle(broker: Broker, request: ProduceRequest, pending: ClientRequest) -> None:
    """Append the batches, and answer per partition.

    Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION,
    those of `validate_produced`, RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_PRODUCER_ID_MAPPING (two producers in one request),
    INVALID_TXN_STATE, TRANSACTION_ABORTABLE, CONCURRENT_TRANSACTIONS and NOT_ENOUGH_REPLICAS (the transaction
    cannot be verified), KAFKA_STORAGE_ERROR.
    """
    _Produce(broker, request, pending).start()


@dataclass(frozen=True, slots=True)
class Slot:
    """One partition of a request, and the answer for it, to be filled in."""

    data: PartitionProduceData
    topic: Topic | None
    answer: PartitionProduceResponse


@dataclass(frozen=True, slots=True)
class Unverified:
    """A batch that the transaction coordinator has to verify before it is appended."""

    slot: Slot
    topic: Topic
    partition: Partition
    batch: Batch
    verification: ProducerVerification

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.partition.index)


class _Produce:
    """One Produce request, from its checks to the answer."""

    def __init__(self, broker: Broker, request: ProduceRequest, pending: ClientRequest) -> None:
        self._broker = broker
        self._request = request
        self._pending = pending
        self._response = ProduceResponse()
        self._countdown = Countdown(self._reply)
        self._admissions = Countdown(self._verify)
        self._unverified: list[Unverified] = []

    def start(self) -> None:
        slots = [slot for asked in self._request.topic_data for slot in self._slots(asked)]
        error = request_error(self._request)
        for slot in slots:
            self._countdown.begin()
            self._admissions.begin()
            self._begin(slot, error)
        self._admissions.seal()
        self._countdown.seal()

    def _slots(self, asked: TopicProduceData) -> list[Slot]:
        """Return a slot for each partition of one topic, and add the slots' answers to the response in order."""
        topic = self._topic(asked)
        slots = [
            Slot(data, topic, PartitionProduceResponse(index=data.index, base_offset=NO_OFFSET))
            for data in asked.partition_data
        ]
        self._response.responses.append(
            TopicProduceResponse(
                name=asked.name,
                topic_id=asked.topic_id,
                partition_responses=[slot.answer for slot in slots],
            )
        )
        return slots

    def _topic(self, asked: TopicProduceData) -> Topic | None:
        registry = self._broker.registry
        return registry.get(asked.name) if asked.topic_id == ZERO_UUID else registry.by_id(asked.topic_id)

    def _begin(self, slot: Slot, request_error: ErrorCode) -> None:
        partition = None if slot.topic is None else slot.topic.partition(slot.data.index)
        if slot.topic is not None and partition is not None and not request_error:
            self._check(slot, slot.topic, partition)
            return
        if not request_error:
            is_unknown_id = slot.topic is None and self._pending.api_version >= TOPIC_IDS_SINCE
            request_error = (
                ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        self._refuse(slot, None, Refused(request_error))
        self._admissions.end()

    def _check(self, slot: Slot, topic: Topic, partition: Partition) -> None:
        try:
            batch = checked_batch(slot.data, topic, self._request, self._pending, self._broker.wall_ms())
        except Refused as refused:
            self._refuse(slot, partition, refused)
            self._admissions.end()
            return
        compression = topic.config.compression
        if compression is not None and compression.codec != batch.codec:
            self._recompress(slot, topic, partition, batch, compression)
        elif partition.must_queue or (batch.producer_id != NO_PRODUCER_ID and partition.producers is None):
            partition.when_ready(lambda: self._admit(slot, topic, partition, batch))
        else:
            self._admit(slot, topic, partition, batch)

    def _recompress(
        self, slot: Slot, topic: Topic, partition: Partition, batch: Batch, compression: Compression
    ) -> None:
        """Compress the batch by the topic's codec on a thread; later appends to the partition wait for that."""

        def encode() -> bytearray:
            return recompressed(slot.data.records or b"", batch, compression, topic.config.max_message_bytes)

        def on_encoded(encoded: Future[bytearray]) -> None:
            try:
                slot.data.records = encoded.result()
            except Refused as refused:
                self._refuse(slot, partition, refused)
                self._admissions.end()
                return
            self._admit(slot, topic, partition, parse_header(slot.data.records))

        partition.when_encoded(encode, on_encoded)

    def _admit(self, slot: Slot, topic: Topic, partition: Partition, batch: Batch) -> None:
        """Append the batch, or collect it, so that all batches of the request are verified together.

        If an earlier batch of the producer is being verified, this one waits for that: the coordinator may answer
        only after the producer's next request has come.
        """

        def go_on() -> None:
            self._append_or_verify(slot, topic, partition, batch)
            self._verify()

        if not partition.verifications.wait(batch, go_on):
            self._append_or_verify(slot, topic, partition, batch)
        self._admissions.end()

    def _append_or_verify(self, slot: Slot, topic: Topic, partition: Partition, batch: Batch) -> None:
        """Append the batch, or add it to `_unverified` if the transaction coordinator has to verify it first."""
        state = partition.producers
        begins = batch.is_transactional and batch.producer_id != NO_PRODUCER_ID
        if begins and state is not None and self._verifies(state, batch):
            has_own_epoch = self._pending.api_version >= ADDS_SINCE
            verification = partition.verifications.begin(batch, has_own_epoch, self._broker.wall_ms())
            self._unverified.append(Unverified(slot, topic, partition, batch, verification))
        else:
            self._append(slot, topic, partition, batch, None)

    def _verifies(self, state: ProducerState, batch: Batch) -> bool:
        goes_on = state.has_open_transaction(batch.producer_id, batch.producer_epoch)
        return self._broker.verifier is not None and not goes_on

    def _verify(self) -> None:
        """Have the coordinator verify the collected batches; append those that it confirms, refuse the others.

        All are of one producer, since a request with several transactional producers is refused.
        """
        verifier, transactional_id = self._broker.verifier, self._request.transactional_id
        unverified, self._unverified = self._unverified, []
        if verifier is None or transactional_id is None or not unverified:
            return
        batch, version = unverified[0].batch, self._pending.api_version
        producer = (transactional_id, batch.producer_id, batch.producer_epoch)
        partitions = [each.name for each in unverified]

        def on_verified(outcomes: Outcomes) -> None:
            for each in unverified:
                if error := outcomes[each.name]:
                    self._refuse(each.slot, None, refusal(error, version))
                else:
                    self._append(each.slot, each.topic, each.partition, each.batch, each.verification)
                each.partition.verifications.answered(each.batch.producer_id)

        ask(self._broker, verifier, producer, partitions, version, on_verified)

    def _append(
        self,
        slot: Slot,
        topic: Topic,
        partition: Partition,
        batch: Batch,
        verification: ProducerVerification | None,
    ) -> None:
        """Stage the batch, unless it is a duplicate, and complete its answer once it is durable."""
        try:
            position = self._stage(slot, topic, partition, batch, verification)
        except Refused as refused:
            self._refuse(slot, partition, refused)
            return
        slot.answer.log_start_offset = partition.log_start_offset
        partition.when_durable(position, lambda error: self._on_durable(slot, error))

    def _stage(
        self,
        slot: Slot,
        topic: Topic,
        partition: Partition,
        batch: Batch,
        verification: ProducerVerification | None,
    ) -> int:
        """Stage the batch; return the offset up to which the log must be durable to answer. Raises Refused."""
        if error := partition.append_error:
            raise Refused(error)
        producers = partition.producers
        if batch.producer_id != NO_PRODUCER_ID and producers is not None:
            if duplicate := producers.find_duplicate(batch):
                slot.answer.base_offset = duplicate.base_offset
                # As Kafka answers for a duplicate.
                slot.answer.log_append_time_ms = duplicate.max_timestamp_ms
                return duplicate.last_offset + 1
            known = partition.verifications.find(batch.producer_id)
            try:
                if self._broker.verifier is not None:
                    check_verified(producers, batch, known, verification)
                check_batch(producers, batch, known)
            except ProducerError as misfit:
                raise Refused(misfit.error, str(misfit)) from None
        slot.answer.base_offset = self._store(slot, topic, partition, batch)
        return slot.answer.base_offset + batch.last_offset_delta + 1

    def _store(self, slot: Slot, topic: Topic, partition: Partition, batch: Batch) -> int:
        view = memoryview(slot.data.records or b"")[batch.position : batch.end]
        data = bytearray(view) if view.readonly else view  # The buffer of a large request has no other user.
        if topic.config.is_log_append_time:
            wall_ms = self._broker.wall_ms()
            set_max_timestamp(data, wall_ms, log_append_time=True)
            batch = parse_header(data)
            slot.answer.log_append_time_ms = wall_ms
        elif batch.attributes & LOG_APPEND_TIME_BIT:
            set_max_timestamp(data, batch.max_timestamp_ms, log_append_time=False)
        try:
            return partition.append(data, batch)
        except BatchTooLarge as error:
            raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from None
        except StorageError as error:
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None

    def _on_durable(self, slot: Slot, error: ErrorCode) -> None:
        if error:
            slot.answer.error_code = error
            slot.answer.base_offset = slot.answer.log_append_time_ms = NO_OFFSET
        self._countdown.end()

    def _refuse(self, slot: Slot, partition: Partition | None, refused: Refused) -> None:
        answer = slot.answer
        answer.error_code = refused.error
        answer.error_message = refused.message
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
            for index, why in refused.record_errors
        ]
        if partition is not None and refused.has_seen_log and refused.error in SHOWS_LOG_START:
            answer.log_start_offset = partition.log_start_offset
        self._countdown.end()

    def _reply(self) -> None:
        if self._request.acks != 0:
            self._pending.reply(self._response)
            return
        if lost := self._failed_partitions():
            self._pending.drop(f"lost with acks=0: {lost}")
        else:
            self._pending.no_reply()

    def _failed_partitions(self) -> str:
        """Return the failed partitions with their errors, as text for the log."""
        return ", ".join(
            f"{topic.name}-{answer.index} {ErrorCode(answer.error_code).name}"
            for topic in self._response.responses
            for answer in topic.partition_responses
            if answer.error_code
        )
