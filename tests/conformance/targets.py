"""The brokers under test: Apache Kafka and Muster, in the same configurations, started once per run.

`plain` has no initial delay, `delayed` has one and makes topics that are asked for, `small` has little room and
a short memory; `telemetry` takes clients' metrics; `secured` has users with rights of their own; `restarted` is
as `plain` and restarted early, while it has few partitions to load. Sessions may be as short as a tenth of a
second in all of them, so that no script waits long for one to end.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coordinator.settings.tokens import UNSECURED_OPTION
from coordinator.topics.names import GROUP_METADATA_TOPIC
from harness.daemon import ROOT, MusterDaemon
from harness.java_tools import compile_java
from harness.kafka_broker import SMALL, KafkaBroker
from harness.processes import ServerProcess
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.conformance.actors import OTHER_TOPIC, PARTITIONS, TOPIC
from tests.conformance.connection import Connection
from tests.conformance.earlier import EARLIER, Question
from tests.conformance.encrypted import TLS_LISTENERS, tls_settings
from tests.conformance.registry import Ending
from tests.conformance.secured import ALL_LISTENERS, SECURED, SECURITY
from tests.conformance.tokens import java_options, token_settings

MUSTER: Final = "muster"
DELAY_S: Final = 2
"""The initial rebalance delay where there is one: longer than any slow moment of the machine."""
POLICY: Final = "group.consumer.migration.policy"
"""Which cannot change while a broker runs: each configuration has one, and restarts bring the others."""
BASE: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": SMALL["offsets.topic.num.partitions"],
    "transaction.state.log.num.partitions": SMALL["transaction.state.log.num.partitions"],
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
LONG_SESSIONS: Final = {
    "group.consumer.max.session.timeout.ms": "180000",
    "group.consumer.session.timeout.ms": "180000",
}
"""Longer than a slow machine has members wait for a restart, which all scripts share; by default it is 45 s."""
MAX_PUSH_BYTES: Final = 4_096
TELEMETRY: Final = "telemetry"
CONFIGURATIONS: Final = {
    "plain": BASE,
    "restarted": BASE | LONG_SESSIONS,
    "delayed": BASE
    | LONG_SESSIONS
    | {
        "group.initial.rebalance.delay.ms": str(DELAY_S * 1000),
        "auto.create.topics.enable": "true",
        "group.consumer.max.size": "2",
    },
    "small": BASE
    | {
        "group.max.size": "2",
        "group.consumer.max.size": "2",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.regex.refresh.interval.ms": "10000",
        POLICY: "upgrade",
        "offset.metadata.max.bytes": "16",
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "1000",
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    },
    TELEMETRY: BASE | {"telemetry.max.bytes": str(MAX_PUSH_BYTES)},
    SECURED: BASE | SECURITY,
}
RECEIVERS: Final = {
    "kafka": {"metric.reporters": "TelemetryReceiver"},
    "muster": {"muster.client.metrics": "true"},
}
"""What has each kind of broker take clients' metrics."""
POLICY_AFTER: Final = {Ending.TERM: "bidirectional", Ending.KILL: "downgrade"}
"""What scripts begin with that end in SIGKILL is what SIGTERM has left."""
MAX_SIZE_AFTER: Final = {Ending.TERM: 4, Ending.KILL: 3}
AFTER_RESTART: Final[dict[str, dict[Ending, dict[str, str]]]] = {
    "restarted": {
        ending: {"group.max.size": str(size), POLICY: POLICY_AFTER[ending]}
        for ending, size in MAX_SIZE_AFTER.items()
    },
    "delayed": {
        Ending.TERM: {
            "offsets.retention.minutes": "1",
            "offsets.retention.check.interval.ms": "3000",
            POLICY: "disabled",
        }
    },
}
"""Settings that a restart brings: what is then too large (docs/kafka.md 3.31), too old (3.68) or refused (A54)."""
HEAP: Final = "320m"
NODE_ID: Final = 1
"""Which `KafkaBroker` gives, and Muster has by default."""
READY_TIMEOUT_S: Final = 60.0
PROBES: Final = [f"probe-{number}" for number in range(32)]  # Surely one in each of the few partitions.


