"""DescribeGroups (key 15): classic groups in full, with what each member offered and was given.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | authorised operations (KIP-430) |
| 4 | the members' group instance ids (KIP-345) |
| 5 | flexible |
| 6 | an absent group is GROUP_ID_NOT_FOUND with a message; before, state Dead and no error (KIP-1043) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """The ids of the groups asked for."""

    groups: list[str]
    include_authorized_operations: bool = since(3, default=False)


@struct
class DescribedGroupMember:
    """One member. Its metadata and assignment are empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None = since(4, default=None, ignorable=True)

    client_id: str
    client_host: str  # With a leading slash, as in "/127.0.0.1".

    member_metadata: bytes = b""
    member_assignment: bytes = b""


@struct
class DescribedGroup:
    """One group; `protocol_data` is the chosen protocol's name, "" unless the group is Stable."""

    error_code: Int16 = 0
    error_message: str | None = since(6, default=None)

    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)

    authorized_operations: Int32 = since(3, default=OPERATIONS_NOT_ASKED_FOR)


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """One entry per group of the request."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: list[DescribedGroup] = field(default_factory=list)
