"""The version ranges are those that a running Apache Kafka 4.3.1 reports, and stay so."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kafka_broker import KafkaBroker
from harness.wire import WireClient
from protocol.codec.codec import spec
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.versions import PRODUCE_KEY, SUPPORTED
from tests.conformance.served import LATER

# What one node in KRaft's combined mode answered to ApiVersions on its broker listener: all 75 APIs.
# fmt: off
REPORTED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6),
    11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1),
    18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 24: (0, 5),
    25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3),
    32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3),
    39: (1, 2), 40: (1, 2), 41: (1, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1),
    46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2),
    57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1),
    69: (0, 1), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2), 79: (1, 2),
    80: (0, 1), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0), 87: (0, 1),
    88: (0, 0), 89: (0, 0), 90: (0, 1), 91: (0, 0), 92: (0, 0),
}
# fmt: on

WITH_A_RECEIVER = {71: (0, 0), 72: (0, 0)}
"""What it answers besides if it has a receiver of client metrics (KIP-714)."""

SERVED = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator"),
    *("JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "ApiVersions"),
    *("CreateTopics", "DeleteTopics", "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs"),
    *("DeleteGroups", "OffsetDelete", "DescribeCluster", "CreatePartitions", "DescribeTopicPartitions"),
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions", "ListTransactions"),
    *("TxnOffsetCommit", "AlterClientQuotas"),
    *("WriteTxnMarkers", "DescribeProducers"),
    *("DeleteRecords", "AlterConfigs", "IncrementalAlterConfigs", "DescribeLogDirs", "ElectLeaders"),
    *("DescribeAcls", "CreateAcls", "DeleteAcls", "ListPartitionReassignments", "DescribeClientQuotas"),
    *("DescribeUserScramCredentials", "AlterUserScramCredentials"),
    *("ListConfigResources", "SaslHandshake", "SaslAuthenticate"),
    *("AlterReplicaLogDirs", "AlterPartitionReassignments", "DescribeQuorum", "UpdateFeatures"),
    *("UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter"),
    *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"),
    *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    *("GetTelemetrySubscriptions", "PushTelemetry"),
}


def test_every_range_is_the_one_that_kafka_reports() -> None:
    assert {key: (REPORTED | WITH_A_RECEIVER)[key] for key in SUPPORTED} == SUPPORTED


def test_what_kafka_serves_and_we_do_not_is_named() -> None:
    """The one list of what is missing; an API that is served once stays off it."""
    assert REPORTED.keys() - SUPPORTED.keys() == LATER
    share_and_streams_groups = {76, 77, 78, 79, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92}
    assert share_and_streams_groups >= LATER


def test_all_apis_that_we_serve_have_messages() -> None:
    assert {cls.__name__ for cls in REQUESTS.values()} == {f"{name}Request" for name in SERVED}
    assert {cls.__name__ for cls in RESPONSES.values()} == {f"{name}Response" for name in SERVED}


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_request_and_response_agree_on_key_and_versions(key: int) -> None:
    request, response = spec(REQUESTS[key]), spec(RESPONSES[key])
    assert (request.kind, response.kind) == ("request", "response")
    assert request.api_key == response.api_key == key
    assert request.flexible_since == response.flexible_since
    assert (request.min_version, request.max_version) == (response.min_version, response.max_version)


def test_only_produce_is_reported_below_what_is_served() -> None:
    """librdkafka takes a missing Produce 0 for a broker that cannot compress; the schema begins at 3."""
    differing = {
        key
        for key, cls in REQUESTS.items()
        if SUPPORTED[key] != (spec(cls).min_version, spec(cls).max_version)
    }
    assert differing == {PRODUCE_KEY}
    assert SUPPORTED[PRODUCE_KEY][0] == 0
    assert spec(REQUESTS[PRODUCE_KEY]).min_version == 3


@pytest.mark.usefixtures("java")
def test_a_running_kafka_reports_what_is_pinned_here(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path) as broker, WireClient(broker.bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="muster", client_software_version="0")
        for version in range(5):
            asked = request if version >= 3 else ApiVersionsRequest()
            answer = client.ask(asked, version)
            assert isinstance(answer, ApiVersionsResponse)
            assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys} == REPORTED