@dataclass
class Target:
    """One broker, ready: its topics are there and its coordinator answers for every partition."""

    kind: str  # "kafka", "muster" or EARLIER
    configuration: str
    server: ServerProcess
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    unserved: frozenset[Question] = frozenset()  # What an earlier commit does not serve, and this one does.
    _leader_epochs: dict[int, int] = field(default_factory=dict)  # By offsets partition, in this life.

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def other_bootstraps(self) -> dict[str, str]:
        """The addresses of the listeners beside PLAINTEXT, by name."""
        names = (*ALL_LISTENERS, *TLS_LISTENERS) if self.configuration == SECURED else ()
        return {name: self.server.bootstrap_of(name) for name in names}

    @property
    def leaders(self) -> str | None:
        """The address of the partitions' leaders, if it is another."""
        return None

    @property
    def offsets_topic(self) -> str:
        """The topic that has the groups."""
        return GROUP_METADATA_TOPIC

    @property
    def node_ids(self) -> dict[str, Collection[int]]:
        """Those of the nodes that have been at its addresses."""
        return {self.bootstrap: (NODE_ID,)}

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)
        connection = await Connection.open(self.bootstrap, "setup")
        await _make_topics(connection)
        self.topic_ids = await _topic_ids(connection)
        await _coordinator_ready(connection)
        await _transactions_ready(connection)
        await _warm_up(connection)
        self._leader_epochs = await _leader_epochs(connection)
        connection.close()

    def kill(self) -> None:
        """End all that runs for it; harmless if nothing does."""
        self.server.kill()

    def end(self, ending: Ending) -> None:
        """Send the signal, and wait for nothing."""
        os.killpg(self.server.pid, signal.Signals[ending])

    async def start_again(self, ending: Ending) -> None:
        """Start the broker when it has ended, on the same port and data, with the settings of AFTER_RESTART."""
        await asyncio.to_thread(self.server.kill if ending is Ending.KILL else self.server.terminate)
        self._settings().update(AFTER_RESTART.get(self.configuration, {}).get(ending, {}))
        await asyncio.to_thread(self.server.start)

    async def ready(self) -> None:
        """Returns when every partition is loaded for good."""
        connection = await Connection.open(self.bootstrap, "setup")
        if self.kind == "kafka":
            self._leader_epochs = await _elected_again(connection, self._leader_epochs)
        await _coordinator_ready(connection)
        await _transactions_ready(connection)
        connection.close()

    def _settings(self) -> dict[str, str]:
        if isinstance(self.server, MusterDaemon):
            return self.server.overrides
        assert isinstance(self.server, KafkaBroker)
        return self.server.config

    @property
    def version(self) -> str:
        """The software that runs there: a broker of Kafka's says it in its own log."""
        if self.kind == "muster":
            return "Muster, this checkout"
        if self.kind == EARLIER:
            return "Muster, an earlier commit"
        found = re.search(r"Kafka version: (\S+)", self.server.log_path.read_text(errors="replace"))
        return f"Apache Kafka {found[1] if found else '(version unknown)'}"


@dataclass(frozen=True, slots=True)
class RestartOf:
    """One restart of `target`, by `ending`."""

    target: Target
    ending: Ending

    def end(self) -> None:
        self.target.end(self.ending)

    async def start_again(self) -> None:
        await self.target.start_again(self.ending)

    async def ready(self) -> None:
        await self.target.ready()


