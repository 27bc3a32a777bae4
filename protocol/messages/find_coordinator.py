"""FindCoordinator (key 10): which broker looks after this group, or this transactional id.

Up to version 3 a request carries one key and the answer is flat; from version 4 on it carries a
list of keys and the answer one entry per key (KIP-699).

| version | what is new |
|---|---|
| 1 | the key type (before: groups only, KIP-98); throttle time and a message in the answer |
| 2 | an over-quota answer is sent first and the connection muted after (KIP-219) |
| 3 | flexible |
| 4 | several keys of one type at once |
| 5 | clients understand TRANSACTION_ABORTABLE (KIP-890) |
| 6 | key type 2: share groups, the key being `group:topic id:partition` (KIP-932) |
"""

from enum import IntEnum

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32


class CoordinatorType(IntEnum):
    """What a key names. A request may carry other numbers: those get INVALID_REQUEST."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """The keys asked for: `key` up to version 3, `coordinator_keys` after."""

    key: str = since(0, until=3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[str] = since(4, default_factory=list)


@struct
class Coordinator:
    """The answer for one key; node -1, host "" and port -1 go with an error."""

    key: str
    node_id: Int32
    host: str
    port: Int32
    error_code: Int16 = 0
    error_message: str | None = ""


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """One coordinator in the flat fields up to version 3, one per key in `coordinators` after."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)

    error_code: Int16 = since(0, until=3, default=0)
    error_message: str | None = since(1, until=3, default="", ignorable=True)
    node_id: Int32 = since(0, until=3, default=0)
    host: str = since(0, until=3, default="")
    port: Int32 = since(0, until=3, default=0)

    coordinators: list[Coordinator] = since(4, default_factory=list)
