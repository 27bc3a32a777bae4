"""`make demo-cluster`: groups that go on when their node is killed, before an Apache Kafka with three nodes.

    python -m bench.demo_cluster

A Kafka 4.3.1 from its jars, three nodes, a producer, and consumers of two families: librdkafka's with the classic
protocol and with KIP-848, and kafka-python's. The node that coordinates most of the groups is killed. The exit
status is 0 only if every consumer goes on, no committed offset went back, and no group rebalanced for it.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.find_coordinator import FindCoordinatorRequest

NODES: Final = (1, 2, 3)
SHARDS: Final = 12
PARTITIONS: Final = 4
TOPIC: Final = "orders"
CLASSIC, NEW, OTHER = "billing", "shipping", "reports"
"""Groups of librdkafka with the classic protocol, of librdkafka with KIP-848, of kafka-python."""
PATIENCE_S: Final = 90.0
WRITE_EVERY_S: Final = 0.02
SESSION_MS: Final = 30_000


_MOVING: Final = (
    "_TIMED_OUT",
    "_TRANSPORT",
    "_WAIT_COORD",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
)


class DemoError(Exception):
    """Something is not as it has to be; the message says what."""


class Reader(threading.Thread):
    """One consumer that reads and commits until it is told to stop; `read` polls once and returns a count."""

    def __init__(self, group: str) -> None:
        super().__init__(daemon=True)
        self.group = group
        self.committed = self.rebalances = 0
        self.last_commit_s = 0.0
        self.longest_gap_s = 0.0
        self.error = ""
        self._is_stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                self.step()
        except (KafkaException, KafkaError) as error:
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self.close()

    def stop(self) -> None:
        self._is_stopping.set()
        self.join(PATIENCE_S)

    def counted(self, count: int) -> None:
        """So many more records are read and committed."""
        now_s = time.monotonic()
        if self.last_commit_s:
            self.longest_gap_s = max(self.longest_gap_s, now_s - self.last_commit_s)
        self.last_commit_s = now_s
        self.committed += count

    def step(self) -> None:
        """Read what there is, and commit it."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the group."""
        raise NotImplementedError


class Librdkafka(Reader):
    """A consumer of confluent-kafka."""

    def __init__(self, group: str, bootstrap: str, **settings: Any) -> None:
        super().__init__(group)
        given = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**given, "enable.auto.commit": False, "log_level": 0, **settings})
        self._consumer.subscribe([TOPIC], on_assign=self._on_assign)

    def _on_assign(self, _consumer: Consumer, _partitions: object) -> None:
        self.rebalances += 1

    def step(self) -> None:
        messages = [each for each in self._consumer.consume(100, 0.2) if each.error() is None]
        if not messages:
            return
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if not error.args[0].retriable() and not _is_moving(error.args[0].name()):
                raise
        else:
            self.counted(len(messages))

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Reader):
    """A consumer of kafka-python."""

    def __init__(self, group: str, bootstrap: str) -> None:
        super().__init__(group)
        self._consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
        )

    def step(self) -> None:
        found = self._consumer.poll(timeout_ms=200)
        if found:
            self._consumer.commit()
            self.counted(sum(map(len, found.values())))

    def close(self) -> None:
        self._consumer.close()


def _is_moving(error: str) -> bool:
    """Whether a commit failed since its group has another node now: the next one is of the same and later."""
    return error in _MOVING


