"""What the tests of a gateway have in common: a cluster of two brokers behind it, and two nodes."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.gateway.addresses import Addresses, Place
from coordinator.gateway.front import Front
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import Node, Placement

LISTENER = "HOST"
NODE, OTHER_NODE = 1_000_001, 1_000_002
BROKER, NEW_BROKER = 1, 2
SECRET = "hidden-broker"
"""The name under which no client may find a broker."""
SECRET_PORT = 29_092
GATEWAY_HOST = "gateway"


class KnownPorts:
    """A port for the one broker; the new one has none yet."""

    def __init__(self) -> None:
        self.learned: list[Place] = []

    def place_of(self, broker_id: int) -> tuple[str, int] | None:
        return (GATEWAY_HOST, 9_000 + broker_id) if broker_id == BROKER else None

    def learn(self, brokers: Iterable[Place]) -> None:
        self.learned += brokers


def node(node_id: int, *listeners: str) -> Node:
    has = frozenset(listeners) if listeners else None
    return Node(node_id, lambda listener: (f"{listener}-{node_id}", 8_000), "a", has)


def placement() -> Placement:
    """Two nodes, and a third that clients of this listener cannot reach; the groups are the other one's."""
    placed = Placement(node(NODE), [node(OTHER_NODE), node(1_000_003, "ELSE")], controller_id=-1)
    placed.place(GROUP_METADATA_TOPIC, 0, OTHER_NODE)
    return placed


def addresses(ports: KnownPorts | None = None) -> Addresses:
    return Addresses(ports or KnownPorts(), placement(), LISTENER)


def front() -> Front:
    """Ours are all groups but those whose name begins with "their"."""
    find = FindCoordinator(placement(), {GROUP_METADATA_TOPIC: 1})
    return Front(find, lambda group_id: not group_id.startswith("their"), addresses(), LISTENER)
