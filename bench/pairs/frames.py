"""The requests that the load is made of, as bytes: those of groups in their newest versions.

OffsetCommit and OffsetFetch are of version 8, which is flexible and has topics by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CLIENT_ID: Final = "bench"
CORRELATION_ID: Final = 1
"""The correlation id of every request: so every answer to a frame has the same bytes, which are compared."""

HEARTBEAT: Final = (12, 4)
COMMIT: Final = (8, 8)
FETCH: Final = (9, 8)
JOIN: Final = (11, 9)
SYNC: Final = (14, 5)
CONSUMER_HEARTBEAT: Final = (68, 1)

SESSION_MS: Final = 1_800_000
"""The longest that both servers allow by default: members that send no heartbeats outlive the rounds."""
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SUBSCRIPTION: Final = bytes(64)  # As much as a consumer of one topic says.
ASSIGNMENT: Final = bytes(48)
REBALANCE_MS: Final = 300_000  # As the Java consumer has it: its max.poll.interval.ms.


@dataclass(slots=True)
class Joined:
    """A member of a stable group, as far as its requests need to know.

    `generation_id` is the member epoch where the group is a consumer group.
    """

    group_id: str
    member_id: str
    generation_id: int


def _frame(request: Any, api: tuple[int, int]) -> bytes:
    return encode_request(request, api[1], CORRELATION_ID, CLIENT_ID)


def heartbeat(member: Joined) -> bytes:
    request = HeartbeatRequest(
        group_id=member.group_id, generation_id=member.generation_id, member_id=member.member_id
    )
    return _frame(request, HEARTBEAT)


def commit(member: Joined, topic: str, partitions: Sequence[int], offset: int) -> bytes:
    committed = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in partitions
    ]
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)],
    )
    return _frame(request, COMMIT)


def fetch(group_id: str, topic: str, partition: int) -> bytes:
    wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
    return _frame(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=wanted)]), FETCH
    )


def join(
    group_id: str, member_id: str, rebalance_timeout_ms: int, session_timeout_ms: int = SESSION_MS
) -> bytes:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=SUBSCRIPTION)],
    )
    return _frame(request, JOIN)


def sync(member: Joined, member_ids: Sequence[str]) -> bytes:
    """A SyncGroup frame: the leader's with an assignment for each of `member_ids`, a follower's without any."""
    assigned = [SyncGroupRequestAssignment(member_id=each, assignment=ASSIGNMENT) for each in member_ids]
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=assigned,
    )
    return _frame(request, SYNC)


def consumer_join(member: Joined, topics: Sequence[str]) -> bytes:
    """The first heartbeat of a member of a consumer group, whose id is its own."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        member_epoch=0,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )
    return _frame(request, CONSUMER_HEARTBEAT)


def consumer_heartbeat(
    member: Joined, owned: Sequence[ConsumerGroupHeartbeatTopicPartitions] | None = None
) -> bytes:
    """A heartbeat within a consumer group, with all partitions that the member owns where they have changed."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        member_epoch=member.generation_id,
        topic_partitions=None if owned is None else list(owned),
    )
    return _frame(request, CONSUMER_HEARTBEAT)
