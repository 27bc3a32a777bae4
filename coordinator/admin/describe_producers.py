"""DescribeProducers (key 61): the producers of a partition, and the start of each open transaction (KIP-664)."""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.names import missing_topic_error, name_problem
from coordinator.topics.partition import Partition
from coordinator.topics.refusal import Countdown
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribedProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)

NO_TOPIC: Final = "This server does not host this topic-partition."


def handle(broker: Broker, request: DescribeProducersRequest, pending: ClientRequest) -> None:
    """Answer with the producers of each partition, once they are known.

    Errors: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
    """
    response = DescribeProducersResponse()
    countdown = Countdown(lambda: pending.reply(response))
    for asked in request.topics:
        answers = [PartitionResponse(partition_index=index) for index in asked.partition_indexes]
        response.topics.append(TopicResponse(name=asked.name, partitions=answers))
        words = _words_of_absence(broker, asked.name)
        for answer in answers:
            answer.error_message = words
            countdown.begin()
            _fill(
                answer, asked.name, broker.registry.partition(asked.name, answer.partition_index), countdown
            )
    countdown.seal()


def _words_of_absence(broker: Broker, topic: str) -> str | None:
    """Why there is no such topic, in Kafka's words; None if there is one: of a partition it has none."""
    if problem := name_problem(topic):
        return f"Topic name is invalid: {problem}"
    return NO_TOPIC if broker.registry.get(topic) is None else None


def _fill(answer: PartitionResponse, topic: str, partition: Partition | None, countdown: Countdown) -> None:
    if partition is None:
        answer.error_code = missing_topic_error(topic)
        countdown.end()
        return

    def on_known() -> None:
        if partition.producers is None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            answer.active_producers = producers_of(partition)
        countdown.end()

    partition.when_producers_known(on_known)


def producers_of(partition: Partition) -> list[DescribedProducer]:
    """Return every producer of the partition; empty while the partition's producers are not known."""
    known = partition.producers.items() if partition.producers is not None else ()
    return [
        DescribedProducer(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=-1 if producer.transaction_start is None else producer.transaction_start,
        )
        for producer_id, producer in known
    ]
