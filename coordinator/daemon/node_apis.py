"""What a node whose logs are on Kafka says of the cluster: its nodes, and the topics of the other cluster.

Clients that ask it for their coordinator were sent here by the system that has their data, so no partition has a
leader here: who looks for one is told so, and not sent to a broker that knows another coordinator.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.admin import describe_cluster, metadata
from coordinator.admin.describe_cluster import BROKERS, refusal
from coordinator.admin.operations import CLUSTER_OPERATIONS
from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.server.api_table import Handler
from coordinator.server.pending import Pending
from coordinator.topics.names import GROUP_METADATA_TOPIC, missing_topic_error
from coordinator.topics.placement import NO_LEADER, Node, Placement
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class NodeApis:
    """The handlers of Metadata (key 3) and DescribeCluster (key 60) of one node."""

    def __init__(
        self, placement: Placement, topics: ClusterTopics, cluster_id: Callable[[], str | None]
    ) -> None:
        self._placement = placement
        self._topics = topics
        self._cluster_id = cluster_id

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by API key."""
        return {3: self.metadata, 60: self.describe_cluster}

    def metadata(self, request: MetadataRequest, pending: Pending) -> None:
        """Errors: LEADER_NOT_AVAILABLE of each partition; of topics as in Kafka."""
        if request.topics is None or (not request.topics and pending.api_version == 0):
            topics = [self._named(name) for name in sorted(self._topics.names())]
        else:
            topics = [self._topic(asked) for asked in request.topics]
        response = MetadataResponse(
            brokers=[metadata.described_node(node, pending.listener) for node in self._nodes(pending)],
            cluster_id=self._cluster_id(),
            controller_id=NO_LEADER,
            topics=topics,
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        pending.reply(response)

    def _nodes(self, pending: Pending) -> list[Node]:
        return [node for node in self._placement.nodes if node.is_on(pending.listener)]

    def _topic(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        name = asked.name
        if asked.topic_id != ZERO_UUID:
            name = self._topics.topic_name(asked.topic_id)
            if name is None:
                return MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
                )
        return self._named(name or "")

    def _named(self, name: str) -> MetadataResponseTopic:
        image = self._topics.image(name)
        if image is None:
            return MetadataResponseTopic(error_code=missing_topic_error(name), name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=image.topic_id,
            is_internal=name == GROUP_METADATA_TOPIC,
            partitions=[_leaderless(index) for index in range(len(image.racks_by_partition))],
        )

    def describe_cluster(self, request: DescribeClusterRequest, pending: Pending) -> None:
        """Errors: MISMATCHED_ENDPOINT_TYPE (controllers), UNSUPPORTED_ENDPOINT_TYPE."""
        if request.endpoint_type != BROKERS:
            pending.reply(refusal(request.endpoint_type))
            return
        nodes = self._nodes(pending)
        response = DescribeClusterResponse(
            cluster_id=self._cluster_id() or "",
            controller_id=NO_LEADER,
            brokers=[describe_cluster.described_node(node, pending.listener) for node in nodes],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        pending.reply(response)


def _leaderless(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=NO_LEADER,
        replica_nodes=[],
        isr_nodes=[],
    )
