"""Error responses in an exchange of tokens whose fields the schemas leave open, as Kafka's requests make them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.security.sasl.out_of_order import TEXT, out_of_order
from protocol.codec.codec import decode, encode
from protocol.errors import ErrorCode
from protocol.messages import RESPONSES
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.delegation_tokens import CreateDelegationTokenRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ERROR = ErrorCode.ILLEGAL_SASL_STATE
ID = bytes(range(16))


def answer(key: int, request: Any, version: int) -> Any:
    """As it arrives: what the version does not have is gone."""
    return decode(RESPONSES[key], version, encode(out_of_order(request, version), version), 0)


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_fetch_says_it_for_each_partition_until_version_12(version: int) -> None:
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in (0, 3)
    ]
    session_id = 5 if version >= 7 else 0
    topics = [FetchTopic(topic="t", topic_id=ID, partitions=partitions)]
    got = answer(1, FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, topics=topics), version)
    assert (got.error_code, got.session_id) == (ERROR if version >= 7 else 0, session_id)
    rows = [
        (topic.topic, each.partition_index, each.error_code, each.high_watermark, each.last_stable_offset)
        for topic in got.responses
        for each in topic.partitions
    ]
    assert rows == ([("t", 0, ERROR, -1, -1), ("t", 3, ERROR, -1, -1)] if version < 13 else [])


@pytest.mark.parametrize("version", [0, 9, 12, 13])
def test_metadata_says_it_for_each_topic_and_has_no_brokers(version: int) -> None:
    topics = [MetadataRequestTopic(name="t")]
    topics += [MetadataRequestTopic(name=None, topic_id=ID)] if version >= 10 else []
    got = answer(3, MetadataRequest(topics=topics), version)
    assert [(each.error_code, each.name) for each in got.topics] == [(ERROR, "t"), (ERROR, "")][: len(topics)]
    assert (got.brokers, got.cluster_id, got.controller_id) == ([], None, -1)
    assert got.error_code == (ERROR if version >= 13 else 0)


@pytest.mark.parametrize("version", [1, 13])
def test_metadata_of_all_topics_has_none(version: int) -> None:
    assert answer(3, MetadataRequest(topics=None), version).topics == []


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_coordinator_that_is_none_has_a_text(version: int) -> None:
    got = answer(10, FindCoordinatorRequest(key="g"), version)
    assert (got.error_code, got.node_id, got.host, got.port) == (ERROR, -1, "", -1)
    assert got.error_message == (TEXT if version else "")


@pytest.mark.parametrize("version", [4, 6])
def test_each_of_several_coordinators_has_one(version: int) -> None:
    got = answer(10, FindCoordinatorRequest(coordinator_keys=["g", "h"]), version)
    rows = [
        (each.key, each.error_code, each.error_message, each.node_id, each.host, each.port)
        for each in got.coordinators
    ]
    assert rows == [(key, ERROR, TEXT, -1, "", -1) for key in ("g", "h")]


@pytest.mark.parametrize("version", [1, 2])
def test_directories_that_are_altered_are_refused_by_partition(version: int) -> None:
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[number])])
        for number, path in enumerate(("/a", "/b"))
    ]
    got = answer(34, AlterReplicaLogDirsRequest(dirs=dirs), version)
    rows = [
        (topic.topic_name, each.partition_index, each.error_code)
        for topic in got.results
        for each in topic.partitions
    ]
    assert rows == [("t", 0, ERROR), ("t", 1, ERROR)]


@pytest.mark.parametrize("version", [1, 3, 4])
def test_directories_that_are_described_are_none(version: int) -> None:
    got = answer(35, DescribeLogDirsRequest(topics=None), version)
    assert (got.error_code, got.results) == (ERROR if version >= 3 else 0, [])


@pytest.mark.parametrize(("acks", "is_answered"), [(0, False), (1, True), (-1, True)])
def test_a_producer_that_wants_no_answer_gets_none(acks: int, is_answered: bool) -> None:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=2, records=b"")])]
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1, topic_data=data)
    assert (out_of_order(request, 9) is not None) is is_answered


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_that_is_not_made_is_nobodys(version: int) -> None:
    got = answer(38, CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), version)
    assert (got.error_code, got.principal_type, got.principal_name) == (ERROR, "User", "ANONYMOUS")
    assert (got.issue_timestamp_ms, got.expiry_timestamp_ms, got.max_timestamp_ms) == (-1, -1, -1)
    assert (got.token_id, got.hmac) == ("", b"")
    assert got.token_requester_principal_name == ("ANONYMOUS" if version >= 3 else "")


def test_quotas_are_refused_by_their_entities() -> None:
    entity = [EntityData(entity_type="user", entity_name=None)]
    got = answer(49, AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[])]), 1)
    assert [(each.error_code, each.error_message, each.entity) for each in got.entries] == [
        (ERROR, TEXT, entity)
    ]