class Cluster:
    """A Kafka and its nodes."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.kafka = running.enter_context(KafkaBroker(folder / "kafka"))
        self.nodes = {number: self._node(folder, number) for number in NODES}
        for node in self.nodes.values():
            running.enter_context(node)
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())

    def _node(self, folder: Path, number: int) -> MusterDaemon:
        settings = {
            "muster.backing.bootstrap.servers": self.kafka.bootstrap,
            "muster.clients": "gateway",
            "node.id": str(number),
            "offsets.topic.num.partitions": str(SHARDS),
        }
        return MusterDaemon(folder / f"node-{number}", settings)

    def coordinators(self, groups: Sequence[str]) -> dict[str, int] | None:
        """The number of the node that coordinates each group; None while one has none."""
        for node in self.nodes.values():
            if node._process is None:
                continue
            with WireClient(node.bootstrap) as client:
                found = client.ask(FindCoordinatorRequest(coordinator_keys=list(groups)), 4).coordinators
            if any(each.error_code for each in found):
                return None
            return {each.key: each.node_id - 1_000_000 for each in found}
        return None


def walk(cluster: Cluster, say: Callable[[str], None]) -> None:
    """All that is to be seen. Raises DemoError, TimeoutError."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
    every = [CLASSIC, NEW, OTHER]
    wait_until(lambda: cluster.coordinators(every), "every group has a coordinator", PATIENCE_S)
    readers: list[Reader] = [
        Librdkafka(CLASSIC, cluster.bootstrap, **{"session.timeout.ms": SESSION_MS}),
        Librdkafka(NEW, cluster.bootstrap, **{"group.protocol": "consumer"}),
        KafkaPython(OTHER, cluster.bootstrap),
    ]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0})
    is_over = threading.Event()
    writer = threading.Thread(target=_write, args=(producer, is_over), daemon=True)
    writer.start()
    for reader in readers:
        reader.start()
    try:
        _until_all_read(readers, "all consumers read and commit")
        say(f"2. Three consumers read `{TOPIC}` through the gateway: {_figures(readers)}.")
        found = cluster.coordinators(every)
        assert found is not None
        victim, count = Counter(found.values()).most_common(1)[0]
        before = {reader.group: reader.rebalances for reader in readers}
        say(f"3. Node {victim}, which coordinates {count} of their 3 groups, is killed.")
        killed_s = time.monotonic()
        cluster.nodes[victim].kill()

        def taken_over() -> bool:
            now = cluster.coordinators(every)
            return now is not None and victim not in now.values()

        wait_until(taken_over, "other nodes have the groups", PATIENCE_S)
        say(f"   Other nodes have its groups after {time.monotonic() - killed_s:.1f} s.")
        _until_all_read(readers, "all consumers go on")
        say(
            f"4. All go on: {_figures(readers)}; longest pause between commits "
            f"{max(reader.longest_gap_s for reader in readers):.1f} s."
        )
        moved = [each.group for each in readers if each.rebalances != before[each.group]]
        if moved:
            raise DemoError(f"the death of a node rebalanced {', '.join(moved)}")
        say("   No group rebalanced for it.")
    finally:
        is_over.set()
        writer.join(PATIENCE_S)
        for reader in readers:
            reader.stop()
    if failed := [f"{each.group}: {each.error}" for each in readers if each.error]:
        raise DemoError("; ".join(failed))
    producer.flush(PATIENCE_S)


def _write(producer: Producer, is_over: threading.Event) -> None:
    number = 0
    while not is_over.wait(WRITE_EVERY_S):
        producer.produce(TOPIC, f"order {number}", key=str(number))
        producer.poll(0)
        number += 1


def _until_all_read(readers: Sequence[Reader], what: str) -> None:
    """Wait until every one has committed more than it has now, twice."""
    for _ in range(2):
        known = {reader.group: reader.committed for reader in readers}

        def all_read(known: dict[str, int] = known) -> bool:
            return all(reader.committed > known[reader.group] for reader in readers)

        def failed() -> str | None:
            return next((f"{each.group}: {each.error}" for each in readers if each.error), None)

        wait_until(all_read, what, PATIENCE_S, failed)


def _figures(readers: Sequence[Reader]) -> str:
    return ", ".join(f"{reader.group} {reader.committed} records" for reader in readers)


def main() -> int:
    """Show it, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="muster-cluster-") as folder, ExitStack() as running:
        print("1. An Apache Kafka 4.3.1, and three nodes of Muster before it.", flush=True)
        cluster = Cluster(Path(folder), running)
        try:
            walk(cluster, lambda text: print(text, flush=True))
        except (DemoError, TimeoutError, RuntimeError, KafkaException) as error:
            print(error, file=sys.stderr)
            return 1
    print("All of it is as it has to be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
