"""Heartbeat (key 12): a member reports that it lives; the answer says whether it has to rejoin.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | static members: the group instance id (KIP-345) |
| 4 | flexible |
"""

from protocol.codec.codec import request, response, since
from protocol.codec.primitives import Int16, Int32


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """A sign of life, valid for one member in one generation."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None = since(3, default=None)


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS is the coordinator's only way to call members back to a join."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
