"""Kafka's names of the message parts that we call otherwise, since two APIs have different parts of that name."""

from __future__ import annotations

from typing import Final

KAFKA_NAMES: Final = {
    "AlteredEntryData": "EntryData",
    "ConsumerGroupDescribeAssignment": "Assignment",
    "ConsumerGroupDescribeGroup": "DescribedGroup",
    "ConsumerGroupDescribeMember": "Member",
    "ConsumerGroupDescribeTopicPartitions": "TopicPartitions",
    "ConsumerGroupHeartbeatAssignment": "Assignment",
    "ConsumerGroupHeartbeatTopicPartitions": "TopicPartitions",
    "ControllerListener": "Listener",
    "DescribedProducer": "ProducerState",
    "DescribedTransaction": "TransactionState",
    "DescribeProducersTopicRequest": "TopicRequest",
    "DescribeTopicPartitionsRequestTopic": "TopicRequest",
    "DivergingEpoch": "EpochEndOffset",
    "FetchAbortedTransaction": "AbortedTransaction",
    "FetchReplicaState": "ReplicaState",
    "IncrementalAlterableConfig": "AlterableConfig",
    "IncrementalAlterConfigsResource": "AlterConfigsResource",
    "ListedTransaction": "TransactionState",
    "QuorumPartition": "PartitionData",
    "QuorumPartitionRequest": "PartitionData",
    "QuorumReplica": "ReplicaState",
    "QuorumTopic": "TopicData",
    "QuorumTopicRequest": "TopicData",
    "TransactionTopic": "TopicData",
}


def kafka_name(cls: type) -> str:
    """What Kafka calls a class of ours."""
    return KAFKA_NAMES.get(cls.__name__, cls.__name__)
