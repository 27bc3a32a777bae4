"""Who has which shard, as clients are told: what the logs' claims say, of the nodes that are there.

The claim decides: what the table of the nodes says is advice. A shard without a claim, or whose owner is not in
the newest table, has no coordinator: clients ask again.
"""

from __future__ import annotations

from coordinator.backing.claims import Claim
from coordinator.backing.nodes import NodeIdentity, NodeTable
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement


class Routing:
    """Keeps a placement of the shards of groups. All methods run on the event-loop thread."""

    def __init__(self, placement: Placement, partition_count: int) -> None:
        self.placement = placement
        for partition in range(partition_count):
            placement.place(GROUP_METADATA_TOPIC, partition, NO_LEADER)

    def follow_claim(self, partition: int, owner: Claim | None) -> None:
        """The log says that this shard has another owner, or none."""
        self.placement.place(GROUP_METADATA_TOPIC, partition, NO_LEADER if owner is None else owner.node_id)

    def follow_table(self, table: NodeTable) -> None:
        """These nodes are there."""
        own_id = self.placement.own.node_id
        gone = {node.node_id for node in self.placement.nodes} - {own_id}
        for node in table.nodes:
            if node.node_id != own_id:
                gone.discard(node.node_id)
                self.placement.node_up(_node_of(node))
        for node_id in gone:
            self.placement.node_down(node_id)


def _node_of(node: NodeIdentity) -> Node:
    places = {each.listener: (each.host, each.port) for each in node.endpoints}
    return Node(node.node_id, places.__getitem__, node.rack, frozenset(places))
