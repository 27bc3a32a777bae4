"""One node of n, real but for its sockets and the Kafka: what it costs while nothing happens, beside others that
write, when it starts, and when another node dies.

The other nodes are what a node sees of them: a place in the table, claims, and records in the logs.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, overload

from bench.cluster_growth.played_kafka import PlayedCluster, PlayedKafka, PlayedLog, Traffic
from bench.cluster_growth.virtual_time import VirtualClock, VirtualLoop, run
from coordinator.backing.claims import Claim, ClaimKind, Endpoint, Writer
from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.nodes import NodeIdentity, NodeTable, table_of
from coordinator.backing.ownership import OwnershipTiming
from coordinator.backing.states import ACTIVE, OwnershipState
from coordinator.daemon.node import Node
from coordinator.daemon.node_backing import Backing, BackingClient
from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.settings.sources import load
from protocol.records.batch import BatchProducer
from protocol.records.records import Record, encode_batch

ID_BASE: Final = 1_000_000
OWN_ID: Final = ID_BASE + 1
OF_BEFORE: Final = Writer(1, 0)
"""An owner whose claim is not in the log any more."""
BROKERS: Final = 3
LEASE_MS: Final = OwnershipTiming().lease_ms
KEEP_ALIVE_S: Final = OwnershipTiming().keep_alive_ms / 1_000
GROUPS_IN_BATCH: Final = 100
RECORDS_OF_GROUP: Final = 2
PATIENCE_S: Final = 600.0
LOOKS_S: Final = 0.01
TOPIC_ID: Final = b"\x07" * 16
COMMITTED_TOPIC_ID: Final = b"\x01" * 16
FOR_EVER_MS: Final = 2_000_000_000
"""Sessions of members, who say nothing here."""
SUBSCRIPTION: Final = bytes(40)
ASSIGNMENT: Final = bytes(60)


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is."""

    nodes: int
    shards: int
    groups: int

    def share(self, nodes: int) -> float:
        """How many shards each of so many nodes has, on average."""
        return self.shards / nodes


@dataclass(frozen=True, slots=True)
class Span:
    """What a node did in a span of time."""

    took_s: float
    cpu_s: float
    longest_turn_ms: float
    requests: dict[str, int]
    sent_bytes: int
    received_bytes: int
    partitions: dict[str, int]
    """Of these requests."""

    def rate(self, name: str) -> float:
        """How many requests of this name a second."""
        return self.requests.get(name, 0) / self.took_s


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of the process."""

    made: int
    followed: int
    served: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One node of a cluster of this size."""

    size: Size
    memory: Memory
    start: Span
    """Until all logs are read."""
    serving: Span
    """From the table until its share is served: its predecessor's leases are waited for."""
    quiet: Span
    busy: dict[int, Span]
    """By how many batches others write a second, in all."""
    takeover: Span
    """From the table without one other node until what of it comes here is served."""
    owned: int
    taken: int


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def identity(number: int) -> NodeIdentity:
    """The node of this number, from 1 on, as a node of some cloud looks."""
    endpoints = (Endpoint("PLAINTEXT", f"muster-{number:03}.example.internal", 9092),)
    return NodeIdentity(
        ID_BASE + number, f"{number:032x}", 1_700_000_000_000, endpoints, f"zone-{number % 3}"
    )


def group_record(group_id: str) -> CoordinatorRecord:
    """A group with one member, Stable."""
    member = MemberMetadata(
        member_id=f"consumer-{group_id}-1-0123456789abcdef0123456789abcdef",
        client_id=f"consumer-{group_id}-1",
        client_host="/10.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=FOR_EVER_MS,
        subscription=SUBSCRIPTION,
        assignment=ASSIGNMENT,
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=member.member_id,
        current_state_timestamp=0,
        members=[member],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value)


def commit_record(group_id: str, offset: int) -> CoordinatorRecord:
    value = OffsetCommitValue(
        offset=offset, leader_epoch=0, metadata="", commit_timestamp=0, topic_id=COMMITTED_TOPIC_ID
    )
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic="orders", partition=0), value)


