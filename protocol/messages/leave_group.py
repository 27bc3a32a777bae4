"""LeaveGroup (key 13): members leave of their own will, or an admin removes them.

Up to version 2 a request names one member; from version 3 on it names several, and each gets an
error of its own beside the one for the whole request.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | a list of members, static ones by their instance id alone (KIP-345) |
| 4 | flexible |
| 5 | a reason for each member (KIP-800) |
"""

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32


@struct
class MemberIdentity:
    """One member that leaves; with an instance id the member id may be ""."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = since(5, default=None, ignorable=True)


@request(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """The members that leave: `member_id` up to version 2, `members` after."""

    group_id: str
    member_id: str = since(0, until=2, default="")
    members: list[MemberIdentity] = since(3, default_factory=list)


@struct
class MemberResponse:
    """The result for one member, named as the request named it."""

    member_id: str
    group_instance_id: str | None = None
    error_code: Int16 = 0


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """One error for the request, and from version 3 on one per member."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3, default_factory=list)
