"""A real Apache Kafka for tests and benchmarks: one node in KRaft's combined mode, as a process on loopback.

`with KafkaBroker(data_dir, {"group.initial.rebalance.delay.ms": "0"}) as broker: ... broker.bootstrap`. The
storage is formatted on the first start and kept over restarts. Knows nothing of pytest; raises
`java_tools.JavaUnavailable` without Java or jars.
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from harness import java_tools
from harness.processes import HOST, ServerProcess, free_port

# One node can only hold one replica. The partitions are few so that a test's first group does not wait for
# fifty to be made.
SMALL: Final = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
FORMAT_TIMEOUT_S = 60
HEAP = "512m"

LOGGING: Final = """
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


def new_cluster_id() -> str:
    """One without a hyphen in front, as 1 in 64 has: the tool that formats storage takes that for an option."""
    return "M" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


class KafkaBroker(ServerProcess):
    """Apache Kafka 4.3.1 with `config` (Kafka's own names) over the defaults of `SMALL`.

    `heap` is the JVM's maximum and initial heap, `jvm_options` go to the JVM as they are. `plugins` are put on its
    class path. `listeners` are those beside PLAINTEXT (`ServerProcess`).
    """

    manners: ClassVar[tuple[str, ...]] = java_tools.SHORT_LIVED
    """The JVM's collector and compiler."""

    def __init__(
        self,
        data_dir: Path,
        config: Mapping[str, str] | None = None,
        *,
        heap: str = HEAP,
        jvm_options: tuple[str, ...] = (),
        plugins: tuple[Path, ...] = (),
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir, listeners)
        self.config = {**SMALL, **(config or {})}
        self.controller_port = free_port()
        self.cluster_id = new_cluster_id()
        self._plugins = plugins
        self._jvm = [f"-Xmx{heap}", f"-Xms{heap}", *self.manners, *jvm_options]

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    def _properties(self) -> dict[str, str]:
        served = self.listener_settings
        if "listener.security.protocol.map" in served:
            served["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            **served,
            "listeners": f"{served['listeners']},CONTROLLER://{HOST}:{self.controller_port}",
            "log.dirs": str(self.log_dir),
            **self.config,
        }

    def _prepare(self) -> None:
        """Write the properties; format the storage unless an earlier start has."""
        text = "".join(f"{name}={value}\n" for name, value in self._properties().items())
        self._properties_file.write_text(text)
        self._logging_file.write_text(LOGGING)
        if not (self.log_dir / "meta.properties").exists():
            self._format()

    def _format(self) -> None:
        command = self._java(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            self.cluster_id,
            "-c",
            str(self._properties_file),
            options=[*java_tools.SHORT_LIVED],
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"formatting Kafka's storage: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _command(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._properties_file), options=self._jvm)

    def _java(self, main: str, *arguments: str, options: list[str] | None = None) -> list[str]:
        path = java_tools.classpath(*self._plugins, *java_tools.logging_jars())
        logging = f"-Dlog4j2.configurationFile={self._logging_file}"
        return [java_tools.java(), *(options or []), logging, "-cp", path, main, *arguments]

    @property
    def _properties_file(self) -> Path:
        return self.data_dir / "server.properties"

    @property
    def _logging_file(self) -> Path:
        return self.data_dir / "log4j2.properties"


class MeasuredKafka(KafkaBroker):
    """One whose JVM chooses its collector and compiler for itself, as users let it."""

    manners = ()