def batch_of(
    records: Sequence[CoordinatorRecord], base_offset: int = 0, writer: Writer = OF_BEFORE
) -> bytearray:
    """A batch that an owner wrote."""
    found = [Record(*encode_record(each), 0) for each in records]
    return encode_batch(found, base_offset=base_offset, producer=BatchProducer(*writer, 0))


def fill(log: PlayedLog, groups: Sequence[str]) -> None:
    """Give a log these groups, each with one member and one committed offset."""
    per_batch = GROUPS_IN_BATCH * RECORDS_OF_GROUP

    def stored(number: int) -> bytes:
        chosen = groups[number * GROUPS_IN_BATCH : (number + 1) * GROUPS_IN_BATCH]
        records = [record for each in chosen for record in (group_record(each), commit_record(each, 1))]
        return bytes(batch_of(records, number * per_batch))

    batches = -(-len(groups) // GROUPS_IN_BATCH)
    log.fill(stored, batches, len(groups) * RECORDS_OF_GROUP, per_batch)


class _Names(Sequence[str]):
    """Names of the groups of one shard, made when they are asked for."""

    def __init__(self, shard: int, count: int) -> None:
        self._shard, self._numbers = shard, range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._name(number) for number in self._numbers[index]]
        return self._name(self._numbers[index])

    def _name(self, number: int) -> str:
        return f"payments-{self._shard:04}-{number:07}"


