"""The nodes of one log as a group on the backing cluster: who is there, and the table that one of them makes.

They are members of a consumer group that is assigned no partitions: each says who it is with its JoinGroup, and
the leader's SyncGroup has the same table for all. While the group is unavailable, the last table stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
)

from coordinator.backing.kafka.complaints import Complaints
from coordinator.backing.kafka.node_records import (
    UnreadableNodeError,
    decode_node,
    decode_table,
    encode_node,
    encode_table,
)
from coordinator.backing.nodes import NodeIdentity, NodeTable, table_of
from coordinator.runtime.tasks import end, spawn

GROUP_PREFIX: Final = "muster-nodes-"
STRATEGY: Final = "muster"
SESSION_TIMEOUT_MS: Final = 6_000
"""The shortest that brokers allow by default: so long a node that is silent is taken for alive."""
HEARTBEAT_MS: Final = 200
"""So long it takes until a node hears that another has come or gone."""
REJOIN_TIMEOUT_MS: Final = 6_000
AGAIN_S: Final = 1.0
REFUSALS: Final = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
)
"""What trying again does not help with: a node that was never in the group ends."""
LEAVING_S: Final = 1.0
"""What a stop waits for the group to hear of it."""

log = structlog.get_logger(__name__)

Owners = Callable[[], Mapping[int, int]]
"""Returns the ids of the nodes that own shards now, by partition."""


class Nodes:
    """This node among the others: what it shows of itself, and the newest table. It is aiokafka's assignor."""

    name = STRATEGY

    def __init__(
        self,
        own: NodeIdentity,
        partition_count: int,
        owners: Owners,
        on_table: Callable[[NodeTable], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self._wall_ms = wall_ms
        self.own = own
        self.is_in = False
        """Whether there has been a table for it."""
        self._partition_count = partition_count
        self._owners = owners
        self._on_table = on_table

    # What aiokafka asks of an assignor.

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What JoinGroup says of this member."""
        return ConsumerProtocolMemberMetadata(0, list(topics), encode_node(self.own))

    def assign(
        self, cluster: object, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """The table, for every member the same."""
        del cluster
        shown = []
        for member_id, metadata in members.items():
            try:
                shown.append(decode_node(metadata.user_data))
            except UnreadableNodeError as error:
                log.error("a node is left out, as it cannot be read", member_id=member_id, reason=str(error))
        content = encode_table(table_of(shown, self._owners(), self._partition_count, self._wall_ms()))
        return {member_id: ConsumerProtocolMemberAssignment(0, [], content) for member_id in members}

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Go by the table that was made."""
        try:
            table = decode_table(assignment.user_data)
        except UnreadableNodeError as error:
            log.error("the table of the nodes cannot be read; the one before stays", reason=str(error))
            return
        if table.names(self.own):
            self.own = replace(self.own, table_number=table.number)
        self.is_in = True
        self._on_table(table)


class NodeGroup:
    """Keeps this node in the group. `start` once it can own shards; `close` leaves."""

    def __init__(
        self,
        bootstrap: str,
        arguments: Mapping[str, Any],
        topic: str,
        nodes: Nodes,
        on_refused: Callable[[str], None],
    ) -> None:
        """`arguments` are aiokafka's for TLS and SASL; `on_refused` is called with why it can never join."""
        self._on_refused = on_refused
        self._bootstrap = bootstrap
        self._arguments = arguments
        self._topic = topic
        self._nodes = nodes
        self._consumer: AIOKafkaConsumer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Join, and stay."""
        self._task = spawn(self._stay())

    async def close(self) -> None:
        """Leave, if the group can be reached soon."""
        await end(self._task)
        await self._leave()

    async def _stay(self) -> None:
        complaints = Complaints(log, "not in the group of the nodes")
        while True:
            try:
                await self._join()
                complaints.over()
                assert self._consumer is not None
                await self._consumer.getone()  # There is nothing to get: it ends with what goes wrong.
            except (KafkaError, OSError) as error:
                if isinstance(error, REFUSALS) and not self._nodes.is_in:
                    self._on_refused(f"group {GROUP_PREFIX}{self._topic} of the nodes: {error}")
                complaints.say(str(error))
            except Exception as error:  # A bug, of aiokafka's maybe; outside the group a node owns nothing.
                complaints.bug(error)
            await self._leave()
            await asyncio.sleep(AGAIN_S)

    async def _join(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=GROUP_PREFIX + self._topic,
            partition_assignment_strategy=(self._nodes,),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=REJOIN_TIMEOUT_MS,
            enable_auto_commit=False,
            **self._arguments,
        )
        self._consumer = consumer
        await consumer.start()
        # By a pattern: asked for by its name, a topic that was deleted would be made again.
        consumer.subscribe(pattern=f"^{self._topic.replace('.', '[.]')}$")

    async def _leave(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        closing = spawn(consumer.stop())
        done, _ = await asyncio.wait([closing], timeout=LEAVING_S)
        if not done:
            closing.cancel()
