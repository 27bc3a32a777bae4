"""Which node is advised to own which shard: a table that one node makes for all, from who is there.

It is advice: claims decide (`ownership`). A table keeps what nodes own as far as it can, and gives all the same
number of shards, or one more. A node id is one node's: where two say that they have it, the one counts that the
newer table has named, and of two that none has named the one that started first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.backing.claims import Endpoint

UNPLACED: Final = -1
"""In a table: the shard is no node's, since there is none."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node as it shows itself to the others."""

    node_id: int
    incarnation: str
    """Of this process: another one with the same id is another node."""
    started_ms: int
    """By the wall clock."""
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    table_number: int = 0
    """Of the newest table that has named it; 0: none has."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """The nodes, by their ids, and for each shard the id of the node that is advised to own it."""

    nodes: tuple[NodeIdentity, ...]
    owners: tuple[int, ...]
    number: int = 1
    """Higher than that of any table that one of the nodes had seen. It is the time, or the next number if that is
    higher: so it is above that of a table which none of them has seen, too."""

    def names(self, node: NodeIdentity) -> bool:
        """Whether this very process is in it."""
        return any(each.incarnation == node.incarnation for each in self.nodes)

    def holder_of(self, node_id: int) -> NodeIdentity | None:
        """The node that has this id."""
        return next((each for each in self.nodes if each.node_id == node_id), None)


def table_of(
    shown: Iterable[NodeIdentity], owners: Mapping[int, int], partition_count: int, wall_ms: int
) -> NodeTable:
    """The table for these nodes; `owners` are the ids of those that own shards now, by partition."""
    shown = list(shown)
    nodes = _one_for_each_id(shown)
    ids = [node.node_id for node in nodes]
    number = max(wall_ms, *(1 + node.table_number for node in shown), 1)
    return NodeTable(tuple(nodes), tuple(_spread(ids, owners, partition_count)), number)


def heirs_of(table: NodeTable, node_id: int) -> tuple[int, ...]:
    """Who is to own each shard once this node has left, as a table of the others would have it."""
    owners = {partition: owner for partition, owner in enumerate(table.owners) if owner != node_id}
    ids = [node.node_id for node in table.nodes if node.node_id != node_id]
    return tuple(_spread(ids, owners, len(table.owners)))


def _one_for_each_id(shown: Iterable[NodeIdentity]) -> list[NodeIdentity]:
    by_id: dict[int, NodeIdentity] = {}
    for node in sorted(shown, key=lambda each: (-each.table_number, each.started_ms, each.incarnation)):
        by_id.setdefault(node.node_id, node)
    return [by_id[node_id] for node_id in sorted(by_id)]


def _spread(ids: Sequence[int], owners: Mapping[int, int], partition_count: int) -> list[int]:
    if not ids:
        return [UNPLACED] * partition_count
    room = _room(ids, owners, partition_count)
    table = [UNPLACED] * partition_count
    for partition in range(partition_count):
        owner = owners.get(partition, UNPLACED)
        if room.get(owner, 0) > 0:
            table[partition] = owner
            room[owner] -= 1
    for partition in range(partition_count):
        if table[partition] == UNPLACED:
            emptiest = max(ids, key=lambda node_id: (room[node_id], -node_id))
            table[partition] = emptiest
            room[emptiest] -= 1
    return table


def _room(ids: Sequence[int], owners: Mapping[int, int], partition_count: int) -> dict[int, int]:
    """How many shards each node is to have. Those that own the most have the one more, if not all can."""
    share, more = divmod(partition_count, len(ids))
    owned = Counter(owners.values())
    by_owned = sorted(ids, key=lambda node_id: (-owned[node_id], node_id))
    return {node_id: share + (position < more) for position, node_id in enumerate(by_owned)}
