"""Runs a Spark standalone cluster on loopback: a master and workers, from the Spark inside PySpark.

For trying a job on a cluster before there is one, and for tests. `python -m muster.spark.standalone` starts it,
prints the master's URL, and ends all it started on Ctrl-C. Every port is one that the system chose, and on
127.0.0.1 only: a standalone cluster runs what it is sent, without asking who sends it. Knows nothing of
sessions and of Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Final, Self

from muster.sentences import say
from muster.spark.java import SparkUnavailableError, require_spark

LOOPBACK: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 120  # Three JVMs at once on two busy cores were seen to take half of that.
END_TIMEOUT_S: Final = 20
DAEMON_MEMORY: Final = "256m"
_LOG_LINES_SHOWN: Final = 15

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_MASTER_IS_UP: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IS_KNOWN: Final = re.compile(r"Successfully registered with master (spark://\S+)")
_KEPT_VARIABLES: Final = ("PATH", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "TMPDIR")


class StandaloneCluster:
    """A master and `workers` workers of `cores` cores and `memory` each, with their files under `folder`.

    A context manager: within it both are up and know each other at `master`. The workers' processes have
    `environment` and nothing else; SPARK_HOME and PYSPARK_PYTHON in it say which Spark and which Python
    executors run on, by default this process's own. Raises SparkUnavailableError if one does not start.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.master = ""  # spark://127.0.0.1:port, once the master is up.
        self._resources = ["--cores", str(cores), "--memory", memory]
        self._workers = workers
        self._environment = environment if environment is not None else worker_environment()
        self._processes: list[SparkProcess] = []

    @property
    def worker_pids(self) -> list[int]:
        """The ids of the workers' processes; executors and their Python are children of these."""
        return [process.pid for process in self._processes[1:]]

    def __enter__(self) -> Self:
        try:
            address = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
            master = self._start("master", MASTER, address, worker_environment(), _MASTER_IS_UP)
            self.master = master.await_up()
            workers = [self._start_worker(number, address) for number in range(1, self._workers + 1)]
            for worker in workers:
                worker.await_up()
        except BaseException:  # Raised again; no process may be left.
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def wait(self) -> str:
        """Wait until one of the processes ends, which is a failure, and return its name."""
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        for process in self._processes:
            process.at_end(ended)
        return ended.get()

    def end(self) -> None:
        """End all processes, workers first, so that they can deregister at the master. A repeat is harmless."""
        for group in (self._processes[1:], self._processes[:1]):
            for process in group:
                process.terminate()
            for process in group:
                process.wait()
        self._processes.clear()

    def _start_worker(self, number: int, address: list[str]) -> SparkProcess:
        name = f"worker-{number}"
        arguments = [*address, *self._resources, "--work-dir", str(self.folder / name / "work"), self.master]
        return self._start(name, WORKER, arguments, self._environment, _WORKER_IS_KNOWN)

    def _start(
        self,
        name: str,
        main_class: str,
        arguments: list[str],
        environment: Mapping[str, str],
        up: re.Pattern[str],
    ) -> SparkProcess:
        home = self.folder / name
        (home / "conf").mkdir(parents=True)  # Empty: the machine's own configuration may say anything.
        own = {
            "SPARK_CONF_DIR": str(home / "conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        }
        command = [str(Path(environment["SPARK_HOME"], "bin", "spark-class")), main_class, *arguments]
        process = SparkProcess(name, command, {**environment, **own}, home, up)
        self._processes.append(process)
        return process


class SparkProcess:
    """One process in a group of its own, so that it gets no Ctrl-C; `log` in its folder has its output."""

    def __init__(
        self, name: str, command: list[str], environment: Mapping[str, str], folder: Path, up: re.Pattern[str]
    ) -> None:
        self.name = name
        self._log = folder / "log"
        self._up = up
        self._ready_lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def await_up(self) -> str:
        """Wait until it is up, and return what it printed then. Raises SparkUnavailableError if it never is."""
        try:
            line = self._ready_lines.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            raise SparkUnavailableError(
                f"the Spark {self.name} is not up after {START_TIMEOUT_S} s\n{self._tail()}"
            ) from None
        if line is None:
            raise SparkUnavailableError(f"the Spark {self.name} does not start\n{self._tail()}")
        return line

    def at_end(self, ended: queue.SimpleQueue[str]) -> None:
        """Put the name of this process into `ended` when it has ended."""

        def watch() -> None:
            self._reader.join()
            ended.put(self.name)

        threading.Thread(target=watch, daemon=True).start()

    def terminate(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the process has ended; kill it if that takes too long."""
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join(END_TIMEOUT_S)

    def _read(self, output: IO[str]) -> None:
        """Copy the process's output to its log, and pass on the line that says that it is up."""
        with output, self._log.open("w") as log:
            for line in output:
                log.write(line)
                log.flush()
                if found := self._up.search(line):
                    self._ready_lines.put(found[1])
        self._ready_lines.put(None)

    def _tail(self) -> str:
        return "\n".join(self._log.read_text().splitlines()[-_LOG_LINES_SHOWN:])


def worker_environment() -> dict[str, str]:
    """The part of this process's environment that a worker gets: this Python and this Spark, no PYTHONPATH."""
    import pyspark

    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}


def main(arguments: list[str] | None = None) -> int:
    """Run a Spark cluster until Ctrl-C or SIGTERM; return 1 if it does not start or a part of it ends, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m muster.spark.standalone", description="A Spark standalone cluster on 127.0.0.1."
    )
    parser.add_argument("--workers", type=int, choices=range(1, 17), default=2, metavar="1..16")
    parser.add_argument("--cores", type=int, choices=range(1, 65), default=1, metavar="1..64", help="of each")
    parser.add_argument("--memory", default="1g", help="of each worker, for its executors, as 1g")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        require_spark()
        with TemporaryDirectory(prefix="muster-spark-cluster-") as folder:
            return _run(Path(folder), options)
    except SparkUnavailableError as missing:
        say(missing)
        return 1
    except KeyboardInterrupt:
        return 0


def _run(folder: Path, options: argparse.Namespace) -> int:
    cluster = StandaloneCluster(folder, workers=options.workers, cores=options.cores, memory=options.memory)
    with cluster:
        print(f"{cluster.master} has {options.workers} workers; end it by Ctrl-C", flush=True)
        say(f"the Spark {cluster.wait()} has ended, and the cluster with it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
