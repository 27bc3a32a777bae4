"""DescribeCluster (key 60): the nodes, at the addresses of the request's listener (KIP-700, KIP-919)."""

from __future__ import annotations

from typing import Final

from coordinator.admin.operations import CLUSTER_OPERATIONS
from coordinator.data.broker import Broker, ClientRequest
from coordinator.topics.placement import Node
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(broker: Broker, request: DescribeClusterRequest, pending: ClientRequest) -> None:
    """Describe the cluster. Errors: MISMATCHED_ENDPOINT_TYPE (controllers), UNSUPPORTED_ENDPOINT_TYPE."""
    if request.endpoint_type != BROKERS:
        pending.reply(refusal(request.endpoint_type))
        return
    placement = broker.placement
    response = DescribeClusterResponse(
        cluster_id=broker.settings.cluster_id,
        controller_id=placement.controller_id,
        brokers=[described_node(node, pending.listener) for node in placement.nodes],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    pending.reply(response)


def described_node(node: Node, listener: str) -> DescribeClusterBroker:
    """A node as the listener's clients find it."""
    host, port = node.endpoint_for(listener)
    return DescribeClusterBroker(broker_id=node.node_id, host=host, port=port, rack=node.rack)


def refusal(endpoint_type: int) -> DescribeClusterResponse:
    """The answer about anything but brokers."""
    if endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )
