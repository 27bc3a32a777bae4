"""What a node answers about the cluster, by its size: to clients, and to those who run it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from bench.cluster_growth.one_node import ID_BASE, Size, identity
from coordinator.admin import describe_cluster
from coordinator.backing.claims import Claim, ClaimKind, Writer
from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.nodes import table_of
from coordinator.backing.ownership import Ownership, OwnershipTiming
from coordinator.daemon.node_apis import NodeApis
from coordinator.daemon.node_status import NodeStatus
from coordinator.daemon.routing import Routing
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.server.pending import Pending
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement
from protocol.codec.codec import spec
from protocol.framing import response_frame
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest

LISTENER: Final = "PLAINTEXT"
BATCHED: Final = 6
ROUNDS: Final = 50


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of answer."""

    what: str
    size: int
    """Bytes."""
    cpu_us: float


class _Asked:
    """Takes the answer, in bytes as it would leave."""

    listener = LISTENER

    def __init__(self, request: type) -> None:
        self.api_version = spec(request).max_version
        self.size = 0

    def reply(self, response: Any) -> None:
        self.size = sum(map(len, response_frame(1, response, self.api_version)))


def _taken(what: str, ask: Callable[[], int]) -> Answer:
    size = ask()
    began_s = time.process_time()
    for _ in range(ROUNDS):
        ask()
    return Answer(what, size, (time.process_time() - began_s) / ROUNDS * 1e6)


class KnownCluster:
    """What one node knows of a cluster in which every shard has its node."""

    def __init__(self, size: Size) -> None:
        shown = [identity(number) for number in range(1, size.nodes + 1)]
        table = table_of(shown, {}, size.shards, 1)
        own = Node(ID_BASE + 1, lambda _: (shown[0].endpoints[0].host, shown[0].endpoints[0].port))
        self.placement = Placement(own, controller_id=NO_LEADER)
        routing = Routing(self.placement, size.shards)
        routing.follow_table(table)
        timing = OwnershipTiming()
        self.drivers: dict[int, ShardDriver] = {}
        for partition, owner in enumerate(table.owners):
            claim = Claim(ClaimKind.CLAIMED, owner, timing.lease_ms)
            routing.follow_claim(partition, claim)
            driver = ShardDriver(partition, Ownership(own.node_id, timing), cast(Any, None), cast(Any, None))
            driver.ownership.book.take(0, Writer(partition, 0), claim)
            self.drivers[partition] = driver
        self.find = FindCoordinator(self.placement, {GROUP_METADATA_TOPIC: size.shards})
        self.apis = NodeApis(self.placement, ClusterTopics(lambda *_: None, confirm_ms=0), lambda: "cluster")
        self.status = NodeStatus(own.node_id, lambda: self.drivers, lambda: 0)
        self.status.table = table

    def _asked(self, handler: Callable[[Any, Pending], None], request: Any) -> Callable[[], int]:
        def ask() -> int:
            asked = _Asked(type(request))
            handler(request, cast(Pending, asked))
            return asked.size

        return ask

    def _page(self) -> int:
        page = self.status.page()
        return len(str(list(page["nodes"]))) + len(str(list(page["shards"])))

    def answers(self) -> list[Answer]:
        """The answers of this node, each for what it is asked most."""
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["payments"])
        metadata = MetadataRequest(topics=[])
        describe = DescribeClusterRequest(endpoint_type=describe_cluster.BROKERS)
        return [
            _taken("FindCoordinator", self._asked(self.find, find)),
            _taken("Metadata, nodes alone", self._asked(self.apis.metadata, metadata)),
            _taken("DescribeCluster", self._asked(self.apis.describe_cluster, describe)),
            _taken("HTTP /api/v1/nodes", self._page),
            _taken("HTTP /metrics, of nodes", lambda: sum(map(len, self.status.lines()))),
        ]