def new_target(kind: str, configuration: str, data_dir: Path, tree: Path = ROOT) -> Target:
    """A target that is not started yet, with its data under `data_dir`; an earlier Muster's is of `tree`."""
    config = CONFIGURATIONS[configuration]
    if configuration == TELEMETRY:
        config = {**config, **RECEIVERS["muster" if kind == EARLIER else kind]}
    directory = data_dir / f"{kind}-{configuration}"
    listeners: dict[str, str] = {}
    options: tuple[str, ...] = ()
    if configuration == SECURED:
        listeners = {**ALL_LISTENERS, **TLS_LISTENERS}
        keys = directory.with_name(f"{directory.name}-keys")
        config, options = {**config, **tls_settings(keys), **token_settings(kind)}, java_options()
    server: ServerProcess
    if kind == "kafka":
        plugins = _receiver() if configuration == TELEMETRY else ()
        server = KafkaBroker(
            directory, config, heap=HEAP, jvm_options=options, plugins=plugins, listeners=listeners
        )
    else:
        if configuration == SECURED:
            config = {**config, UNSECURED_OPTION: "true"}
        server = MusterDaemon(directory, config, listeners=listeners, tree=tree if kind == EARLIER else ROOT)
    return Target(kind, configuration, server)


def _receiver() -> tuple[Path, ...]:
    """The classes of the receiver of client metrics that Kafka is given."""
    return (compile_java(Path(__file__).parent / "java"),)


async def start_all(targets: list[Target], stack: AsyncExitStack) -> None:
    """Start them one after the other (a starting broker takes all the processor there is)."""
    for target in targets:
        stack.callback(target.kill)
        await target.start()


async def _make_topics(connection: Connection) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        for name in (TOPIC, OTHER_TOPIC)
    ]
    response = await connection.send(CreateTopicsRequest(topics=topics), 7)
    failed = [(topic.name, topic.error_message) for topic in response.topics if topic.error_code]
    assert not failed, failed


async def _topic_ids(connection: Connection) -> dict[str, bytes]:
    wanted = [MetadataRequestTopic(name=name) for name in (TOPIC, OTHER_TOPIC)]
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        response = await connection.send(MetadataRequest(topics=wanted), 12)
        if all(topic.error_code == 0 and len(topic.partitions) == PARTITIONS for topic in response.topics):
            return {topic.name: bytes(topic.topic_id) for topic in response.topics}
        await asyncio.sleep(0.1)
    raise TimeoutError("the topics did not show up")


async def _coordinator_ready(connection: Connection) -> None:
    """Wait until every partition of the offsets topic, which the first look-up makes, is loaded."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        found = await connection.send(FindCoordinatorRequest(coordinator_keys=PROBES), 4)
        described = await connection.send(DescribeGroupsRequest(groups=PROBES), 5)
        if not any(each.error_code for each in [*found.coordinators, *described.groups]):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError("the coordinator did not get ready")


async def _leader_epochs(connection: Connection) -> dict[int, int]:
    """The leader's epoch of each offsets partition that has one."""
    wanted = [MetadataRequestTopic(name=GROUP_METADATA_TOPIC)]
    (topic,) = (await connection.send(MetadataRequest(topics=wanted), 12)).topics
    return {each.partition_index: each.leader_epoch for each in topic.partitions if each.leader_id >= 0}


async def _elected_again(connection: Connection, before: dict[int, int]) -> dict[int, int]:
    """Wait until all offsets partitions have a leader of a later epoch than `before`; their epochs then.

    A Kafka broker that starts again loads what it led in its last life, is fenced until it has registered, gives
    everything up, and loads it a second time. Between the two it may answer from what it had read until then.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        epochs = await _leader_epochs(connection)
        if all(epochs.get(partition, -1) > epoch for partition, epoch in before.items()):
            return epochs
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the leaders are still those of the life before: {before}")


async def _transactions_ready(connection: Connection) -> None:
    """Wait until the transaction coordinator answers, and use up producer id 0, which also stands for none."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        keys = FindCoordinatorRequest(key_type=CoordinatorType.TRANSACTION, coordinator_keys=PROBES)
        found = await connection.send(keys, 4)
        listed = await connection.send(ListTransactionsRequest(), 0)
        given = await connection.send(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4
        )
        if not any(each.error_code for each in [*found.coordinators, listed, given]):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError("the transaction coordinator did not get ready")


async def _warm_up(connection: Connection) -> None:
    """A first write to each partition takes a cold broker longer than scripts expect of any request."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    for group_id in PROBES:
        await connection.send(OffsetCommitRequest(group_id=group_id, topics=topics), 9)
