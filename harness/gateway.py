"""A gateway for tests: one node of Muster whose log is on a real Apache Kafka, which clients reach through it.

It has the interface of `kafka_broker.KafkaBroker`. What is killed or restarted is the node; its Kafka starts
with it the first time, and ends with the context. Ready means that every group is
served. Knows nothing of pytest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import free_port, wait_until
from harness.wire import WireClient
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

BROKER_ID: Final = 1
GATEWAY_ID: Final = 1_000_001
"""The id of the node as clients see it: `muster.node.id.base` and its `node.id`."""
PARTITIONS: Final = 4
TRANSACTING: Final = "transacting"
"""What the names of groups begin with that stay with the brokers: transactions have no offsets of others yet."""
SERVED_TIMEOUT_S: Final = 60.0


class Gateway(MusterDaemon):
    """A node in front of a Kafka of its own; both have `config`, of which each uses what is its part."""

    group_prefix = "group-"
    """What the names of groups that it coordinates may begin with."""

    def __init__(self, data_dir: Path, config: Mapping[str, str] | None = None) -> None:
        self.kafka = KafkaBroker(data_dir / "kafka", config)
        port = free_port([self.kafka.port])
        overrides = {
            "muster.backing.bootstrap.servers": self.kafka.bootstrap,
            "muster.clients": "gateway",
            "muster.gateway.first.port": str(port - BROKER_ID),
            "offsets.topic.num.partitions": str(PARTITIONS),
            "muster.groups.include": f"(?!{TRANSACTING}).*",
            **(config or {}),
        }
        super().__init__(data_dir / "node", overrides)

    @property
    def log_dir(self) -> Path:
        """That of the brokers' data; a node has none."""
        return self.data_dir.parent / "kafka" / "logs"

    def start(self) -> Self:
        if self.kafka._process is None:
            self.kafka.start()
        super().start()
        try:
            wait_until(self._serves_all, f"{self} serves its groups", SERVED_TIMEOUT_S, self._exit_reason)
        except Exception:
            self.kill()
            raise
        return self

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except Exception:
            self.kafka.kill()
            raise

    def __exit__(self, *reason: object) -> None:
        super().__exit__(*reason)
        self.kafka.kill()

    def _serves_all(self) -> bool:
        """Whether groups of all shards are answered: a hundred names leave none out. An heir waits for a lease."""
        names = [f"{self.group_prefix}{number}" for number in range(100)]
        with WireClient(self.bootstrap) as client:
            groups = [OffsetFetchRequestGroup(group_id=name) for name in names]
            answer = client.ask(OffsetFetchRequest(groups=groups), 8)
        return not any(each.error_code for each in answer.groups)
