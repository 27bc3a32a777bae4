"""What a cluster costs on paper: n nodes, s shards, g groups, b brokers, w batches a second that others write.

Each formula names its constants where the code has them; `python -m bench.cluster_growth` prints what comes out of
it beside what was measured.
"""

from __future__ import annotations

from math import exp
from typing import Final

from bench.cluster_growth.one_node import BROKERS, Size
from bench.cluster_growth.played_kafka import ROUND_TRIP_S
from coordinator.backing.kafka.node_group import HEARTBEAT_MS, SESSION_TIMEOUT_MS
from coordinator.backing.kafka.tail import LONGEST_WAIT_MS, NEWS_EVERY_S
from coordinator.backing.ownership import OwnershipTiming, with_drift

TIMING: Final = OwnershipTiming()


def fetches(size: Size, batches: float = 0, cpu_s: float = 0) -> float:
    """Fetches of one node a second: one at a time for each broker, which lasts LONGEST_WAIT_MS or until news.

    News are the batches of all, and every `keep_alive_ms` the claim of each shard. They begin NEWS_EVERY_S apart,
    or a round trip and the time that the node needs for one, if that is more.
    """
    news = (batches + size.shards / (TIMING.keep_alive_ms / 1000)) / BROKERS
    waits_s = LONGEST_WAIT_MS / 1000
    of_broker = news / (1 - exp(-news * waits_s)) if news else 1 / waits_s
    return BROKERS * min(of_broker, 1 / max(NEWS_EVERY_S, ROUND_TRIP_S + cpu_s))


def keep_alives(size: Size) -> float:
    """Batches a second by which the owners of all shards say that they are there, if nobody writes."""
    return size.shards / (TIMING.keep_alive_ms / 1000)


def heartbeats(size: Size) -> float:
    """Heartbeats a second of all nodes, at the one broker that has their group."""
    return size.nodes / (HEARTBEAT_MS / 1000)


def partitions_looked_at(size: Size) -> float:
    """Partitions that all brokers look into a second for quiet nodes: a Fetch of a session is for all of it."""
    return size.nodes * fetches(size) * size.shards / BROKERS


def taken(size: Size) -> float:
    """Shards that each of the others is given when a node dies."""
    return size.shards / size.nodes / (size.nodes - 1)


def takeover_s() -> float:
    """From the new table until the shards of a dead node are served, without CPU: patience, then its lease."""
    return (TIMING.patience_ms + with_drift(TIMING.lease_ms)) / 1000


def failover_s() -> float:
    """The same from its death on: its session has to end first."""
    return SESSION_TIMEOUT_MS / 1000 + takeover_s()
