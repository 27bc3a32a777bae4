"""Groups of one member, by hand: their requests."""

from __future__ import annotations

from typing import Any

from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_MS = 10_000


def join(member_id: str = "", group_id: str = "m") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def joining(member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat by which a member joins consumer group "g", with other `fields` than most."""
    given: dict[str, Any] = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    } | fields
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, **given)


def sync(joined: Any) -> SyncGroupRequest:
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    return SyncGroupRequest(
        group_id="m",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[mine] if joined.leader == joined.member_id else [],
    )


def leave(member_id: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="m", members=[MemberIdentity(member_id=member_id)])


def beat(joined: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="m", generation_id=joined.generation_id, member_id=joined.member_id)
