"""The version ranges are those that a running Apache Kafka 4.3.1 reports, and stay so."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.codec import spec
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.versions import PRODUCE_KEY, SUPPORTED
from tests.kafka_broker import KafkaBroker
from tests.wire import Wire

# What one node in KRaft's combined mode answered to ApiVersions on its broker listener: all 74 APIs.
REPORTED = {
@@TABLE@@
}

SERVED = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator"),
    *("JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups", "ApiVersions"),
    *("CreateTopics", "DeleteTopics", "InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs"),
    *("DeleteGroups", "OffsetDelete", "DescribeCluster", "CreatePartitions", "DescribeTopicPartitions"),
}


def test_every_range_is_the_one_that_kafka_reports() -> None:
    assert {key: REPORTED[key] for key in SUPPORTED} == SUPPORTED


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
        key for key, cls in REQUESTS.items() if SUPPORTED[key] != (spec(cls).min_version, spec(cls).max_version)
    }
    assert differing == {PRODUCE_KEY}
    assert SUPPORTED[PRODUCE_KEY][0] == 0
    assert spec(REQUESTS[PRODUCE_KEY]).min_version == 3


@pytest.mark.usefixtures("java")
def test_a_running_kafka_reports_what_is_pinned_here(tmp_path: Path) -> None:
    @@BROKER@@
