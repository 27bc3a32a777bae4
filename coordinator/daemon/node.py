"""One of several nodes whose logs are on an existing Kafka, composed from settings; and how it stops.

It serves what a coordinator of groups serves, and no topics: clients are sent here by a system that answers for
their data. At a start the cluster is tried before anything is served, and refused in one sentence if it will not
do; the listeners are open before the node may own a shard, as its claims say where it is found. At a stop shards
are released, so that the next owner need not wait.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import structlog

from coordinator.backing.claims import NO_HEIR, Endpoint
from coordinator.backing.kafka.backing_log import BackingLog, OwnNode
from coordinator.backing.kafka.cluster import BackingCluster, BackingError
from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.backing.kafka.event_topic import EventTopic
from coordinator.backing.kafka.node_group import NodeGroup, Nodes
from coordinator.backing.kafka.shard_driver import ShardDriver
from coordinator.backing.kafka.topic_watch import TopicWatch
from coordinator.backing.nodes import NodeIdentity, NodeTable, heirs_of
from coordinator.backing.ownership import OwnershipTiming
from coordinator.backing.shards.backed_log import BackedLog, Room
from coordinator.backing.shards.backed_shard import BackedFlusher, BackedShard
from coordinator.backing.states import FOLLOWING
from coordinator.daemon.gateway import Behind, Gateway, look_behind, refuse_as_gateway
from coordinator.daemon.node_apis import NodeApis
from coordinator.daemon.node_backing import Backing, BackingClient, largest_batch_bytes, prepared
from coordinator.daemon.node_group_settings import NodeGroupSettings
from coordinator.daemon.node_refusals import refuse_what_is_not_there
from coordinator.daemon.node_status import NodeStatus, NoTopics
from coordinator.daemon.node_topics import TopicsFirst
from coordinator.daemon.routing import Routing
from coordinator.daemon.startup import LAST_ANSWERS_S, READER_THREADS, StartupError, serve_http
from coordinator.effects import HistoryRow
from coordinator.history.events import TOPIC as HISTORY_TOPIC
from coordinator.history.events import History
from coordinator.history.topic import history_topic_config
from coordinator.history.writer import HistoryWriter
from coordinator.metrics.daemon_series import Parts
from coordinator.metrics.metrics import Metrics
from coordinator.part_settings import group_settings
from coordinator.runtime.clock import Clock, boot_ms, boot_ns
from coordinator.runtime.collector import Collector
from coordinator.runtime.group_runner import GroupRunner
from coordinator.runtime.group_shards import group_shards
from coordinator.runtime.loop import Runtime
from coordinator.runtime.loop_turns import see_turns
from coordinator.runtime.turn_share import TurnShare
from coordinator.runtime.turn_watch import TurnWatch
from coordinator.server.api_table import Handler, api_table
from coordinator.server.descriptors import raise_limit
from coordinator.server.find_coordinator import FindCoordinator
from coordinator.server.group_apis import GroupApis
from coordinator.server.server import BindError, Server
from coordinator.settings.backing import GATEWAY
from coordinator.settings.group_kinds import CONSUMER
from coordinator.settings.model import Settings
from coordinator.shard.shard import Shard
from coordinator.topics.feature_levels import GROUP_VERSION, HIGHEST_LEVELS, FeatureLevels
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import NO_LEADER, Placement
from coordinator.topics.placement import Node as PlacedNode
from coordinator.topics.workers import ThreadWorkers
from protocol.records.records import Codec
from storage.latencies import Latencies
from storage.log.durable_log import DurableLog

if TYPE_CHECKING:
    from coordinator.http.explained import Explain
    from coordinator.http.server import HttpServer
    from coordinator.http.sources import Sources

log = structlog.get_logger("muster.node")

T = TypeVar("T")

READ_S: Final = 5.0
"""What a start waits for more of the logs: who makes the table of the nodes has to know who owns what."""
RELEASE_S: Final = 1.0
"""What a stop waits for shards to be released: another node then claims them over their heads."""


async def serve_node(
    settings: Settings,
    client: BackingClient,
    ready: Callable[[str], None],
    stop: asyncio.Event,
    explain: Explain | None = None,
) -> None:
    """Run the node until `stop` is set; `ready` is called with the bound addresses once clients are served.

    `explain` puts a group's events into words, for HTTP. Raises StartupError, also if another node turns out to
    have its id; UnusableSettings.
    """
    refuse_what_is_not_there(settings)
    refuse_as_gateway(settings, str(client.arguments.get("security_protocol", "PLAINTEXT")))
    raise_limit()
    cluster = BackingCluster(client.bootstrap, client.arguments)
    try:
        topic = await _unless(stop, prepared(cluster, settings))
        if topic is None:
            return
        behind = await look_behind(cluster, settings) if settings.muster_clients == GATEWAY else None
        node = Node(settings, Backing(client, cluster, topic, behind))
        try:
            await _unless(stop, node.start())
            await _unless(stop, node.serve_http(explain))
            if not stop.is_set():
                ready(node.server.addresses)
                await _unless(stop, node.ended.wait())
        finally:
            await node.stop()
    except BackingError as error:
        raise StartupError(str(error)) from None
    finally:
        await cluster.close()
    if node.reason:
        raise StartupError(node.reason)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns; None if it is to stop meanwhile, whatever has been done."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        return working.result()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return None


class Node:
    """Makes, starts and stops all parts of one node."""

    def __init__(self, settings: Settings, backing: Backing) -> None:
        loop = asyncio.get_running_loop()
        self._settings = settings
        self._client, self._cluster, self._topic = client, cluster, topic = backing.of_log
        self.node_id = settings.muster_node_id_base + settings.node_id
        self.ended = asyncio.Event()
        self.reason = ""
        """Why it ended by itself."""
        self._clock = Clock(elapsed_ns=boot_ns)
        self._turn = TurnShare(loop.call_soon)
        self._readers = ThreadWorkers(READER_THREADS, loop.call_soon_threadsafe, "reader")
        self._flusher = BackedFlusher()
        self.runtime = Runtime(
            self._clock,
            cast(Any, self._flusher),  # It has what the runtime uses of a Flusher.
            self._record_history,
            settings.offsets_load_buffer_size,
            turn=self._turn,
        )
        self._events = EventTopic(
            BackingCluster(client.bootstrap, client.arguments), HISTORY_TOPIC, self.node_id
        )
        self._log: BackingLog | None = None
        self._observe(History(settings.muster_history_events_per_group))
        self.topics = ClusterTopics(self._on_topic_deleted, settings.muster_topic_deletion_confirm_ms)
        self._watch = TopicWatch(cluster, self.topics)
        self._consumers = NodeGroupSettings(cluster, settings)
        self.placement = Placement(self._own_node(), controller_id=NO_LEADER)
        self._gateway: Gateway | None = None
        self.server = self._server(backing.behind)
        self._shards = self._make_shards()
        self._routing = Routing(self.placement, topic.partition_count)
        self._is_stopping = False
        self._changed = asyncio.Event()  # In a driver: where its ownership stands, or what it has read.
        self._group: NodeGroup | None = None
        self._collector = Collector(
            self.runtime.set_timer, self._clock.now_ms, lambda: self.server.has_connections, self._turn
        )

    def _own_node(self) -> PlacedNode:
        rack = self._settings.broker_rack
        return PlacedNode(self.node_id, lambda listener: self.server.endpoint_for(listener), rack)

    def _server(self, behind: Behind | None) -> Server:
        find = FindCoordinator(self.placement, {GROUP_METADATA_TOPIC: self._topic.partition_count})
        assignors = self._consumers.in_force.assignors
        groups = GroupApis(self.runtime, self._has_consumer_groups, assignors=assignors)
        topics_first = TopicsFirst(self.topics, self._settings.offsets_commit_timeout_ms / 1_000)
        of_groups = topics_first.handlers(groups.handlers())
        if behind is None:
            apis = NodeApis(self.placement, self.topics, lambda: self._cluster.cluster_id)
            handlers: dict[int, Handler] = {10: find, **of_groups, **apis.handlers()}
            table = api_table(handlers, groups.prepare(), self._features, groups.counts)
        else:
            gateway = Gateway(self._settings, behind, find, self.placement, lambda: self.server)
            gateway.on_metadata(self.topics.learn)
            table = gateway.table(of_groups, groups)
            self._gateway = gateway
        return Server(table, self._settings, self._clock, self.runtime.set_timer, self._readers, self._turn)

    def _observe(self, history: History) -> None:
        """Have what happens counted, kept and shown."""
        self._http: HttpServer | None = None
        self._stop_seeing_turns: Callable[[], None] | None = None
        self.turn_watch = TurnWatch(self._settings.muster_turn_log_ms, self._turn.begin)
        self._appends = Latencies()
        self.status = NodeStatus(self.node_id, lambda: self._drivers, boot_ms)
        parts = Parts(
            self.runtime,
            self._clock,
            self.turn_watch,
            {"kafka": self._appends},
            lambda: self.server,
            lambda: history,
        )
        self.metrics = Metrics(self._settings, parts, NoTopics(), self._readers)
        self.metrics.more = self.status.lines
        on_event = self.metrics.rebalances.add
        self._history = HistoryWriter(history, self._events, self.runtime.soon, on_event)

    def _has_consumer_groups(self) -> bool:
        return CONSUMER in self._settings.group_coordinator_rebalance_protocols

    def _features(self) -> FeatureLevels:
        return FeatureLevels({GROUP_VERSION: HIGHEST_LEVELS.levels[GROUP_VERSION]}, 0)

    def _make_shards(self) -> dict[int, BackedShard]:
        room = Room()
        settings, consumers = group_settings(self._settings), self._consumers.in_force
        kind = group_shards(lambda partition: Shard(partition, settings, self.topics, consumers))
        shards = {}
        for partition in range(self._topic.partition_count):
            backed_log = BackedLog(f"{self._topic.name}-{partition}", self._writing(partition), room)
            runner = GroupRunner(
                kind,
                partition,
                DurableLog(cast(Any, backed_log), self.runtime.log_host),
                self.runtime,
                max_batch_bytes=largest_batch_bytes(self._settings, self._topic),
                codec=Codec(self._settings.offsets_topic_compression_codec),
                commit_timeout_ms=self._settings.offsets_commit_timeout_ms,
            )
            shards[partition] = self._flusher.hosts[backed_log] = BackedShard(
                runner, backed_log, self.runtime
            )
            runner.release()
        self.runtime.open_shards([shard.runner for shard in shards.values()])
        return shards

    def _writing(self, partition: int) -> Callable[[bytearray, int], int]:
        return lambda batch, record_count: self._drivers[partition].write(batch, record_count)

    @property
    def _drivers(self) -> Mapping[int, ShardDriver]:
        return {} if self._log is None else self._log.drivers

    # The start.

    async def start(self) -> None:
        """Open the listeners, follow the logs, and join the other nodes. Raises StartupError, BackingError."""
        loop = asyncio.get_running_loop()
        self._stop_seeing_turns = see_turns(loop, self.turn_watch.turn_ended)
        await self._watch.start()
        await self._consumers.start()
        settings = self._settings
        await self._events.open(
            history_topic_config(
                settings.muster_history_topic_retention_ms, settings.muster_history_topic_retention_bytes
            )
        )
        try:
            await self.server.listen(self._settings.endpoints)
            if self._gateway is not None:
                await self._gateway.open()
        except BindError as error:
            raise StartupError(str(error)) from error
        self._collector.start()
        self.metrics.start()
        listeners = [listener.name for listener in self._settings.endpoints]
        endpoints = tuple(Endpoint(name, *self.server.endpoint_for(name)) for name in listeners)
        self._log = self._follow(endpoints)
        await self._log.start()
        own = NodeIdentity(
            self.node_id, uuid.uuid4().hex, self._clock.wall_ms(), endpoints, self._settings.broker_rack
        )
        await self._read_all()
        on_table = partial(self._on_table, own)
        nodes = Nodes(own, self._topic.partition_count, self._owners, on_table, self._clock.wall_ms)
        self._join(nodes)

    def _follow(self, endpoints: tuple[Endpoint, ...]) -> BackingLog:
        """The logs, with the shards as their hosts."""
        backing_log = BackingLog(
            self._cluster,
            self._topic,
            OwnNode(self.node_id, endpoints),
            self._shards,
            self._clock.wall_ms,
            OwnershipTiming(lease_ms=self._settings.muster_lease_ms),
        )
        for partition, shard in self._shards.items():
            driver = backing_log.drivers[partition]
            shard.attach(driver)
            driver.on_moved = self._on_moved
            driver.may_inherit = self._may_inherit
            driver.on_appended = self._appends.add
            driver.on_state = partial(self._on_state, partition)
        self._cluster.on_missing = partial(self.topics.doubt, self._topic.topic_id)
        return backing_log

    async def serve_http(self, explain: Explain | None = None) -> None:
        """Serve HTTP if it has listeners. Raises StartupError."""
        self._http = await serve_http(self._settings, self._turn, partial(self._sources, explain))

    def _sources(self, explain: Explain | None) -> Sources:
        from coordinator.http.sources import Sources

        return Sources(
            self._settings,
            self.runtime,
            self.server,
            self.metrics,
            self._history.history,
            self._readers,
            self.topics.topic_name,
            explain,
            nodes=self.status,
        )

    def _join(self, nodes: Nodes) -> None:
        client = self._client
        self._group = NodeGroup(client.bootstrap, client.arguments, self._topic.name, nodes, self._end)
        self._group.start()

    async def _read_all(self) -> None:
        """Wait until the logs are read, as long as there is more of them every READ_S."""
        before = -1
        while (read := sum(driver.position for driver in self._drivers.values())) > before:
            before = read
            if await self._until(lambda: all(driver.was_read for driver in self._drivers.values()), READ_S):
                return
        log.warning("not all logs could be read: whose each shard is is not known to this node")

    async def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait until it holds, which a change of the drivers may bring about, but no longer than so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds():
                    await self._changed.wait()
                    self._changed.clear()
        return holds()

    def _owners(self) -> dict[int, int]:
        """The ids of the nodes that own shards, by partition."""
        owners = {partition: driver.owner_id for partition, driver in self._drivers.items()}
        return {partition: owner for partition, owner in owners.items() if owner is not None}

    def _on_state(self, partition: int) -> None:
        self.status.on_state(partition)
        self._changed.set()

    def _on_moved(self, partition: int) -> None:
        self._routing.follow_claim(partition, self._drivers[partition].owner)

    def _on_table(self, own: NodeIdentity, table: NodeTable) -> None:
        """Own what the newest table says, unless another process has this node's id."""
        if len(table.owners) != self._topic.partition_count:
            self._end(
                f"topic {self._topic.name} has {self._topic.partition_count} partitions for this node and "
                f"{len(table.owners)} for others: groups would be looked for where they are not"
            )
            return
        holder = table.holder_of(self.node_id)
        if holder is not None and holder.incarnation != own.incarnation:
            places = ", ".join(f"{each.host}:{each.port}" for each in holder.endpoints)
            self._end(f"node.id={self._settings.node_id} is that of a node that is there, at {places}")
            return
        if self._is_stopping:
            return
        log.info("the nodes", node_ids=[node.node_id for node in table.nodes])
        self.status.table = table
        self._routing.follow_table(table)
        for partition, driver in self._drivers.items():
            driver.advise(table.owners[partition] == self.node_id, table.owners[partition])

    def _may_inherit(self) -> bool:
        """Whether this node is among the others: what is in the logs may be of a time before it."""
        return self.status.table is not None and not self._is_stopping

    def _end(self, reason: str) -> None:
        """Stop by itself, and say why."""
        self.reason = self.reason or reason
        self.ended.set()

    def _record_history(self, rows: tuple[HistoryRow, ...]) -> None:
        self._history.record(rows)

    def _on_topic_deleted(self, name: str, topic_id: bytes) -> None:
        if topic_id == self._topic.topic_id:
            self._end(f"topic {name} is not there any more, and with it all groups are gone")
        for runner in self.runtime.runners:
            self.runtime.do(partial(runner.topic_deleted, name, topic_id))

    # The end.

    async def stop(self) -> None:
        """Release all shards and leave the other nodes; then close the connections, and stop all parts."""
        self._is_stopping = True
        if self._stop_seeing_turns is not None:
            self._stop_seeing_turns()
        if self._http is not None:
            self._http.stop()
        if self._log is not None:
            await asyncio.gather(self._leave(), self._release())
            await self._log.close()
        await self._watch.close()
        await self._consumers.close()
        await self.server.stop_listening()
        self.server.stop_reading()
        self._collector.stop()
        self._history.close()
        await self._events.close()
        self.runtime.stop()
        self._readers.close()
        await asyncio.sleep(0)  # The outcomes of the last work come back in a turn of their own.
        await self.server.close_connections(LAST_ANSWERS_S)

    async def _leave(self) -> None:
        if self._group is not None:
            await self._group.close()

    async def _release(self) -> None:
        """Let go of all shards, for as long as that may take."""
        table = self.status.table
        heirs = {} if table is None else dict(enumerate(heirs_of(table, self.node_id)))
        for partition, driver in self._drivers.items():
            driver.advise(False, heirs.get(partition, NO_HEIR))
        if not await self._until(lambda: not self._holds_any(), RELEASE_S):
            log.warning("not all shards were released: their next owners have to wait")

    def _holds_any(self) -> bool:
        return any(driver.ownership.state is not FOLLOWING for driver in self._drivers.values())
