"""DeleteGroups (key 42): remove groups that have no members, and their offsets with them.

| version | what is new |
|---|---|
| 1 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 2 | flexible |
"""

from dataclasses import field

from protocol.codec.codec import request, response, struct
from protocol.codec.primitives import Int16, Int32


@request(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """The ids of the groups to remove."""

    groups_names: list[str]  # Spelt so in Kafka's schema.


@struct
class DeletableGroupResult:
    """The result for one group."""

    group_id: str
    error_code: Int16 = 0


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """One entry per group of the request."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
