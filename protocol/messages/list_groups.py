"""ListGroups (key 16): the groups that the asked broker looks after.

| version | what is new |
|---|---|
| 1 | throttle time in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | flexible |
| 4 | groups in certain states only; each group's state (KIP-518) |
| 5 | groups of certain types only; each group's type (KIP-848) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int16, Int32


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Which groups to list; an empty filter lets all through. Names compare without case."""

    states_filter: list[str] = since(4, default_factory=list)
    types_filter: list[str] = since(5, default_factory=list)


@struct
class ListedGroup:
    """One group; the protocol type is "" for one that only holds offsets."""

    group_id: str
    protocol_type: str
    group_state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups found; beside an error they may be only some of them."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
