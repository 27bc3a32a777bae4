"""What clients are told in place of the brokers' addresses, in every version."""

from __future__ import annotations

import pytest

from coordinator.gateway import answers
from coordinator.gateway.allowed import ALLOWED
from coordinator.gateway.front import PassedOn
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import decode_response, response_frame
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Node,
    QuorumPartition,
    QuorumTopic,
)
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.shared import ControllerListener
from tests.gateway.parts import (
    BROKER,
    GATEWAY_HOST,
    NEW_BROKER,
    NODE,
    OTHER_NODE,
    SECRET,
    SECRET_PORT,
    KnownPorts,
    addresses,
    front,
)


def versions_of(response_class: type) -> range:
    message = spec(response_class)
    return range(message.min_version, message.max_version + 1)


def sent(response: object, version: int) -> bytes:
    return b"".join(bytes(chunk) for chunk in response_frame(1, response, version))


@pytest.mark.parametrize("version", versions_of(MetadataResponse))
def test_metadata_has_the_gateways_ports_and_the_nodes(version: int) -> None:
    leader = MetadataResponsePartition(partition_index=0, leader_id=BROKER, replica_nodes=[1], isr_nodes=[1])
    given = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=BROKER, host=SECRET, port=SECRET_PORT, rack="r")],
        cluster_id="theirs",
        controller_id=BROKER,
        topics=[MetadataResponseTopic(name="orders", partitions=[leader])],
    )
    frame = sent(answers.metadata(given, addresses()), version)
    assert SECRET.encode() not in frame
    _, got = decode_response(MetadataResponse, version, frame[4:])
    assert [(each.node_id, each.host, each.port) for each in got.brokers] == [
        (BROKER, GATEWAY_HOST, 9_000 + BROKER),
        (NODE, f"HOST-{NODE}", 8_000),
        (OTHER_NODE, f"HOST-{OTHER_NODE}", 8_000),
    ]
    (orders,) = got.topics
    assert (orders.name, orders.partitions[0].leader_id) == ("orders", BROKER)
    if version >= 1:
        assert (got.controller_id, got.brokers[0].rack) == (BROKER, "r")
    if version >= 2:
        assert got.cluster_id == "theirs"


def test_a_broker_without_a_port_is_learned_and_not_shown() -> None:
    ports = KnownPorts()
    shown = answers.metadata(
        MetadataResponse(brokers=[MetadataResponseBroker(node_id=NEW_BROKER, host=SECRET, port=SECRET_PORT)]),
        addresses(ports),
    )
    assert [each.node_id for each in shown.brokers] == [NODE, OTHER_NODE]
    assert [(each.node_id, each.host, each.port) for each in ports.learned] == [
        (NEW_BROKER, SECRET, SECRET_PORT)
    ]


@pytest.mark.parametrize("version", versions_of(DescribeClusterResponse))
def test_a_described_cluster_has_them_too(version: int) -> None:
    given = DescribeClusterResponse(
        cluster_id="theirs",
        controller_id=BROKER,
        brokers=[
            DescribeClusterBroker(broker_id=BROKER, host=SECRET, port=SECRET_PORT, is_fenced=version >= 2)
        ],
    )
    frame = sent(answers.describe_cluster(given, addresses()), version)
    assert SECRET.encode() not in frame
    _, got = decode_response(DescribeClusterResponse, version, frame[4:])
    assert [(each.broker_id, each.host) for each in got.brokers] == [
        (BROKER, GATEWAY_HOST),
        (NODE, f"HOST-{NODE}"),
        (OTHER_NODE, f"HOST-{OTHER_NODE}"),
    ]
    assert [each.is_fenced for each in got.brokers] == [version >= 2, False, False]
    assert (got.cluster_id, got.controller_id) == ("theirs", BROKER)


@pytest.mark.parametrize("version", versions_of(DescribeQuorumResponse))
def test_a_described_quorum_has_no_addresses_of_controllers(version: int) -> None:
    partition = QuorumPartition(partition_index=0, leader_id=BROKER)
    given = DescribeQuorumResponse(topics=[QuorumTopic(topic_name="m", partitions=[partition])])
    if version >= 2:
        listener = ControllerListener(name="C", host=SECRET, port=SECRET_PORT)
        given.nodes = [Node(node_id=BROKER, listeners=[listener])]
    treated = front().treat(DescribeQuorumRequest(), version)
    assert isinstance(treated, PassedOn)
    frame = sent(treated.rewrite(given), version)
    assert SECRET.encode() not in frame
    _, got = decode_response(DescribeQuorumResponse, version, frame[4:])
    assert got.topics[0].partitions[0].leader_id == BROKER


def test_a_refusal_to_describe_shows_no_nodes() -> None:
    refused = DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    assert answers.describe_cluster(refused, addresses()).brokers == []


@pytest.mark.parametrize("version", versions_of(FindCoordinatorResponse))
@pytest.mark.parametrize("broker_id", [BROKER, NEW_BROKER])
def test_a_coordinator_among_the_brokers_is_found_at_its_port(version: int, broker_id: int) -> None:
    if version >= 4:
        given = FindCoordinatorResponse(
            coordinators=[Coordinator(key="t", node_id=broker_id, host=SECRET, port=SECRET_PORT)]
        )
    else:
        given = FindCoordinatorResponse(node_id=broker_id, host=SECRET, port=SECRET_PORT)
    frame = sent(answers.find_coordinator(given, version, addresses()), version)
    assert SECRET.encode() not in frame
    _, got = decode_response(FindCoordinatorResponse, version, frame[4:])
    found = got.coordinators[0] if version >= 4 else got
    assert isinstance(found, Coordinator | FindCoordinatorResponse)
    if broker_id == BROKER:
        assert (found.node_id, found.host, found.port, found.error_code) == (BROKER, GATEWAY_HOST, 9_001, 0)
    else:
        not_yet = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (found.node_id, found.host, found.port, found.error_code) == (-1, "", -1, not_yet)


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_what_a_broker_does_not_find_stays_an_error(version: int) -> None:
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version >= 4:
        given = FindCoordinatorResponse(
            coordinators=[Coordinator(key="t", node_id=-1, host="", port=-1, error_code=error)]
        )
        assert answers.find_coordinator(given, version, addresses()).coordinators[0].error_code == error
    else:
        given = FindCoordinatorResponse(error_code=error, node_id=-1, host="", port=-1)
        assert answers.find_coordinator(given, version, addresses()).error_code == error


def test_apis_are_offered_in_versions_that_both_sides_know() -> None:
    given = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=0, min_version=0, max_version=13),
            ApiVersion(api_key=1, min_version=14, max_version=99),
            ApiVersion(api_key=3, min_version=5, max_version=9),
            ApiVersion(api_key=11, min_version=40, max_version=41),
            ApiVersion(api_key=36, min_version=0, max_version=2),
            ApiVersion(api_key=78, min_version=1, max_version=1),
            ApiVersion(api_key=999, min_version=0, max_version=0),
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=0, max_version=2)
            for name in ("transaction.version", "group.version")
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=1, max_version_level=1)
            for name in ("transaction.version", "group.version")
        ],
    )
    got = answers.api_versions(given)
    assert [(each.api_key, each.min_version, each.max_version) for each in got.api_keys] == [
        (0, 0, ALLOWED[0][1]),
        (1, 14, ALLOWED[1][1]),
        (3, 5, 9),
    ]
    assert [each.name for each in got.supported_features] == ["group.version"]
    assert [each.name for each in got.finalized_features] == ["group.version"]
