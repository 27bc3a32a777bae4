"""Several Apache Kafkas that are one cluster, as processes on loopback: each is a broker and a voter in KRaft.

`with KafkaCluster(folder, 3, {"NODE1": "PLAINTEXT"}) as cluster: ... cluster.bootstrap`. Of three each has a
replica of every topic, and a write is acknowledged by two. Brokers may be ended and started again one by one.
Knows nothing of pytest.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from harness.kafka_broker import KafkaBroker, new_cluster_id
from harness.processes import HOST

HEAP: Final = "400m"
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
ELECTIONS: Final = {"leader.imbalance.check.interval.seconds": "5"}
"""Leaders go back to where they began soon after a broker is back, and not five minutes later."""


class ClusterBroker(KafkaBroker):
    """One of them; `voters` are the ports of all controllers by id, and are complete before the first start."""

    def __init__(
        self,
        data_dir: Path,
        node_id: int,
        voters: dict[int, int],
        config: Mapping[str, str],
        listeners: Mapping[str, str],
    ) -> None:
        super().__init__(data_dir, config, heap=HEAP, listeners=listeners)
        self.node_id = node_id
        self._voters = voters
        voters[node_id] = self.controller_port

    def _properties(self) -> dict[str, str]:
        voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in self._voters.items())
        return {
            **super()._properties(),
            "node.id": str(self.node_id),
            "controller.quorum.voters": voters,
        }


class KafkaCluster:
    """The brokers, by their ids from 1 on; each has the `listeners` (`ServerProcess`) beside PLAINTEXT."""

    def __init__(self, data_dir: Path, count: int, listeners: Mapping[str, str]) -> None:
        voters: dict[int, int] = {}
        config = {**REPLICATED, **ELECTIONS} if count > 1 else {}
        cluster_id = new_cluster_id()
        self.brokers: dict[int, ClusterBroker] = {}
        for node_id in range(1, count + 1):
            broker = ClusterBroker(data_dir / f"kafka-{node_id}", node_id, voters, config, listeners)
            broker.cluster_id = cluster_id
            self.brokers[node_id] = broker

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers.values())

    def __enter__(self) -> Self:
        """Start all at once: none is ready before most of them are there."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as threads:
                list(threads.map(KafkaBroker.start, self.brokers.values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.brokers.values():
            each.kill()
