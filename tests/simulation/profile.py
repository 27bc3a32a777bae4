"""What a client of the simulation is started with, and the versions that clients of its time speak."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from protocol.consumer import PROTOCOL_TYPE

COOPERATIVE: Final = "cooperative-sticky"
CONNECT: Final = "connect"
CONNECT_PROTOCOL: Final = "sessioned"
CONNECT_METADATA: Final = b'{"url": "http://10.0.0.1:8083"}'
"""Which the coordinator may not understand: what begins it is no version of a subscription."""
CONNECT_TOPIC: Final = "tasks"
CONNECT_TASKS: Final = 3
CONSUMER_GROUPS: Final = ("g0", "g1")
CONNECT_GROUP: Final = "k0"
GROUPS: Final = (*CONSUMER_GROUPS, CONNECT_GROUP)
SUBSCRIPTIONS: Final = (("orders",), ("clicks",), ("orders", "clicks"))
SESSION_TIMEOUTS_MS: Final = (6_000, 10_000, 30_000)
REBALANCE_TIMEOUTS_MS: Final = (5_000, 10_000, 60_000)


@dataclass(frozen=True, slots=True)
class Era:
    """The versions that clients of one time speak."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


ANCIENT: Final = Era(0, 0, 0, 0, 2, 1)
OLD: Final = Era(3, 2, 2, 2, 6, 5)
MIDDLE: Final = Era(5, 3, 3, 3, 7, 7)
MODERN: Final = Era(9, 5, 4, 5, 9, 7)
NEWEST: Final = Era(9, 5, 4, 5, 10, 10)
ERAS: Final = (ANCIENT, OLD, MIDDLE, MODERN, NEWEST)
INSTANCE_IDS_SINCE: Final = 5  # JoinGroup.
STABLE_OFFSETS_SINCE: Final = 7  # OffsetFetch,
FETCH_GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10  # and OffsetCommit.


@dataclass(frozen=True, slots=True)
class Profile:
    """What a consumer is started with."""

    client_id: str
    group_id: str
    instance_id: str | None
    era: Era
    assignors: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    patience_ms: (
        int  # How long it waits in JoinGroup and SyncGroup: longer than any member of its group may take.
    )
    protocol_type: str = PROTOCOL_TYPE

    @property
    def is_cooperative(self) -> bool:
        """It keeps what it has while it joins."""
        return self.assignors == (COOPERATIVE,)

    @property
    def heartbeat_ms(self) -> int:
        """How often it beats. A cooperative group rebalances twice: all have to hear of the second in time."""
        return min(self.session_timeout_ms // 3, 1_500 if self.is_cooperative else self.session_timeout_ms)

    @property
    def is_worker(self) -> bool:
        """Not a consumer: its group is of another type, and its bytes are its own."""
        return self.protocol_type == CONNECT


def drawn(random: Random, number: int, group_id: str, is_cooperative: bool, is_worker: bool) -> Profile:
    """A client of this group; all of a group are of one kind."""
    era = random.choice(ERAS)
    is_static = era.join >= INSTANCE_IDS_SINCE and not is_worker and random.random() < 0.4
    eager = random.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range")))
    special = (COOPERATIVE,) if is_cooperative else (CONNECT_PROTOCOL,)
    return Profile(
        client_id=f"c{number}",
        group_id=group_id,
        instance_id=f"i{number}" if is_static else None,
        era=era,
        assignors=special if is_cooperative or is_worker else eager,
        session_timeout_ms=random.choice(SESSION_TIMEOUTS_MS),
        rebalance_timeout_ms=random.choice(REBALANCE_TIMEOUTS_MS),
        patience_ms=max(*SESSION_TIMEOUTS_MS, *REBALANCE_TIMEOUTS_MS) + 5_000,
        protocol_type=CONNECT if is_worker else PROTOCOL_TYPE,
    )
