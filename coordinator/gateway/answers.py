"""What of a broker's answers is changed, so that clients come back through the gateway."""

from __future__ import annotations

from coordinator.gateway.addresses import Addresses, Place
from coordinator.gateway.allowed import HIDDEN_FEATURES, passing
from coordinator.server.find_coordinator import BATCHED_SINCE, NOT_AVAILABLE_TEXT
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.metadata import MetadataResponse, MetadataResponseBroker


def metadata(response: MetadataResponse, addresses: Addresses) -> MetadataResponse:
    """The brokers at the gateway's ports, and the nodes; leaders, ids and the controller stay."""
    brokers = [Place(each.node_id, each.host, each.port, each.rack) for each in response.brokers]
    response.brokers = [
        MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in addresses.behind_gateway(brokers)
    ]
    return response


def describe_cluster(response: DescribeClusterResponse, addresses: Addresses) -> DescribeClusterResponse:
    """As `metadata`; a refusal stays as it is."""
    if response.error_code:
        return response
    fenced = {each.broker_id for each in response.brokers if each.is_fenced}
    brokers = [Place(each.broker_id, each.host, each.port, each.rack) for each in response.brokers]
    response.brokers = [
        DescribeClusterBroker(
            broker_id=each.node_id,
            host=each.host,
            port=each.port,
            rack=each.rack,
            is_fenced=each.node_id in fenced,
        )
        for each in addresses.behind_gateway(brokers)
    ]
    return response


def describe_quorum(response: DescribeQuorumResponse) -> DescribeQuorumResponse:
    """Without the endpoints of controllers, which no client reaches through the gateway."""
    response.nodes = []
    return response


def find_coordinator(
    response: FindCoordinatorResponse, version: int, addresses: Addresses
) -> FindCoordinatorResponse:
    """Each coordinator at its broker's port of the gateway; one whose broker has none yet is not available yet."""
    if version >= BATCHED_SINCE:
        response.coordinators = [_coordinator(each, addresses) for each in response.coordinators]
    elif not response.error_code:
        place = addresses.of_broker(response.node_id)
        if place is None:
            return FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=NOT_AVAILABLE_TEXT,
                node_id=-1,
                host="",
                port=-1,
            )
        response.host, response.port = place
    return response


def _coordinator(found: Coordinator, addresses: Addresses) -> Coordinator:
    if found.error_code:
        return found
    place = addresses.of_broker(found.node_id)
    if place is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=found.key, node_id=-1, host="", port=-1, error_code=error)
    host, port = place
    return Coordinator(key=found.key, node_id=found.node_id, host=host, port=port)


def api_versions(response: ApiVersionsResponse) -> ApiVersionsResponse:
    """What the broker and the gateway both know, without the features that clients must not build on."""
    response.api_keys = [row for each in response.api_keys if (row := _allowed_row(each)) is not None]
    response.supported_features = [
        each for each in response.supported_features if each.name not in HIDDEN_FEATURES
    ]
    response.finalized_features = [
        each for each in response.finalized_features if each.name not in HIDDEN_FEATURES
    ]
    return response


def _allowed_row(row: ApiVersion) -> ApiVersion | None:
    passes = passing(row.api_key, (row.min_version, row.max_version))
    if passes is None:
        return None
    return ApiVersion(api_key=row.api_key, min_version=passes[0], max_version=passes[1])
