"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, so that clients notice a cut log (KIP-320).

There is one leader epoch, which never ends, so its end offset is the log's end.
"""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.partition import LEADER_EPOCH, leader_epoch_error
from coordinator.topics.topic_lookup import TopicLookup
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

UNDEFINED: Final = -1


def handle(broker: Broker, request: OffsetForLeaderEpochRequest, pending: ClientRequest) -> None:
    """Answer with the end offset of the epoch per partition.

    Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LEADER_EPOCH, FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER.
    """
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_answer(broker.registry, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    pending.reply(OffsetForLeaderEpochResponse(topics=topics))


def _answer(topics: TopicLookup, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition, leader_epoch=UNDEFINED, end_offset=UNDEFINED)
    partition = topics.partition(topic, asked.partition)
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    if not partition.is_readable:
        answer.error_code = partition.read_error
        return answer
    answer.error_code = leader_epoch_error(asked.current_leader_epoch)
    if not answer.error_code and asked.leader_epoch == LEADER_EPOCH:
        answer.leader_epoch, answer.end_offset = LEADER_EPOCH, partition.log.next_offset
    return answer
