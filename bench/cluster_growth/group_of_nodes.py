"""The group in which nodes are members: how large its messages and its record become, what it asks of a broker.

The sizes are those of what `Nodes` says as aiokafka's assignor. The record is Kafka's GroupMetadata, which holds
what every member has shown and been assigned; a broker takes `max.message.bytes` of it, and fails SyncGroup
beyond.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

from bench.cluster_growth.one_node import ID_BASE, Size, identity
from coordinator.backing.kafka.node_group import SESSION_TIMEOUT_MS, STRATEGY, NodeGroup, Nodes
from coordinator.backing.kafka.node_records import encode_node
from coordinator.backing.nodes import NodeIdentity, NodeTable
from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from harness.daemon import MusterDaemon
from harness.http_client import get
from harness.processes import free_port

TOPIC: Final = "__muster_offsets"
GROUP: Final = f"muster-nodes-{TOPIC}"
MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default for the topic of the record, and the daemon's."""
BATCH_OVERHEAD: Final = 80
"""Of a batch and a record around key and value, at most."""
SETTLED_S: Final = 1.0
JOINED_S: Final = 300.0
LOOKS_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class GroupSizes:
    """In bytes."""

    nodes: int
    shards: int
    shown: int
    """By one node of itself."""
    table: int
    record: int
    assign_ms: float
    """CPU of the leader, which makes the table."""

    @property
    def fits(self) -> bool:
        """Whether a broker with Kafka's settings keeps it."""
        return self.record <= MAX_MESSAGE_BYTES


def as_in_life(number: int) -> NodeIdentity:
    """A node whose incarnation is as random as a UUID, so that it deflates no better."""
    return replace(
        identity(number), incarnation=random.Random(number).randbytes(16).hex(), table_number=2**40
    )


def scattered(nodes: int, shards: int) -> dict[int, int]:
    """Owners as they are after many changes: in no order."""
    ids = [ID_BASE + 1 + shard % nodes for shard in range(shards)]
    random.Random(shards).shuffle(ids)
    return dict(enumerate(ids))


def nodes_of(own: NodeIdentity, owners: Mapping[int, int], heard: list[NodeTable]) -> Nodes:
    return Nodes(own, len(owners), lambda: owners, heard.append, lambda: 1)


def sizes(nodes: int, shards: int) -> GroupSizes:
    """What the group of so many nodes amounts to."""
    assignor = nodes_of(as_in_life(1), scattered(nodes, shards), [])
    shown = {
        f"muster-{number}-{random.Random(number).randbytes(16).hex()}": ConsumerProtocolMemberMetadata(
            0, [TOPIC], encode_node(as_in_life(number))
        )
        for number in range(1, nodes + 1)
    }
    began_s = time.process_time()
    assigned = assignor.assign(None, shown)
    assign_ms = (time.process_time() - began_s) * 1000
    members = [
        MemberMetadata(
            member_id=member_id,
            client_id="aiokafka-0.14.0",
            client_host="/10.0.0.1",
            rebalance_timeout=SESSION_TIMEOUT_MS,
            session_timeout=SESSION_TIMEOUT_MS,
            subscription=metadata.encode(),
            assignment=assigned[member_id].encode(),
        )
        for member_id, metadata in shown.items()
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol=STRATEGY,
        leader=members[0].member_id,
        members=members,
    )
    key, body = encode_record(CoordinatorRecord(GroupMetadataKey(group=GROUP), value))
    assert body is not None
    table = len(members[0].assignment)
    record = len(key) + len(body) + BATCH_OVERHEAD
    return GroupSizes(nodes, shards, len(members[0].subscription), table, record, assign_ms)


def most_nodes(shards: int, limit: int = 1_000) -> int:
    """How many nodes a group can have before its record is larger than a broker takes."""
    fewest, most = 1, limit
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if sizes(middle, shards).fits:
            fewest = middle
        else:
            most = middle - 1
    return fewest


@dataclass(frozen=True, slots=True)
class GroupAtWork:
    """A group of real members at a real coordinator."""

    nodes: int
    shards: int
    joined_s: float
    """From the first start until all have one table that names all of them."""
    left_s: float
    """From the leave of one until all others have a table without it."""
    heartbeats: float
    """A second, of one node."""


async def _until(heard: list[list[NodeTable]], nodes: int) -> float:
    """Wait until the newest table of each names so many nodes; return for how long, in seconds."""
    began_s = time.monotonic()
    while not all(tables and len(tables[-1].nodes) == nodes for tables in heard):
        if time.monotonic() > began_s + JOINED_S:
            raise TimeoutError(f"not all of {nodes} nodes have one table")
        await asyncio.sleep(LOOKS_S)
    return time.monotonic() - began_s


async def _at_work(bootstrap: str, http_port: int, size: Size, seconds: float) -> GroupAtWork:
    nodes, owners = size.nodes, scattered(size.nodes, size.shards)
    refused: list[str] = []
    heard: list[list[NodeTable]] = [[] for _ in range(nodes)]
    groups = [
        NodeGroup(bootstrap, {}, TOPIC, nodes_of(as_in_life(number + 1), owners, tables), refused.append)
        for number, tables in enumerate(heard)
    ]
    for group in groups:
        group.start()
    try:
        joined_s = await _until(heard, nodes)
        await asyncio.sleep(SETTLED_S)
        beats, began_s = await asyncio.to_thread(heartbeats_of, http_port), time.monotonic()
        await asyncio.sleep(seconds)
        beats = await asyncio.to_thread(heartbeats_of, http_port) - beats
        rate = beats / (time.monotonic() - began_s) / nodes
        leaver = groups.pop()
        leaving = asyncio.ensure_future(leaver.close())
        left_s = await _until(heard[:-1], nodes - 1)
        await leaving
    finally:
        await asyncio.gather(*(group.close() for group in groups))
    assert not refused, refused
    return GroupAtWork(nodes, size.shards, joined_s, left_s, rate)


def heartbeats_of(http_port: int) -> int:
    """How many the daemon has answered."""
    text = get(http_port, "/metrics").body.decode()
    (line,) = (
        each for each in text.splitlines() if each.startswith('muster_requests_total{api="Heartbeat"}')
    )
    return int(float(line.rpartition(" ")[2]))


def at_work(nodes: int, shards: int, seconds: float = 5.0) -> GroupAtWork:
    """So many members in this process, on the loopback, at a daemon of ours in Kafka's place."""
    http_port = free_port()
    http = {"muster.http.listeners": f"http://127.0.0.1:{http_port}"}
    with TemporaryDirectory() as directory, MusterDaemon(Path(directory), http) as daemon:
        return asyncio.run(_at_work(daemon.bootstrap, http_port, Size(nodes, shards, 0), seconds))
