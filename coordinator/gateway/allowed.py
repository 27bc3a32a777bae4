"""Which APIs pass the gateway, in which versions, and what becomes of the requests of each.

What is not named here is not offered and not passed on: an API that we do not know may carry addresses, by which
clients would go around the gateway and find another coordinator for their groups.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from protocol.messages.versions import SUPPORTED


class Way(Enum):
    """What is done with a request on the port of a broker."""

    PASSED_ON = auto()
    """Its bytes go to the broker, and the answer's to the client; neither is looked at."""
    READ = auto()
    """It is decoded: it is answered here, or its answer is rewritten."""


PRODUCE, FETCH, METADATA, FIND_COORDINATOR, LIST_GROUPS, API_VERSIONS = 0, 1, 3, 10, 16, 18
ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, DESCRIBE_CLUSTER = 25, 28, 60
DESCRIBE_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_QUORUM, LIST_TRANSACTIONS = 35, 44, 55, 66

OF_GROUPS: Final = frozenset({8, 9, 11, 12, 13, 14, 15, 42, 47, 68, 69, TXN_OFFSET_COMMIT})
"""The APIs whose requests name groups, and go to the coordinator of these."""

_HIDDEN: Final = frozenset({17, 36, 80, 81})
"""Of those whose messages we know: logins, which no listener of a gateway has, and changes of raft voters."""

_CAPPED: Final = {PRODUCE: 9, FETCH: 15, 24: 3, ADD_OFFSETS_TO_TXN: 3, 26: 4, TXN_OFFSET_COMMIT: 4}
"""The answers of later versions of Produce and Fetch name the endpoints of new leaders (KIP-951); those of the
transactional APIs are of a protocol whose commits say nothing before they come (KIP-890, part 2)."""

ALLOWED: Final = {
    key: (lowest, min(highest, _CAPPED.get(key, highest)))
    for key, (lowest, highest) in SUPPORTED.items()
    if key not in _HIDDEN
}
"""(lowest, highest) version by API key."""

HIDDEN_FEATURES: Final = frozenset({"transaction.version"})
"""Without it clients announce that a transaction has offsets (AddOffsetsToTxn), and can be refused."""

_READ: Final = OF_GROUPS | {
    METADATA,
    FIND_COORDINATOR,
    API_VERSIONS,
    ADD_OFFSETS_TO_TXN,
    DESCRIBE_QUORUM,
    DESCRIBE_CLUSTER,
}


def passing(api_key: int, served: tuple[int, int]) -> tuple[int, int] | None:
    """(lowest, highest) version of an API that passes, of those that are served; None if none does."""
    allowed = ALLOWED.get(api_key, (0, -1))
    lowest, highest = max(allowed[0], served[0]), min(allowed[1], served[1])
    return (lowest, highest) if lowest <= highest else None


def way_of(api_key: int) -> Way:
    """What is done with the requests of an API that is allowed."""
    return Way.READ if api_key in _READ else Way.PASSED_ON


def is_allowed(api_key: int, version: int) -> bool:
    """Whether a request may pass. One of ApiVersions may in any version: brokers answer it."""
    if api_key == API_VERSIONS:
        return True
    lowest, highest = ALLOWED.get(api_key, (0, -1))
    return lowest <= version <= highest