class World:
    """The node, the Kafka, and what the other nodes do."""

    def __init__(self, size: Size, clock: VirtualClock, loop: VirtualLoop, has_sessions: bool) -> None:
        self.size, self.clock, self.loop = size, clock, loop
        self.topic = BackingTopic("__muster_offsets", TOPIC_ID, size.shards)
        self.kafka = PlayedKafka(clock, self.topic, BROKERS, has_sessions=has_sessions)
        self.identities = [identity(number) for number in range(1, size.nodes + 1)]
        self.table = table_of(self.identities, {}, size.shards, 1)
        with clock.apart():
            for log in self.kafka.logs:
                fill(log, _Names(log.partition, self._groups_of(log.partition)))
            for partition, owner in enumerate(self.table.owners):
                self._claim(partition, owner)
        self.cluster = PlayedCluster(self.kafka)
        settings = load({"listeners": "PLAINTEXT://127.0.0.1:0", "node.id": "1"}).settings
        self.node = Node(settings, Backing(BackingClient("played:1"), self.cluster, self.topic))
        cast(Any, self.node)._history.record = lambda rows: None  # Its topic is not played.

    def _groups_of(self, partition: int) -> int:
        share, more = divmod(self.size.groups, self.size.shards)
        return share + (partition < more)

    def _claim(self, partition: int, owner: int) -> None:
        endpoints = self.identities[owner - ID_BASE - 1].endpoints
        self.kafka.logs[partition].claim(
            Claim(ClaimKind.CLAIMED, owner, LEASE_MS, was_active=False, endpoints=endpoints)
        )
        self.kafka.notify(partition)

    # What the others do.

    def owned_by_others(self) -> list[int]:
        return [partition for partition, owner in enumerate(self.table.owners) if owner != OWN_ID]

    async def claim_again(self) -> None:
        """Each other owner is quiet, and says every ten minutes that it is there."""
        for partition in itertools.cycle(partitions := self.owned_by_others()):
            await asyncio.sleep(KEEP_ALIVE_S / len(partitions))
            with self.clock.apart():
                self._claim(partition, self.table.owners[partition])

    async def write(self, batches_a_second: int) -> None:
        """Groups of other nodes commit, one offset in a batch."""
        for number, partition in enumerate(itertools.cycle(self.owned_by_others())):
            await asyncio.sleep(1 / batches_a_second)
            with self.clock.apart():
                commit = commit_record(f"payments-{partition:04}-{0:07}", number)
                batch = batch_of([commit], writer=self.kafka.logs[partition].writer)
                self.kafka.append(partition, batch)

    @contextmanager
    def beside(self, doing: Coroutine[Any, Any, None]) -> Iterator[None]:
        """Have this go on meanwhile."""
        task = self.loop.create_task(doing)
        try:
            yield
        finally:
            task.cancel()

    # What the node does.

    async def start(self) -> None:
        """Follow all logs, and read them to their ends."""
        endpoints = self.identities[0].endpoints
        await self.cluster.start()
        self.node._collector.start()
        self.node._log = self.node._follow(endpoints)
        await self.node._log.start()
        await self.until(self.was_read)

    def hear(self, table: NodeTable) -> None:
        """The group of nodes has this table, and the other nodes have done what it says of them."""
        before, self.table = self.table, table
        self.node._on_table(self.identities[0], table)
        with self.clock.apart():
            for partition, (old, new) in enumerate(zip(before.owners, table.owners, strict=True)):
                if new not in (old, OWN_ID):
                    self._claim(partition, new)

    def states(self) -> Counter[OwnershipState]:
        return Counter(driver.ownership.state for driver in self.node._drivers.values())

    async def until(self, holds: Callable[[], bool]) -> None:
        """Look again and again. Raises TimeoutError."""
        deadline_s = self.loop.time() + PATIENCE_S
        while True:
            with self.clock.apart():
                if holds():
                    return
            if self.loop.time() > deadline_s:
                raise TimeoutError(f"{self.size}: {self.states()}")
            await asyncio.sleep(LOOKS_S)

    async def span(self, awaited: Coroutine[Any, Any, object]) -> Span:
        """What the node does until this is over."""
        gc.collect()
        await asyncio.sleep(0)
        self.kafka.traffic, self.loop.longest_turn_ms = Traffic(), 0.0
        began_s, cpu_ns = self.loop.time(), self.clock.cpu_ns
        await awaited
        took_s, used_s = self.loop.time() - began_s, (self.clock.cpu_ns - cpu_ns) / 1e9
        traffic = self.kafka.traffic
        return Span(
            took_s, used_s, self.loop.longest_turn_ms, dict(traffic.requests),
            sum(traffic.sent_bytes.values()), sum(traffic.received_bytes.values()), dict(traffic.partitions),
        )  # fmt: skip

    def was_read(self) -> bool:
        """Whether the node has read all logs to their ends."""
        return all(driver.was_read for driver in self.node._drivers.values())

    def serves(self) -> bool:
        """Whether the node serves all that the table gives it."""
        return self.states()[ACTIVE] == self.owned

    @property
    def owned(self) -> int:
        """How many shards the table gives to the node."""
        return self.table.owners.count(OWN_ID)

    async def lose_a_node(self) -> None:
        """Another node is in the table no more; what of it comes to this node is served."""
        owners = dict(enumerate(self.table.owners))
        self.hear(table_of(self.identities[:-1], owners, self.size.shards, self.table.number))
        await self.until(self.serves)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured."""

    size: Size
    rates: tuple[int, ...] = ()
    """How many batches a second others write, in all; one after the other."""
    quiet_s: float = KEEP_ALIVE_S + 1
    """In so long every owner has said once that it is there."""
    busy_s: float = 6.0
    has_sessions: bool = True


async def _measure(asked: Asked, clock: VirtualClock, loop: VirtualLoop) -> Measured:
    world = World(asked.size, clock, loop, asked.has_sessions)
    made = resident_bytes()
    start = await world.span(world.start())
    followed = resident_bytes()
    world.hear(world.table)
    serving = await world.span(world.until(world.serves))
    served, busy = resident_bytes(), {}
    with world.beside(world.claim_again()):
        quiet = await world.span(asyncio.sleep(asked.quiet_s))
        for rate in asked.rates:
            with world.beside(world.write(rate)):
                busy[rate] = await world.span(asyncio.sleep(asked.busy_s))
    owned = world.owned
    takeover = await world.span(world.lose_a_node())
    assert world.node._log is not None
    await world.node._log.close()
    world.node.runtime.stop()
    memory = Memory(made, followed, served)
    return Measured(asked.size, memory, start, serving, quiet, busy, takeover, owned, world.owned - owned)


def measure(asked: Asked) -> Measured:
    """Measure one node, in this process: for memory it has to be a new one."""
    clock = VirtualClock()
    return run(clock, lambda loop: _measure(asked, clock, loop))
