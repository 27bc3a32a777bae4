"""Which requests the gateway answers itself, and what it does with the others that it reads."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.gateway.allowed import ADD_OFFSETS_TO_TXN, ALLOWED, OF_GROUPS
from coordinator.gateway.front import Answered, PassedOn, groups_of
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.framing import decode_response, response_frame
from protocol.messages import REQUESTS, RESPONSES
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.gateway.parts import BROKER, GATEWAY_HOST, OTHER_NODE, SECRET, SECRET_PORT, front


def about(api_key: int, version: int, *groups: str) -> Any:
    """A request about groups; of one that may name only one, the first."""
    made: dict[int, Any] = {
        8: lambda: OffsetCommitRequest(
            group_id=groups[0],
            topics=[
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
        9: lambda: (
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each) for each in groups])
            if version >= 8
            else OffsetFetchRequest(
                group_id=groups[0], topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
            )
        ),
        11: lambda: JoinGroupRequest(
            group_id=groups[0], session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[]
        ),
        12: lambda: HeartbeatRequest(group_id=groups[0], generation_id=1, member_id="m"),
        13: lambda: LeaveGroupRequest(group_id=groups[0]),
        14: lambda: SyncGroupRequest(group_id=groups[0], generation_id=1, member_id="m", assignments=[]),
        15: lambda: DescribeGroupsRequest(groups=list(groups)),
        28: lambda: TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=groups[0],
            producer_id=1,
            producer_epoch=1,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="orders",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
        42: lambda: DeleteGroupsRequest(groups_names=list(groups)),
        47: lambda: OffsetDeleteRequest(group_id=groups[0], topics=[]),
        68: lambda: ConsumerGroupHeartbeatRequest(group_id=groups[0], member_id="m", member_epoch=1),
        69: lambda: ConsumerGroupDescribeRequest(group_ids=list(groups)),
    }
    return made[api_key]()


OF_ONE_GROUP = [
    (api_key, version)
    for api_key in sorted(OF_GROUPS)
    for version in range(
        max(ALLOWED[api_key][0], spec(REQUESTS[api_key]).min_version), ALLOWED[api_key][1] + 1
    )
]


@pytest.mark.parametrize(("api_key", "version"), OF_ONE_GROUP)
def test_a_broker_is_no_coordinator_of_our_groups(api_key: int, version: int) -> None:
    request = about(api_key, version, "ours")
    assert groups_of(request, version) == ["ours"]
    treated = front().treat(request, version)
    assert isinstance(treated, Answered)
    frame = b"".join(bytes(chunk) for chunk in response_frame(1, treated.response, version))
    decode_response(RESPONSES[api_key], version, frame[4:])
    assert f"error_code={ErrorCode.NOT_COORDINATOR!r}" in repr(treated.response)


@pytest.mark.parametrize(("api_key", "version"), OF_ONE_GROUP)
def test_what_is_asked_about_their_groups_passes(api_key: int, version: int) -> None:
    request = about(api_key, version, "theirs")
    treated = front().treat(request, version)
    assert isinstance(treated, PassedOn)
    assert treated.request is request
    response = object()
    assert treated.rewrite(response) is response


@pytest.mark.parametrize("api_key", [9, 15, 42, 69])
def test_one_of_our_groups_among_theirs_has_all_looked_for_again(api_key: int) -> None:
    version = ALLOWED[api_key][1]
    assert isinstance(front().treat(about(api_key, version, "theirs", "ours"), version), Answered)


@pytest.mark.parametrize("version", range(ALLOWED[ADD_OFFSETS_TO_TXN][1] + 1))
def test_a_transaction_with_offsets_of_our_groups_is_refused_before_it_has_any(version: int) -> None:
    door, refused = front(), []
    door.on_refused_transaction = lambda transactional_id, group_id: refused.append(
        (transactional_id, group_id)
    )
    asked = AddOffsetsToTxnRequest(transactional_id="t", producer_id=1, producer_epoch=1, group_id="ours")
    treated = door.treat(asked, version)
    assert isinstance(treated, Answered)
    assert treated.response.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused == [("t", "ours")]
    asked.group_id = "theirs"
    assert isinstance(door.treat(asked, version), PassedOn)
    assert len(refused) == 1


def found(key: str, treated: Answered | PassedOn, response: FindCoordinatorResponse | None = None) -> Any:
    answer = treated.response if isinstance(treated, Answered) else treated.rewrite(response)
    return next(each for each in answer.coordinators if each.key == key)


@pytest.mark.parametrize("version", range(7))
def test_our_groups_have_their_coordinator_among_the_nodes(version: int) -> None:
    asked = (
        FindCoordinatorRequest(coordinator_keys=["ours"])
        if version >= 4
        else FindCoordinatorRequest(key="ours")
    )
    treated = front().treat(asked, version)
    assert isinstance(treated, Answered)
    one = treated.response.coordinators[0] if version >= 4 else treated.response
    assert (one.node_id, one.host, one.error_code) == (OTHER_NODE, f"HOST-{OTHER_NODE}", 0)


@pytest.mark.parametrize("key_type", [CoordinatorType.TRANSACTION, CoordinatorType.SHARE])
def test_coordinators_of_anything_else_are_brokers(key_type: int) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["ours"], key_type=key_type)
    treated = front().treat(asked, 6)
    assert isinstance(treated, PassedOn)
    assert treated.request is asked
    theirs = FindCoordinatorResponse(
        coordinators=[Coordinator(key="ours", node_id=BROKER, host=SECRET, port=SECRET_PORT)]
    )
    assert found("ours", treated, theirs).host == GATEWAY_HOST


def test_keys_of_both_are_asked_for_where_they_are_and_answered_in_their_order() -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["ours", "theirs", "ours too", "their own", "ours"])
    treated = front().treat(asked, 6)
    assert isinstance(treated, PassedOn)
    assert treated.request.coordinator_keys == ["theirs", "their own"]
    theirs = FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=BROKER, host=SECRET, port=SECRET_PORT)
            for key in treated.request.coordinator_keys
        ]
    )
    answer = treated.rewrite(theirs)
    assert [(each.key, each.node_id) for each in answer.coordinators] == [
        ("ours", OTHER_NODE),
        ("theirs", BROKER),
        ("ours too", OTHER_NODE),
        ("their own", BROKER),
        ("ours", OTHER_NODE),
    ]
    assert SECRET not in repr(answer)


def test_what_a_client_is_shown_of_topics_is_known_before_it_sees_it() -> None:
    treats, known = front(), []
    treats.on_metadata = lambda response: known.append([each.name for each in response.topics])
    passed = treats.treat(MetadataRequest(topics=[]), 12)
    assert isinstance(passed, PassedOn)
    assert known == []
    passed.rewrite(MetadataResponse(topics=[MetadataResponseTopic(name="orders")]))
    assert known == [["orders"]]
