"""JoinGroup (key 11): a member asks to be in a group and offers the protocols it speaks.

The answer is held back until the join phase ends. Every member learns the generation and the
chosen protocol; the leader alone gets the list of members, with the metadata each one offered.
The metadata is opaque here: `protocol.consumer` reads what consumers put into it.

| version | what is new |
|---|---|
| 1 | the rebalance timeout is a field beside the session timeout (KIP-62) |
| 2 | throttle time in the answer |
| 3 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 4 | a member without an id is first handed one with MEMBER_ID_REQUIRED (KIP-394) |
| 5 | static members: the group instance id (KIP-345) |
| 6 | flexible |
| 7 | the answer names the protocol type; the protocol name may be null (KIP-559) |
| 8 | the member says why it joins (KIP-800) |
| 9 | the leader may be asked to keep the present assignment (KIP-814) |
"""

from dataclasses import field
from typing import Final

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32

NULL_PROTOCOL_SINCE: Final = 7  # In responses "no protocol" is null from here on, and "" before.


@struct
class JoinGroupRequestProtocol:
    """One protocol (for consumers: one assignor), in the member's order of preference."""

    name: str
    metadata: bytes


@request(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """A member's wish to be in the coming generation."""

    group_id: str
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)  # -1: use the session timeout.

    member_id: str  # "" on a first join: the coordinator makes one up.
    group_instance_id: str | None = since(5, default=None)

    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]

    reason: str | None = since(8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    """One member as the leader sees it: its metadata for the chosen protocol only."""

    member_id: str
    group_instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation, or why the member is not in it (generation -1 then)."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16 = 0

    generation_id: Int32 = -1
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = since(0, default="", nullable=f"{NULL_PROTOCOL_SINCE}+")
    leader: str = ""
    skip_assignment: bool = since(9, default=False)

    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)  # Empty for followers.
