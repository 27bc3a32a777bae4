"""What a node shows of itself and the others, by plain calls; the time is an argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from coordinator.backing.claims import Claim, ClaimKind, Endpoint, Writer
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.nodes import NodeIdentity, NodeTable
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.backing.states import ACTIVE, CLAIMING, FOLLOWING, RELEASING, WAITING, OwnershipState
from coordinator.daemon.node_status import NAMED_MAX, NodeStatus
from coordinator.metrics.families import NODES
from tests.metrics.world import samples, value

ONE, TWO = 1_000_001, 1_000_002
LEASE_MS = 3_000
PLACE = Endpoint("PLAINTEXT", "one", 9092)


@dataclass
class Driver:
    """What is read of a ShardDriver."""

    partition: int
    ownership: Ownership = field(default_factory=lambda: Ownership(ONE, OwnershipTiming(lease_ms=LEASE_MS)))
    foreign_batches: int = 0
    position: int = 0

    owner, owner_id = ShardDriver.owner, ShardDriver.owner_id

    def claim(self, node_id: int, kind: ClaimKind = ClaimKind.CLAIMED) -> None:
        self.ownership.book.take(self.partition + 10, Writer(node_id, 1), Claim(kind, node_id, LEASE_MS))


class World:
    """Node ONE of two, with four shards, of which it has the first two."""

    def __init__(self) -> None:
        self.now_ms = 100_000
        self.drivers = {partition: Driver(partition) for partition in range(4)}
        drivers = cast(Any, self.drivers)
        self.status = NodeStatus(ONE, lambda: drivers, lambda: self.now_ms)
        for partition, driver in self.drivers.items():
            driver.claim(ONE if partition < 2 else TWO)

    def move(self, partition: int, state: OwnershipState) -> None:
        self.drivers[partition].ownership.state = state
        self.status.on_state(partition)

    def prove(self, partition: int, sent_ms: int) -> None:
        self.drivers[partition].ownership.lease.prove(sent_ms)

    def serve(self) -> None:
        """All is well: the table names both, the first two shards are served."""
        nodes = NodeIdentity(ONE, "a", 5, (PLACE,)), NodeIdentity(TWO, "b", 6, rack="west")
        self.status.table = NodeTable(nodes, (ONE, ONE, TWO, TWO), 42)
        for partition in (0, 1):
            self.move(partition, ACTIVE)
            self.prove(partition, self.now_ms - 1_000)

    def figures(self) -> dict[Any, float]:
        return samples("".join(self.status.lines()))


@pytest.fixture
def world() -> World:
    made = World()
    made.serve()
    return made


def test_the_page_says_whose_each_shard_is_and_how_far_this_node_is(world: World) -> None:
    world.drivers[1].position = 77
    world.drivers[3].claim(TWO, ClaimKind.RELEASED)
    page = world.status.page()
    assert (page["node"], page["table"]) == (ONE, 42)
    assert list(page["nodes"]) == [
        {"node": ONE, "is_this_one": True, "rack": None, "started_ms": 5, "endpoints": [PLACE._asdict()]},
        {"node": TWO, "is_this_one": False, "rack": "west", "started_ms": 6, "endpoints": []},
    ]
    shards = list(page["shards"])
    assert shards[1] == {
        "shard": 1,
        "owner": ONE,
        "advised": ONE,
        "state": "active",
        "lease_ms": 2_000,
        "position": 77,
        "foreign_batches": 0,
    }
    assert [each["owner"] for each in shards] == [ONE, ONE, TWO, TWO]
    assert [each["state"] for each in shards] == ["active", "active", "following", "following"]
    assert [each["lease_ms"] for each in shards] == [2_000, 2_000, None, None]


def test_a_shard_that_was_released_is_nobodys(world: World) -> None:
    latest = world.drivers[2].ownership.book.latest
    assert latest is not None
    released = Claim(ClaimKind.RELEASED, TWO, LEASE_MS, was_active=True)
    world.drivers[2].ownership.book.take(latest.offset + 1, latest.writer, released)
    assert [each["owner"] for each in world.status.page()["shards"]] == [ONE, ONE, None, TWO]
    assert value(world.figures(), "muster_node_claims", node="none") == 1
    assert world.status.place_of(2) == "is no node's at present"
    assert world.status.place_of(3) == f"is at node {TWO}"


def test_the_figures_count_nodes_claims_and_the_states_of_shards(world: World) -> None:
    world.move(3, WAITING)
    world.drivers[3].foreign_batches = 2
    found = world.figures()
    assert value(found, "muster_nodes") == 2
    assert value(found, "muster_node_foreign_batches_total") == 2
    claims = {node: value(found, "muster_node_claims", node=node) for node in (str(ONE), str(TWO), "none")}
    assert claims == {str(ONE): 2, str(TWO): 2, "none": None}
    states = {each: value(found, "muster_node_shards", state=each.name.lower()) for each in OwnershipState}
    assert states == dict.fromkeys(OwnershipState, 0) | {ACTIVE: 2, FOLLOWING: 1, WAITING: 1}


def test_the_least_lease_counts_and_below_zero_it_is_over(world: World) -> None:
    world.prove(0, world.now_ms)
    assert value(world.figures(), "muster_node_lease_seconds") == 2.0
    world.now_ms += 2_500
    assert value(world.figures(), "muster_node_lease_seconds") == -0.5
    for partition in (0, 1):
        world.move(partition, FOLLOWING)
    assert value(world.figures(), "muster_node_lease_seconds") is None


def test_what_happens_to_shards_is_counted_once_and_by_what_it_was(world: World) -> None:
    def changes() -> list[float | None]:
        found = world.figures()
        return [
            value(found, "muster_node_ownership_changes_total", change=each)
            for each in ("taken", "released", "lost")
        ]

    assert changes() == [2, 0, 0]
    world.status.on_state(0)
    world.move(2, WAITING)
    world.move(2, FOLLOWING)
    assert changes() == [2, 0, 0], "only what was owned is lost"
    world.move(0, RELEASING)
    world.move(0, FOLLOWING)
    world.move(1, FOLLOWING)
    assert changes() == [2, 1, 1]


def test_a_node_is_ready_once_it_serves_what_the_table_gives_it(world: World) -> None:
    assert list(world.status.not_ready()) == []
    world.move(1, CLAIMING)
    assert list(world.status.not_ready()) == ["shard 1 is this node's, which is claiming"]
    world.now_ms += 2_000
    assert list(world.status.not_ready()) == [
        "shard 0 is this node's, and Kafka has not shown it for longer than the lease",
        "shard 1 is this node's, which is claiming",
    ]
    world.move(1, WAITING)
    assert len(list(world.status.not_ready())) == 1, "its runner says that it is loading"
    assert list(World().status.not_ready()) == ["this node is not among the others yet"]


def test_no_more_reasons_are_given_than_anybody_reads(world: World) -> None:
    world.drivers.update({partition: Driver(partition) for partition in range(4, 400)})
    assert world.status.table is not None
    world.status.table = NodeTable(world.status.table.nodes, (ONE,) * 400, 43)
    assert len(list(world.status.not_ready())) == NAMED_MAX


def test_before_anything_is_known_the_page_is_empty() -> None:
    status = NodeStatus(ONE, dict, lambda: 0)
    page = status.page()
    assert (page["table"], list(page["nodes"]), list(page["shards"])) == (None, [], [])
    found = samples("".join(status.lines()))
    assert value(found, "muster_nodes") == 0
    assert {name for name, _ in found} == NODES.keys() - {"muster_node_claims", "muster_node_lease_seconds"}
