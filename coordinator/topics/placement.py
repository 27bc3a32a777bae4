"""Which nodes there are, and which of them leads each partition: the table that every answer about leaders reads.

FindCoordinator, Metadata, DescribeCluster and DescribeTopicPartitions name nodes by it, and the shards of
`__consumer_offsets` and `__transaction_state` are opened and closed as it changes. A partition that was never
placed is the controller's, so the table covers any number of them; a daemon by itself leads all.
How nodes agree on the table is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

NO_LEADER: Final = -1
"""The node id that stands for none, in the table as in Kafka's messages."""

OnMoved = Callable[[str, int], None]
"""Called with a partition, by topic and index, that was placed."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster, as clients see it."""

    node_id: int
    endpoint_for: Callable[[str], tuple[str, int]]
    """Returns the host and port that the named listener advertises."""
    rack: str | None = None
    listeners: frozenset[str] | None = None
    """The listeners that it has, by name; None: all that there are."""

    def is_on(self, listener: str) -> bool:
        """Whether clients of this listener can be sent to it."""
        return self.listeners is None or listener in self.listeners


class Placement:
    """The nodes and the leaders, as one node knows them. All methods run on the event-loop thread."""

    def __init__(self, own: Node, others: Sequence[Node] = (), controller_id: int | None = None) -> None:
        """`own` is this node, and the controller unless another is named."""
        self.own = own
        self.controller_id = own.node_id if controller_id is None else controller_id
        self.on_moved: list[OnMoved] = []
        self._nodes = {node.node_id: node for node in (own, *others)}
        self._homes: dict[
            tuple[str, int], int
        ] = {}  # The partitions that were placed, NO_LEADER among the ids.

    # Questions.

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are up, in the order of their ids."""
        return [self._nodes[node_id] for node_id in sorted(self._nodes)]

    def node(self, node_id: int) -> Node | None:
        """The node with this id, None if there is none that is up."""
        return self._nodes.get(node_id)

    def home_of(self, topic: str, partition: int) -> int:
        """Return the id of the node that has the partition, be it up or not; NO_LEADER if none has."""
        return self._homes.get((topic, partition), self.controller_id)

    def leader_of(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads the partition; NO_LEADER if that is down, or none has it."""
        home = self.home_of(topic, partition)
        return home if home in self._nodes else NO_LEADER

    def leads(self, topic: str, partition: int) -> bool:
        """Whether this node leads the partition."""
        return self.home_of(topic, partition) == self.own.node_id

    # Changes.

    def place(self, topic: str, partition: int, node_id: int) -> None:
        """Have the partition led by a node, or by none (NO_LEADER), and tell the listeners."""
        self._homes[topic, partition] = node_id
        for listener in self.on_moved:
            listener(topic, partition)

    def node_up(self, node: Node) -> None:
        """Know `node`, which has come up or has other endpoints now."""
        self._nodes[node.node_id] = node

    def node_down(self, node_id: int) -> None:
        """Forget another node, which has gone: what it has is without a leader until it is placed elsewhere."""
        assert node_id != self.own.node_id, "a node that asks is up"
        self._nodes.pop(node_id, None)
