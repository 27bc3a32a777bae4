"""DescribeCluster (key 60): the one node, at the address of the request's listener (KIP-700, KIP-919)."""

from __future__ import annotations

from typing import Final

from coordinator.admin.operations import CLUSTER_OPERATIONS
from coordinator.data.broker import Broker, ClientRequest
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
        pending.reply(_refusal(request.endpoint_type))
        return
    settings = broker.settings
    host, port = broker.endpoint_for(pending.listener)
    response = DescribeClusterResponse(
        cluster_id=settings.cluster_id,
        controller_id=settings.node_id,
        brokers=[DescribeClusterBroker(broker_id=settings.node_id, host=host, port=port, rack=settings.rack)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    pending.reply(response)


def _refusal(endpoint_type: int) -> DescribeClusterResponse:
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
