"""What a request is answered that no handler saw: one error, in the shape its version has for it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.offsets.transactional_commit import TransactionalCommit
from coordinator.shard.error_responses import error_response, loading_answer
from coordinator.shard.shard import COLLECTORS, HANDLERS
from protocol.codec.codec import encode, spec
from protocol.error_responses import APPEND_ANSWER, append_answer
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
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

UNAVAILABLE = ErrorCode.NOT_COORDINATOR
JOIN = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="m", protocol_type="t", protocols=[])
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
LEAVE = LeaveGroupRequest(group_id="g")
COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=[
        OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=1) for i in (0, 7)],
        )
    ],
)
FETCH_FLAT = OffsetFetchRequest(
    group_id="g", topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 7])]
)
FETCH_GROUPS = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name) for name in "gh"])
OFFSET_DELETE = OffsetDeleteRequest(group_id="g", topics=[])
DESCRIBE = DescribeGroupsRequest(groups=["g", "h"])
LIST = ListGroupsRequest()
TXN_COMMIT = TransactionalCommit(
    TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="orders",
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
)
DELETE = DeleteGroupsRequest(groups_names=["g", "h", "g"])
ALL: list[Any] = [
    JOIN,
    SYNC,
    HEARTBEAT,
    LEAVE,
    COMMIT,
    TXN_COMMIT,
    FETCH_FLAT,
    OFFSET_DELETE,
    DESCRIBE,
    LIST,
    DELETE,
    ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
    ConsumerGroupDescribeRequest(group_ids=["g", "h"]),
]


def errors_in(response: Any) -> list[int]:
    """Every error code of a response, outermost first."""
    found = [response.error_code] if hasattr(response, "error_code") else []
    for name in ("topics", "partitions", "groups", "results", "members"):
        for part in getattr(response, name, None) or ():
            found += errors_in(part)
    return found


def test_every_request_that_a_shard_handles_has_its_error_response() -> None:
    assert {type(request) for request in ALL} == HANDLERS.keys() | COLLECTORS.keys()


@pytest.mark.parametrize("request_", ALL, ids=lambda request: type(request).__name__)
def test_every_version_says_the_error_and_can_be_encoded(request_: Any) -> None:
    known = spec(type(getattr(request_, "request", request_)))
    for version in range(known.min_version, known.max_version + 1):
        flat = not isinstance(request_, OffsetFetchRequest) or version < 8
        response = error_response(request_ if flat else FETCH_GROUPS, UNAVAILABLE, version)
        assert encode(response, version)
        assert UNAVAILABLE in errors_in(response)


@pytest.mark.parametrize("request_", ALL, ids=lambda request: type(request).__name__)
def test_a_write_that_took_too_long_is_an_error_that_clients_retry(request_: Any) -> None:
    """docs/kafka.md 2.1, 3.88: 15, and 16 for OffsetFetch, whose clients know no 15."""
    expected = 16 if isinstance(request_, OffsetFetchRequest) else 15
    version = 0 if not isinstance(request_, (OffsetCommitRequest, OffsetFetchRequest)) else 2
    response = error_response(request_, ErrorCode.REQUEST_TIMED_OUT, version)
    assert expected in errors_in(response)
    assert not {7, 31 - expected} & set(errors_in(response))


def test_a_groups_error_stands_where_the_version_of_offset_fetch_has_room() -> None:
    assert errors_in(error_response(FETCH_FLAT, UNAVAILABLE, 1)) == [0, UNAVAILABLE, UNAVAILABLE]
    assert errors_in(error_response(FETCH_FLAT, UNAVAILABLE, 2)) == [UNAVAILABLE]
    assert errors_in(error_response(FETCH_GROUPS, UNAVAILABLE, 8)) == [0, UNAVAILABLE, UNAVAILABLE]


def test_a_commit_says_its_error_for_each_partition() -> None:
    assert errors_in(error_response(COMMIT, UNAVAILABLE, 9)) == [UNAVAILABLE, UNAVAILABLE]


def test_an_old_producer_gets_no_error_that_says_that_a_coordinator_loads() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [errors_in(error_response(TXN_COMMIT, loading, version)) for version in (1, 2)] == [[15], [14]]


def test_a_join_that_failed_carries_no_generation() -> None:
    response = error_response(JOIN, UNAVAILABLE, 9)
    assert (response.generation_id, response.leader, response.members) == (-1, "", [])
    assert (response.protocol_name, response.member_id) == (None, "")


def test_names_of_a_batch_are_answered_once_each() -> None:
    assert [result.group_id for result in error_response(DELETE, UNAVAILABLE, 2).results] == ["g", "h"]


def test_3_69_while_loading_heartbeats_are_fine_syncs_rejoin_and_all_else_waits() -> None:
    assert loading_answer(HEARTBEAT) is ErrorCode.NONE
    assert loading_answer(SYNC) is ErrorCode.REBALANCE_IN_PROGRESS
    for request in (JOIN, LEAVE, COMMIT, TXN_COMMIT, FETCH_FLAT, OFFSET_DELETE, DESCRIBE, LIST, DELETE):
        assert loading_answer(request) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(("logs", "clients"), APPEND_ANSWER.items())
def test_3_87_what_the_log_says_is_put_in_words_that_clients_know(
    logs: ErrorCode, clients: ErrorCode
) -> None:
    assert error_response(HEARTBEAT, logs, 4).error_code is clients
    assert append_answer(clients) is clients
