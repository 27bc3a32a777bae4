"""One server for the tests of this folder. Its intervals are fractions of a second, so nothing is waited for long.

`--target kafka` has the same tests judged by Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess
from tests.living.peer import Peer, connected

PRODUCER_EXPIRATION_MS = 1500
ZSTD = 4
SETTINGS = {
    "log.retention.check.interval.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "100",  # Kafka's alone: it would wait for half a minute.
    "producer.id.expiration.ms": str(PRODUCER_EXPIRATION_MS),
    "producer.id.expiration.check.interval.ms": "100",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.compression.codec": str(ZSTD),
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class FileDaemon(MusterDaemon):
    """A daemon whose settings come from a properties file, as a broker's do."""

    def _settings(self) -> list[str]:
        return ["--config", str(self.data_dir / "server.properties")]

    def _prepare(self) -> None:
        super()._prepare()
        text = "".join(f"{name}={value}\n" for name, value in self.overrides.items())
        (self.data_dir / "server.properties").write_text(text)


def started(target: str, data_dir: Path, settings: Mapping[str, str]) -> ServerProcess:
    return KafkaBroker(data_dir, settings) if target == "kafka" else FileDaemon(data_dir, settings)


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    target = str(pytestconfig.getoption("--target"))
    with started(target, tmp_path_factory.mktemp("living"), SETTINGS) as server:
        yield server


@pytest.fixture
def peer(server: ServerProcess) -> Iterator[Peer]:
    with connected(server) as peer:
        yield peer
