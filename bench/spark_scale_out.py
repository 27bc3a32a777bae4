"""What it costs to spread a job: CPU time per record on one worker of a cluster, and on two.

    python -m bench.spark_scale_out [--records 2000000] [--rounds 5] [--job commits]

One standalone cluster on loopback has three workers of one core. One driver has an executor on one of them, the
other has two executors on the others; both run the whole job over the same log (`bench.spark_decode` writes it),
from Kafka's source to Parquet, in turns. Counted is the CPU time, as the system accounts for it, of the executors'
JVMs and of all processes below them, Python's daemon and workers among them, from the start of a run to its end;
the drivers' is reported beside it. The first runs of each are not counted: there each executor's JVM compiles.
Which of the two begins changes with every round.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Final, Self

import psutil

from bench.machine import machine
from bench.offsets_log import SHARDS
from bench.spark_decode import write_log
from harness.daemon import MusterDaemon
from muster.spark.jobs.job import load_job
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.runner import run
from muster.spark.session import spark_session
from muster.spark.standalone import StandaloneCluster

ROOT: Final = Path(__file__).resolve().parent.parent
WORKERS: Final = (1, 2)  # Of the two drivers.
GROUPS: Final = 200
WARM_UP_RUNS: Final = 2  # As many records for every executor, before anything is counted.
LIMIT: Final = 1.15  # What two workers may cost a record, in terms of one.
END_TIMEOUT_S: Final = 60


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds of these and of all below them, also of those that have ended."""
    total = 0.0
    for process in processes:
        for each in (process, *process.children(recursive=True)):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class Driver:
    """A process with a Spark session of its own on `workers` workers; it runs the job on request."""

    def __init__(
        self, cluster: StandaloneCluster, workers: int, job: str, bootstrap: str, folder: Path
    ) -> None:
        self.workers = workers
        command = [sys.executable, "-m", "bench.spark_scale_out", "--job", job, "--driver", cluster.master]
        command += ["--workers", str(workers), "--bootstrap", bootstrap, "--out", str(folder)]
        self._process = subprocess.Popen(
            command,
            cwd=folder.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        app_id = self._answer()["app_id"]
        self._executors = [
            process
            for worker in cluster.worker_pids
            for process in psutil.Process(worker).children()
            if process.name() == "java" and app_id in process.cmdline()  # Others are gone as they are seen.
        ]
        assert len(self._executors) == workers, f"{len(self._executors)} executors instead of {workers}"

    def run(self) -> tuple[int, float, float]:
        """One run of the job: its records, and the CPU seconds of its executors and of its driver."""
        driver = psutil.Process(self._process.pid)
        before, before_driver = cpu_s(self._executors), cpu_s([driver])
        assert self._process.stdin is not None
        print("run", file=self._process.stdin, flush=True)
        records = int(self._answer()["records"])
        return records, cpu_s(self._executors) - before, cpu_s([driver]) - before_driver

    def _answer(self) -> dict[str, str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, str] = json.loads(line)
                return answer
        raise RuntimeError(f"the driver of {self.workers} workers ended with {self._process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the driver's stdin, by which it ends; else it is killed."""
        try:
            self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def drive(master: str, workers: int, job: str, bootstrap: str, out: Path) -> None:
    """The driver's process: run the job once per line on stdin, into a new folder each time."""
    settings = {"spark.cores.max": str(workers), "spark.executor.memory": "1g", "spark.driver.memory": "1g"}
    spark = spark_session(f"muster: bench of {workers}", settings, master=master)
    try:
        print(json.dumps({"app_id": spark.sparkContext.applicationId}), flush=True)
        for number, _ in enumerate(sys.stdin):
            options = RunOptions(bootstrap, str(out / str(number)))
            done = run(spark, load_job(job), options, lambda _: None)
            print(json.dumps({"records": done.records}), flush=True)
    finally:
        spark.stop()


def compare(drivers: Sequence[Driver], rounds: int) -> dict[int, list[float]]:
    """Warm both up, then let them run in turns; executors' CPU microseconds per record, by number of workers."""
    for driver in drivers:
        for _ in range(WARM_UP_RUNS * driver.workers):
            driver.run()
    costs: dict[int, list[float]] = {driver.workers: [] for driver in drivers}
    print(
        "| round | workers | records | executors, µs a record | driver | records per CPU second |\n"
        + "|---" * 6
        + "|"
    )
    for number in range(rounds):
        for driver in drivers if number % 2 == 0 else reversed(drivers):
            records, executors, its_driver = driver.run()
            costs[driver.workers].append(executors / records * 1e6)
            print(
                f"| {number + 1} | {driver.workers} | {records:,} | {executors / records * 1e6:.2f} "
                f"| {its_driver / records * 1e6:.2f} | {records / executors:,.0f} |",
                flush=True,
            )
    return costs


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--job", default="commits")
    parser.add_argument("--driver", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.driver:
        drive(given.driver, given.workers, given.job, given.bootstrap, given.out)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # So that all is ended.
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Machine: {machine()}. Load average at the start: {load}.\n", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-bench-")))
        stack.enter_context(chdir(folder))
        daemon = MusterDaemon(folder / "muster", {"offsets.topic.num.partitions": str(SHARDS)})
        write_log(daemon.log_dir, given.records, GROUPS)
        stack.enter_context(daemon)
        cluster = stack.enter_context(StandaloneCluster(folder / "cluster", workers=sum(WORKERS)))
        drivers = [
            stack.enter_context(
                Driver(cluster, workers, given.job, daemon.bootstrap, folder / f"out-{workers}")
            )
            for workers in WORKERS
        ]
        costs = compare(drivers, given.rounds)
    one, two = (statistics.median(costs[workers]) for workers in WORKERS)
    print(
        f"\nThe medians: {one:.2f} µs a record on one worker, {two:.2f} on two: {two / one:.3f} times as much."
    )
    return 0 if two <= LIMIT * one else 1


if __name__ == "__main__":
    sys.exit(main())
