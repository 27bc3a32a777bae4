"""What a node knows of itself and the others, for those who run it: whose each shard is, and how leases are.

It is read when it is asked for; nothing here decides anything. What is shown of other nodes is what the newest
table and the claims in the logs say, and may be older than what they are doing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.nodes import NodeIdentity, NodeTable
from coordinator.backing.states import ACTIVE, CATCHING_UP, RELEASING, WAITING, OwnershipState
from coordinator.metrics.families import NODES
from coordinator.metrics.text import sample
from coordinator.topics.topic import Topic

CHANGES: Final = ("taken", "released", "lost")
NO_NODE: Final = "none"
LOADED_THEN: Final = frozenset({CATCHING_UP, WAITING})
"""Of these the shard's runner says itself that it is loading."""
NAMED_MAX: Final = 100
"""The most shards that are named as not served: the others are as they are."""


class NodeStatus:
    """`drivers` are those of all shards, once there are any."""

    def __init__(
        self, node_id: int, drivers: Callable[[], Mapping[int, ShardDriver]], now_ms: Callable[[], int]
    ) -> None:
        """`now_ms` is the clock of leases."""
        self._node_id, self._drivers, self._now_ms = node_id, drivers, now_ms
        self.table: NodeTable | None = None
        """The newest that this node was sent."""
        self._states: dict[int, OwnershipState] = {}
        self._changes = dict.fromkeys(CHANGES, 0)

    def on_state(self, partition: int) -> None:
        """Count what happened to a shard, if something has."""
        state, before = self._drivers()[partition].ownership.state, self._states.get(partition)
        self._states[partition] = state
        if state is before:
            return
        if state is ACTIVE:
            self._changes["taken"] += 1
        elif before is ACTIVE:
            self._changes["released" if state is RELEASING else "lost"] += 1

    # As figures.

    def lines(self) -> Iterator[str]:
        """Yield the head of each metric of nodes, and its lines."""
        states: Counter[OwnershipState] = Counter()
        claims: Counter[str] = Counter()
        ends_ms: list[int] = []
        foreign = 0
        for driver in self._drivers().values():
            ownership = driver.ownership
            states[ownership.state] += 1
            claims[NO_NODE if driver.owner_id is None else str(driver.owner_id)] += 1
            foreign += driver.foreign_batches
            if ownership.state is ACTIVE:
                ends_ms.append(ownership.lease.ends_at_ms)
        yield _one("muster_nodes", 0 if self.table is None else len(self.table.nodes))
        yield _labelled("muster_node_shards", {each.name.lower(): states[each] for each in OwnershipState})
        yield _labelled("muster_node_claims", dict(sorted(claims.items())))
        yield NODES["muster_node_lease_seconds"].head
        if ends_ms:
            yield sample("muster_node_lease_seconds", (), (min(ends_ms) - self._now_ms()) / 1000)
        yield _labelled("muster_node_ownership_changes_total", self._changes)
        yield _one("muster_node_foreign_batches_total", foreign)

    # As a page.

    def page(self) -> dict[str, Any]:
        """The nodes, and for each shard whose it is and how far this node is with it."""
        table = self.table
        return {
            "node": self._node_id,
            "table": None if table is None else table.number,
            "nodes": iter([] if table is None else [self._node(each) for each in table.nodes]),
            "shards": (self._shard(partition, driver) for partition, driver in self._drivers().items()),
        }

    def _node(self, node: NodeIdentity) -> dict[str, Any]:
        return {
            "node": node.node_id,
            "is_this_one": node.node_id == self._node_id,
            "rack": node.rack,
            "started_ms": node.started_ms,
            "endpoints": [each._asdict() for each in node.endpoints],
        }

    def _shard(self, partition: int, driver: ShardDriver) -> dict[str, Any]:
        ownership = driver.ownership
        is_active = ownership.state is ACTIVE
        return {
            "shard": partition,
            "owner": driver.owner_id,
            "advised": None if self.table is None else self.table.owners[partition],
            "state": ownership.state.name.lower(),
            "lease_ms": ownership.lease.ends_at_ms - self._now_ms() if is_active else None,
            "position": driver.position,
            "foreign_batches": driver.foreign_batches,
        }

    # In words.

    def not_ready(self) -> Iterator[str]:
        """What this node is to serve and does not yet."""
        if self.table is None:
            yield "this node is not among the others yet"
            return
        now_ms, owners = self._now_ms(), self.table.owners
        own = ((each, driver) for each, driver in self._drivers().items() if owners[each] == self._node_id)
        waiting = (
            f"shard {partition} is this node's, which is {driver.ownership.state.name.lower()}"
            if driver.ownership.state is not ACTIVE
            else f"shard {partition} is this node's, and Kafka has not shown it for longer than the lease"
            for partition, driver in own
            if not driver.ownership.may_answer(now_ms) and driver.ownership.state not in LOADED_THEN
        )
        yield from islice(waiting, NAMED_MAX)

    def place_of(self, partition: int) -> str:
        """Where a shard is that is not here."""
        owner = self._drivers()[partition].owner_id
        return "is no node's at present" if owner is None else f"is at node {owner}"


class NoTopics:
    """The topics whose logs are here: none, so lag is not known."""

    version: Final = 0

    def get(self, name: str) -> Topic | None:
        del name
        return None

    def all(self) -> tuple[Topic, ...]:
        return ()


def _one(name: str, value: int) -> str:
    return f"{NODES[name].head}{sample(name, (), value)}"


def _labelled(name: str, values: Mapping[str, int]) -> str:
    (label,) = NODES[name].labels
    lines = [sample(name, ((label, each),), value) for each, value in values.items()]
    return "".join([NODES[name].head, *lines])
