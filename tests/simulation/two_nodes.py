"""Two nodes that share out the shards: these move between them at any moment, and either node may die or stop.

Both nodes are whole servers, each with its own table of placement; the logs are on one disk that both reach. An
adviser, who is right about who has died, moves a shard in two steps: it tells the node that holds the shard to
close it, and once that is reported tells the other to open it. The tables hear of it sooner or later. Clients ask
FindCoordinator of any node before each request, so what they find may be out of date.

What must hold besides all that one node promises: no two nodes serve one shard, and none touches a log that the
other holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from coordinator.data.markers import MarkerWriter
from coordinator.data.transaction_verifier import TransactionVerifier
from coordinator.groups.partitioning import partition_for
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.loop import Runtime
from coordinator.runtime.shard_runner import ShardRunner
from coordinator.runtime.shard_states import LOADING
from coordinator.runtime.transaction_verification import CoordinatorVerifier
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement
from coordinator.transactions.states import AT_REST
from coordinator.upkeep.local_shards import LocalShards
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from storage.log.log_states import PAUSED, RECOVERING_FULL
from tests.simulation import faults
from tests.simulation.between_nodes import Asked, RemoteMarkers, RemoteVerifier
from tests.simulation.call import Call
from tests.simulation.faults import Fault
from tests.simulation.held_logs import COUNTS, SHARDS, NodeStorage, Shard, SharedStorage
from tests.simulation.parts import Parts
from tests.simulation.profile import GROUPS
from tests.simulation.server import Server
from tests.simulation.simulation import PARTITIONS, Simulation
from tests.simulation.timeline import Action, Origin
from tests.simulation.transaction_side import TRANSACTION_PARTITIONS

NODE_IDS: Final = (1, 2)
TABLES_HEAR_MS: Final = (0, 0, 5, 100, 1_500)
"""After how long a node hears that a shard was moved."""


class NodeServer(Server):
    """One of the nodes."""

    def __init__(self, node_id: int, cluster: Cluster, *arguments: Any) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.placement = cluster.table_of(node_id)
        self.asked: list[Asked] = []  # By the other node, and not answered yet.
        super().__init__(*arguments)

    def _open_shards(self, groups: list[GroupRunner], transactions: list[ShardRunner[Any]]) -> None:
        assert self.runtime is not None
        self.placement = self.cluster.table_of(self.node_id)
        shards = LocalShards(self.runtime, self.placement)
        shards.on_closed.append(lambda *shard: self.cluster.on_closed(self, shard))
        shards.open(groups, transactions)

    def marker_writer(self, index: int) -> MarkerWriter:
        return RemoteMarkers(self, index)

    def new_verifier(self, runtime: Runtime) -> TransactionVerifier:
        return RemoteVerifier(self, CoordinatorVerifier(runtime))

    def leader_of(self, shard: Shard) -> NodeServer | None:
        """The node that leads the shard, as far as this one knows, if it can be reached."""
        leader_id = self.placement.leader_of(*shard)
        return next((node for node in self.cluster.alive if node.node_id == leader_id), None)

    def runner_of(self, shard: Shard) -> ShardRunner[Any]:
        topic, partition = shard
        return (self.runners if topic == GROUP_METADATA_TOPIC else self.transaction_runners)[partition]

    def _on_died(self, calls: list[Call]) -> None:
        self.witness.on_node_crash(calls)
        self.cluster.on_died(self)
        asked, self.asked = self.asked, []
        for each in asked:
            each.lose()


class Cluster:
    """Both nodes, and the adviser who says which of them has which shard. To the simulation it is the server."""

    def __init__(self, simulation: Simulation) -> None:
        self.timeline = simulation.timeline
        self.witness = simulation.witness
        self.topics = simulation.topics
        self.group_ids = GROUPS
        self.ends: list[Any] = []
        self.met: Counter[str] = Counter()  # What shards were doing when they were closed; and opened.
        self._random: Random = simulation.random
        self._disk = simulation.disk
        watched: Any = {
            GROUP_METADATA_TOPIC: (PARTITIONS, self.witness.on_durable),
            TRANSACTION_STATE_TOPIC: (TRANSACTION_PARTITIONS, self.witness.transactions.on_durable),
        }
        self.storage = SharedStorage(self._disk, self._random, self.timeline, watched)
        self.holders: dict[Shard, int] = {}  # The nodes that may touch the logs.
        self.wanted: dict[Shard, int] = {shard: self._random.choice(NODE_IDS) for shard in SHARDS}
        self.nodes = [self._new_node(node_id, simulation) for node_id in NODE_IDS]
        self.witness.server = self  # type: ignore[assignment]  # It has what the witness asks of a server.

    def _new_node(self, node_id: int, simulation: Simulation) -> NodeServer:
        storage = NodeStorage(node_id, self)
        disk: Any = SimpleNamespace(
            new_storage=lambda *_: storage,
            load_ms=self._disk.load_ms,
            probe_disk_space=self._disk.probe_disk_space,
        )
        return NodeServer(
            node_id,
            self,
            self.timeline,
            self._random,
            disk,
            simulation.settings,
            self.topics,
            PARTITIONS,
            GROUPS,
            self.witness,
        )

    # The adviser.

    def move(self, shard: Shard, node_id: int) -> None:
        """Have the shard led by that node, once the one that holds it has let go of it."""
        self.wanted[shard] = node_id
        if shard in self.holders:
            self._tell(shard)
        else:
            self._give(shard)

    def _give(self, shard: Shard) -> None:
        """Have a shard that nobody holds opened by the node that is wanted, or by one that is alive."""
        alive = [node.node_id for node in self.alive]
        if not alive:
            return
        if self.wanted[shard] not in alive:
            self.wanted[shard] = self._random.choice(alive)
        self.holders[shard] = self.wanted[shard]
        self.met["opened"] += 1
        self._tell(shard)

    def _tell(self, shard: Shard) -> None:
        """Let each node hear of it, some time or other; a node that is stopped, when it goes on."""
        for node in self.alive:
            at_ms = self.timeline.now_ms + self._random.choice(TABLES_HEAR_MS)
            node.loop.run_at(at_ms, Origin.SOCKET, partial(self._hear, node, shard))

    def _hear(self, node: NodeServer, shard: Shard) -> None:
        leader, runner = self.leader_of(shard), node.runner_of(shard)
        parked = list(runner._parked)
        if self.holders.get(shard) == node.node_id != leader:
            self._note_closing(runner)
        node.placement.place(*shard, leader)
        for call in parked if leader != node.node_id else ():
            if isinstance(call, Call) and call.answer is None:
                self.witness.violated(f"{call.request} is parked at node {node.node_id}, without {shard}")

    def _note_closing(self, runner: ShardRunner[Any]) -> None:
        held_log: Any = runner.log
        self.met["closed"] += 1
        self.met["closed with requests parked"] += bool(runner._parked)
        self.met["closed while flushed"] += runner.durable_log._flushes > 0
        self.met["closed while written behind"] += held_log.has_behind
        self.met["closed while loaded"] += runner.state is LOADING
        self.met["closed without room"] += runner.durable_log.state in (PAUSED, RECOVERING_FULL)

    def leader_of(self, shard: Shard) -> int:
        """The node that leads the shard, for all that the adviser knows; NO_LEADER while it is on its way."""
        holder = self.holders.get(shard, NO_LEADER)
        return holder if holder == self.wanted[shard] else NO_LEADER

    def on_closed(self, node: NodeServer, shard: Shard) -> None:
        if self.holders.get(shard) == node.node_id:
            del self.holders[shard]
            self._give(shard)

    def on_died(self, node: NodeServer) -> None:
        """The adviser hears of it later, and others may open what the node had."""
        self.met["orphaned"] += len(self.held_by(node.node_id))
        for shard in self.held_by(node.node_id):
            del self.holders[shard]
        for other in self.alive:
            other.placement.node_down(node.node_id)
        self.timeline.after(self._random.choice((10, 500, 6_000)), self._give_orphans)

    def _give_orphans(self) -> None:
        for shard in SHARDS:
            if shard not in self.holders:
                self._give(shard)

    def held_by(self, node_id: int) -> list[Shard]:
        return [shard for shard in SHARDS if self.holders.get(shard) == node_id]

    def table_of(self, node_id: int) -> Placement:
        """The table that a node begins with."""
        nodes = {each: Node(each, lambda _, port=each: ("localhost", port)) for each in NODE_IDS}  # type: ignore[misc]
        alive = [node.node_id for node in getattr(self, "nodes", ()) if node.runtime is not None]
        others = [nodes[each] for each in alive if each != node_id]
        placement = Placement(nodes[node_id], others, controller_id=NODE_IDS[0])
        for shard in SHARDS:
            placement.place(*shard, self.leader_of(shard))
        return placement

    # Lives.

    @property
    def alive(self) -> list[NodeServer]:
        return [node for node in self.nodes if node.runtime is not None]

    def start(self) -> None:
        """Start all nodes that are not there."""
        for node in self.nodes:
            self.start_node(node)

    def start_node(self, node: NodeServer) -> None:
        if node.runtime is not None:
            return
        node.start()
        for other in self.alive:
            other.placement.node_up(node.placement.own)
        self.timeline.after(self._random.choice((0, 10, 500)), self._give_orphans)

    def crash(self) -> None:
        """Both die."""
        for node in self.alive:
            node.crash()

    def stop(self) -> None:
        """Both die: clean stops, and what they leave, are played with one node."""
        self.crash()

    def crash_one(self) -> None:
        if self.alive:
            node = self._random.choice(self.alive)
            node.crash()
            back_ms = self._random.choice((50, 3_000, 30_000))
            self.timeline.after(back_ms, partial(self.start_node, node))

    def stop_for(self, stop_ms: int) -> None:
        """One of them does not run for so long."""
        if self.alive:
            self._random.choice(self.alive).stop_for(stop_ms)

    def clean(self, took_ms: int, delete_retention_ms: int) -> None:
        """The cleaner belongs to the disk, not to a node."""
        self.storage.clean(self.loop, took_ms, delete_retention_ms)

    # Requests.

    def deliver(self, call: Call) -> None:
        """A client asks any node where to send this, and sends it there."""
        node = self._find(call) if self.alive else None
        if node is None:
            call.lose()
        else:
            node.deliver(call)

    def _find(self, call: Call) -> NodeServer | None:
        asked = self._random.choice(self.alive)
        kind, key = _coordinator_key(call.request)
        if kind is None:
            return asked
        answers: list[Any] = []
        pending: Any = SimpleNamespace(api_version=4, listener="PLAINTEXT", reply=answers.append)
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        FindCoordinator(asked.placement, COUNTS)(request, pending)
        found = answers[0].coordinators[0].node_id
        return next((node for node in self.alive if node.node_id == found), None)

    def connect(self, wire: Any) -> None:
        raise AssertionError("with two nodes each request comes alone")

    # What the witness and the simulation ask of a server.

    @property
    def settings(self) -> Any:
        return self.nodes[0].settings

    @settings.setter
    def settings(self, settings: Any) -> None:
        for node in self.nodes:
            node.settings = settings

    @property
    def runtime(self) -> Any:
        """Of any node that is there: what is asked of it are the logs that wait for space."""
        runtimes: list[Any] = [node.runtime for node in self.alive]
        waiting = [runtime for runtime in runtimes if runtime.outages.is_full]
        return next(iter(waiting or runtimes), None)

    @property
    def loop(self) -> Any:
        """What happens to both nodes; it counts as stopped while either is."""
        return SimpleNamespace(
            timeline=self.timeline,
            is_stopped=any(node.loop.is_stopped for node in self.alive),
            run_at=lambda at_ms, _, action: self.timeline.at(at_ms, partial(self._run, action)),
        )

    def _run(self, action: Action) -> None:
        """When no node is stopped; or never, if none is there by then."""
        if any(node.loop.is_stopped for node in self.alive):
            self.timeline.after(100, partial(self._run, action))
        elif self.alive:
            action()

    @property
    def transactions(self) -> Cluster:
        """Of transactions the simulation asks what is not at rest."""
        return self

    def unsettled(self) -> Iterator[str]:
        for shard in SHARDS:
            if shard[0] != TRANSACTION_STATE_TOPIC:
                continue
            served = self.runner_of(shard).shard
            if served is None:
                yield f"{shard} is served by no node"
                return
            for each in served.transactions:
                if each.state not in AT_REST:
                    yield f"the transaction of {each.transactional_id} is {each.state.name}"

    @property
    def unread(self) -> list[tuple[int, Call]]:
        """The requests for a group in the sockets of the node that serves it."""
        return [
            (since_ms, call)
            for node in self.alive
            for since_ms, call in node.unread
            if node.runner_for(getattr(call.request, "group_id", "")).shard is not None
        ]

    @property
    def logs(self) -> Sequence[Any]:
        return self.storage.logs_of(GROUP_METADATA_TOPIC)

    def groups_of(self, partition: int) -> set[str]:
        return {each for each in self.group_ids if partition_for(each, PARTITIONS) == partition}

    def serving(self, shard: Shard) -> list[NodeServer]:
        """The nodes that have the shard's state."""
        return [node for node in self.alive if node.runner_of(shard).shard is not None]

    def runner_of(self, shard: Shard) -> Any:
        """The runner that serves, or would serve the shard."""
        holder = self.holders.get(shard)
        nodes = self.serving(shard) or [node for node in self.alive if node.node_id == holder] or self.alive
        return nodes[0].runner_of(shard)

    def runner_for(self, group_id: str) -> Any:
        return self.runner_of((GROUP_METADATA_TOPIC, partition_for(group_id, PARTITIONS)))

    @property
    def runners(self) -> list[Any]:
        of_groups = [shard for shard in SHARDS if shard[0] == GROUP_METADATA_TOPIC]
        return [self.runner_of(shard) for shard in of_groups] if self.alive else []

    def look(self) -> None:
        """After each step."""
        for shard in SHARDS:
            serving = [node.node_id for node in self.serving(shard)]
            if len(serving) > 1:
                self.witness.violated(f"{shard} is served by nodes {serving}")
            elif serving and serving != [self.holders.get(shard)]:
                self.witness.violated(
                    f"{shard} is served by {serving}, and held by {self.holders.get(shard)}"
                )


