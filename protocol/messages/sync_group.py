"""SyncGroup (key 14): the leader hands in the assignment, and every member collects its own.

Followers send an empty list and are parked until the leader's assignment is stored. The
assignment is opaque here: `protocol.consumer` reads what consumers put into it.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | static members: the group instance id (KIP-345) |
| 4 | flexible |
| 5 | protocol type and name both ways, so that either side sees a mix-up (KIP-559) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32


@struct
class SyncGroupRequestAssignment:
    """What the leader gives to one member."""

    member_id: str
    assignment: bytes


@request(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """A member of a generation asks for its assignment; the leader brings everyone's."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)

    # Optional to the schema, mandatory to the coordinator: without both a version 5 request is refused.
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)

    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """One member's assignment; empty bytes if the leader left it out, or on an error."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0

    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes = b""
