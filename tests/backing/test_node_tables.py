"""Which node is advised to own which shard, and what nodes tell each other about it, without a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.backing import nodes
from coordinator.backing.claims import Claim, ClaimKind, Endpoint
from coordinator.backing.kafka import node_records
from coordinator.backing.kafka.node_group import Nodes
from coordinator.backing.kafka.node_records import (
    UnreadableNodeError,
    decode_node,
    decode_table,
    encode_node,
    encode_table,
)
from coordinator.backing.nodes import UNPLACED, NodeIdentity, NodeTable, heirs_of
from coordinator.daemon.routing import Routing
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement

PARTITIONS = 12
LISTENER = "PLAINTEXT"


def node(node_id: int, started_ms: int = 0, table_number: int = 0) -> NodeIdentity:
    endpoints = (Endpoint(LISTENER, f"host-{node_id}", 9_000 + node_id),)
    return NodeIdentity(node_id, f"{node_id}-{started_ms}", started_ms, endpoints, "a", table_number)


NODES = [node(1), node(2), node(3)]


def table_of(
    shown: Iterable[NodeIdentity], owners: dict[int, int], partition_count: int, wall_ms: int = 0
) -> NodeTable:
    return nodes.table_of(shown, owners, partition_count, wall_ms)


# The table.


def test_one_node_has_everything_and_none_nothing() -> None:
    assert table_of([node(7)], {}, 3).owners == (7, 7, 7)
    assert table_of([], {0: 7}, 3).owners == (UNPLACED,) * 3


def test_what_nodes_own_stays_and_only_the_surplus_moves() -> None:
    owners = dict.fromkeys(range(PARTITIONS), 1)
    table = table_of([node(1), node(2)], owners, PARTITIONS)
    assert Counter(table.owners) == {1: 6, 2: 6}
    again = table_of(NODES, dict(enumerate(table.owners)), PARTITIONS)
    assert Counter(again.owners) == {1: 4, 2: 4, 3: 4}
    moved = [new for new, old in zip(again.owners, table.owners, strict=True) if new != old]
    assert moved == [3, 3, 3, 3]


def test_a_node_that_is_gone_leaves_its_shards_to_all_others() -> None:
    owners = {partition: 1 + partition % 3 for partition in range(PARTITIONS)}
    table = table_of([node(2), node(3)], owners, PARTITIONS)
    assert Counter(table.owners) == {2: 6, 3: 6}
    assert all(table.owners[partition] == owner for partition, owner in owners.items() if owner != 1)


ids = st.lists(st.integers(1, 4), unique=True, min_size=1)
owned = st.lists(st.integers(0, 4), min_size=1, max_size=20)
"""The owner of each shard; 0: it has none."""


@given(ids, owned)
def test_a_table_is_even_and_moves_no_more_than_it_has_to(node_ids: list[int], had: list[int]) -> None:
    partition_count = len(had)
    owners = {partition: owner for partition, owner in enumerate(had) if owner}
    table = table_of(map(node, node_ids), owners, partition_count)
    counts = Counter(table.owners)
    given_counts = [counts[node_id] for node_id in node_ids]
    assert sum(given_counts) == partition_count
    assert max(given_counts) - min(given_counts) <= 1
    theirs = Counter(owner for owner in owners.values() if owner in node_ids)
    kept = sum(table.owners[partition] == owner for partition, owner in owners.items())
    assert kept == sum(min(theirs[node_id], counts[node_id]) for node_id in node_ids)
    assert table_of(map(node, node_ids), dict(enumerate(table.owners)), partition_count) == table


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (node(1, started_ms=5), "1-9"),
        (node(1, started_ms=5, table_number=6), "1-9"),
        (node(1, started_ms=10, table_number=7), "1-9"),
        (node(1, started_ms=10), "1-9"),
    ],
    ids=["new, by an earlier clock", "woken", "of the same table, later", "new"],
)
def test_of_two_with_one_id_the_one_counts_that_was_there(other: NodeIdentity, counts: str) -> None:
    there = node(1, started_ms=9, table_number=7)
    for shown in ([there, other], [other, there]):
        table = table_of([*shown, node(2)], {}, 4)
        assert [each.incarnation for each in table.nodes] == [counts, "2-0"]
        assert table.number == max(8, 1 + other.table_number)
        assert table.names(there)
        assert not table.names(other)
        assert table.holder_of(1) == there


def test_tables_are_numbered_by_the_time_and_never_backwards() -> None:
    """A process that was stopped has a lower number than the one in its place, though that has not seen it."""
    assert table_of([node(1)], {}, 1, wall_ms=1_000).number == 1_000
    assert table_of([node(1, table_number=2_000)], {}, 1, wall_ms=1_000).number == 2_001
    assert table_of([], {}, 1).number == 1


def test_of_two_that_were_not_there_the_one_counts_that_started_first() -> None:
    table = table_of([node(1, 9), node(1, 5)], {}, 2)
    assert [each.incarnation for each in table.nodes] == ["1-5"]
    assert table.owners == (1, 1)
    assert table.holder_of(3) is None


# Its bytes.


def test_nodes_and_tables_are_read_as_they_were_written() -> None:
    own = replace(node(1, 1_700_000_000_000), rack=None, table_number=9)
    assert decode_node(encode_node(own)) == own
    table = table_of(NODES, {}, PARTITIONS)
    assert decode_table(encode_table(table)) == table


def test_heirs_are_those_that_the_others_find_when_a_node_has_left() -> None:
    shown = many(4)
    table = table_of(shown, {}, 50)
    leaving = shown[1].node_id
    heirs = heirs_of(table, leaving)
    assert leaving not in heirs
    owned = dict(enumerate(table.owners))
    assert heirs == table_of([each for each in shown if each.node_id != leaving], owned, 50).owners
    assert heirs_of(table_of(shown[:1], {}, 3), shown[0].node_id) == (UNPLACED,) * 3


def many(count: int) -> list[NodeIdentity]:
    """Nodes as they look: each has an incarnation of its own."""
    random = Random(count)
    return [replace(node(1_000_000 + each), incarnation=random.randbytes(16).hex()) for each in range(count)]


@pytest.mark.parametrize(
    ("count", "shards", "version"), [(3, 50, 0), (10, 200, 0), (10, 1_000, 1), (100, 1_000, 1)]
)
def test_a_table_that_is_not_small_is_deflated(count: int, shards: int, version: int) -> None:
    """A small one is not: a node of an older version could not read it."""
    table = table_of(many(count), {}, shards)
    content = encode_table(table)
    assert content[:2] == bytes([0, version])
    assert decode_table(content) == table


def test_a_hundred_nodes_and_a_thousand_shards_fit_into_the_record_of_their_group() -> None:
    """Each node is sent the table, and the broker keeps them together, in one record of 1 MiB at most."""
    random = Random(7)
    shown = many(100)
    owners = {partition: random.choice(shown).node_id for partition in range(1_000)}
    content = encode_table(table_of(shown, owners, 1_000))
    assert 100 * (len(content) + len(encode_node(shown[0])) + 200) < 1_000_000


def test_a_deflated_table_that_is_cut_damaged_or_endless_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode_table(table_of(many(100), {}, 1_000))
    for bad in content[:-1], content[:2], content[:2] + b"no table":
        with pytest.raises(UnreadableNodeError):
            decode_table(bad)
    monkeypatch.setattr(node_records, "INFLATED_BYTES_MAX", 10_000)
    with pytest.raises(UnreadableNodeError):
        decode_table(content)


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"\x00\x01" + encode_node(node(1))[2:], encode_node(node(1))[:-1]]
)
def test_what_cannot_be_read_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableNodeError):
        decode_node(content)
    with pytest.raises(UnreadableNodeError):
        decode_table(content)


# Members of the group.


class Member:
    """A node in the group, and the tables that it was told."""

    def __init__(self, own: NodeIdentity, owners: dict[int, int] | None = None) -> None:
        self.tables: list[NodeTable] = []
        self.nodes = Nodes(own, PARTITIONS, lambda: owners or {}, self.tables.append, lambda: 1)


def test_the_leader_makes_one_table_for_all() -> None:
    owners = dict.fromkeys(range(PARTITIONS), 2)
    members = {str(each.node_id): Member(each, owners) for each in NODES}
    shown = {member_id: member.nodes.metadata(["logs"]) for member_id, member in members.items()}
    assert all(metadata.subscription == ["logs"] for metadata in shown.values())
    assigned = members["1"].nodes.assign(None, shown)
    assert assigned.keys() == members.keys()
    for member_id, member in members.items():
        assert assigned[member_id].assignment == []
        member.nodes.on_assignment(assigned[member_id])
    expected = table_of(NODES, owners, PARTITIONS)
    assert [member.tables for member in members.values()] == [[expected]] * 3
    # From now on each of them says so.
    shown = {member_id: member.nodes.metadata([]) for member_id, member in members.items()}
    assert {decode_node(each.user_data).table_number for each in shown.values()} == {1}
    members["2"].nodes.on_assignment(members["1"].nodes.assign(None, shown)["2"])
    assert [member.nodes.own.table_number for member in members.values()] == [1, 2, 1]


def test_a_node_that_cannot_be_read_is_left_out_and_keeps_nobody_from_a_table() -> None:
    leader = Member(node(1))
    shown = {name: leader.nodes.metadata([]) for name in ("1", "later", "none")}
    shown["later"].user_data = b"\x7f\xffsomething"
    shown["none"].user_data = cast(bytes, None)  # As the protocol may have it.
    assigned = leader.nodes.assign(None, shown)
    assert decode_table(assigned["later"].user_data) == table_of([node(1)], {}, PARTITIONS)


def test_a_table_that_cannot_be_read_changes_nothing() -> None:
    member = Member(node(1))
    (assigned,) = member.nodes.assign(None, {"1": member.nodes.metadata([])}).values()
    assigned.user_data = b"\x7f\xff"
    member.nodes.on_assignment(assigned)
    assert member.tables == []
    assert (member.nodes.own.table_number, member.nodes.is_in) == (0, False)


def test_a_node_that_no_table_has_named_is_not_placed() -> None:
    late, there = Member(node(1, 5)), Member(node(1, 1))
    shown = {"late": late.nodes.metadata([]), "there": there.nodes.metadata([])}
    late.nodes.on_assignment(late.nodes.assign(None, shown)["late"])
    assert late.nodes.own.table_number == 0


# Whom clients are sent to.


def new_routing() -> Routing:
    placement = Placement(Node(1, lambda listener: (f"own-{listener}", 1)), controller_id=NO_LEADER)
    return Routing(placement, PARTITIONS)


def claimed(node_id: int) -> Claim:
    return Claim(ClaimKind.CLAIMED, node_id, 3_000)


def leader(routing: Routing, partition: int = 0) -> int:
    return routing.placement.leader_of(GROUP_METADATA_TOPIC, partition)


def test_a_claim_decides_whatever_the_table_says() -> None:
    routing = new_routing()
    assert leader(routing) == NO_LEADER
    routing.follow_table(NodeTable((node(1), node(2)), (1,) * PARTITIONS))
    assert leader(routing) == NO_LEADER
    routing.follow_claim(0, claimed(2))
    assert (leader(routing), leader(routing, 1)) == (2, NO_LEADER)
    found = routing.placement.node(2)
    assert found is not None
    assert (found.endpoint_for(LISTENER), found.rack) == (("host-2", 9_002), "a")
    routing.follow_claim(0, None)
    assert leader(routing) == NO_LEADER


def test_a_node_that_is_gone_is_nobody_to_be_sent_to() -> None:
    routing = new_routing()
    routing.follow_claim(0, claimed(2))
    routing.follow_claim(1, claimed(1))
    assert (leader(routing), leader(routing, 1)) == (NO_LEADER, 1)
    routing.follow_table(NodeTable((node(1), node(2)), ()))
    assert leader(routing) == 2
    routing.follow_table(NodeTable((node(1),), ()))
    assert (leader(routing), leader(routing, 1)) == (NO_LEADER, 1)


def test_a_node_that_has_moved_is_found_where_it_is() -> None:
    routing = new_routing()
    routing.follow_table(NodeTable((node(2),), ()))
    moved = replace(node(2), endpoints=(Endpoint(LISTENER, "elsewhere", 7),))
    routing.follow_table(NodeTable((moved,), ()))
    found = routing.placement.node(2)
    assert found is not None
    assert found.endpoint_for(LISTENER) == ("elsewhere", 7)


def test_a_node_is_shown_to_clients_of_listeners_that_it_has() -> None:
    routing = new_routing()
    other = replace(node(2), endpoints=(Endpoint("OTHER", "host", 1),))
    routing.follow_table(NodeTable((other, node(3)), ()))
    assert [each.node_id for each in routing.placement.nodes if each.is_on(LISTENER)] == [1, 3]
    assert [each.node_id for each in routing.placement.nodes if each.is_on("OTHER")] == [1, 2]