def _coordinator_key(request: Any) -> tuple[int | None, str]:
    """Which coordinator a request is for; None if any will do."""
    if isinstance(request, AddOffsetsToTxnRequest):
        return CoordinatorType.TRANSACTION, request.transactional_id
    if (group_id := getattr(request, "group_id", "")) != "":
        return CoordinatorType.GROUP, group_id
    groups = getattr(request, "groups", [])
    if len(groups) == 1 and hasattr(groups[0], "group_id"):
        return CoordinatorType.GROUP, groups[0].group_id
    if (transactional_id := getattr(request, "transactional_id", "")) != "":
        return CoordinatorType.TRANSACTION, transactional_id
    return None, ""


# What can go wrong with two nodes.


def move_a_shard(simulation: Simulation) -> None:
    """At once, or while a flush is under way."""
    cluster, random = simulation.server, simulation.random
    shard, node_id = random.choice(SHARDS), random.choice(NODE_IDS)
    if random.random() < 0.4 and simulation.disk.during_flush is None:
        simulation.disk.during_flush = partial(cluster.move, shard, node_id)
    else:
        cluster.move(shard, node_id)
    if random.random() < 0.3:  # And away again, perhaps before it has arrived.
        later_ms = random.choice((0, 1, 20, 1_000))
        simulation.timeline.after(later_ms, partial(cluster.move, shard, random.choice(NODE_IDS)))


def kill_a_node(simulation: Simulation) -> None:
    if not simulation.disk.is_sound:
        simulation.server.crash_one()


class TwoNodes(Simulation):
    """`run` plays a history of two nodes, or raises Failure."""

    options: ClassVar[str] = "--two-nodes "

    def _parts(self) -> Parts:
        return Parts(real_connections=False, real_logs=False)

    def _new_server(self) -> Cluster:
        return Cluster(self)

    def _faults(self) -> list[Fault]:
        return [*faults.FAULTS, *[move_a_shard] * 14, *[kill_a_node] * 3]

    def _make_peace(self) -> None:
        super()._make_peace()
        self.server.start()

    def _look(self) -> None:
        super()._look()
        self.server.look()
