"""What the analytics jobs cost per million records, and so at internet scale: on simulated histories.

Histories of offsets and of events are simulated (`python -m tools.simulate`), served by a daemon, and read once by
each job in a process of its own. Counted is the CPU time of all the job's processes (driver, JVM, Python's
workers), which a crowded machine changes less than the time that passes. The cost of a record is the slope between
the smallest and the largest size, so what a start costs is not in it; the size in between shows whether the cost
is linear. From it follow seconds, cores and bytes of Parquet for 100,000 groups; the arithmetic is printed.

    python -m bench.spark_scale_history [--jobs lag,commits,rebalances,members] [--scale 1.0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from harness.daemon import MusterDaemon
from tools.simulate.history import Options, choose

ROOT: Final = Path(__file__).resolve().parent.parent
# The histories end now: `lag` has a row for each minute in which a group is behind, up to the time of the run.
END: Final = datetime.now(UTC).replace(microsecond=0)
END_MS: Final = int(END.timestamp()) * 1_000
GROUPS: Final = 100_000
WEEK_DAYS: Final = 7
YEAR_DAYS: Final = 365
DAY_S: Final = 86_400
OFFSETS_JOBS: Final = ("lag", "commits")
EVENTS_JOBS: Final = ("rebalances", "members")
COMMITS: Final = (2_000_000, 6_000_000, 10_000_000)
EVENT_SAMPLES: Final = (0.01, 0.025, 0.04)  # Of the groups, for a week.
COMMIT_DAYS: Final = 0.25
SAMPLE_S: Final = 0.3
SERVED: Final = {
    "log.cleaner.enable": "false",
    "offsets.retention.minutes": str(2**31 - 1),
    "muster.history.topic.retention.ms": "-1",
    "muster.history.topic.retention.bytes": "-1",
    "log.retention.ms": "-1",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One job over one history."""

    job: str
    records: int
    cpu_s: float
    daemon_cpu_s: float
    elapsed_s: float
    parquet_bytes: int


def simulate(out: Path, *arguments: str) -> dict[str, Any]:
    """Write a history in a process of its own; what the command reports of it, and the CPU seconds it took."""
    command = [sys.executable, "-m", "tools.simulate", "--out", str(out)]
    command += ["--end", END.isoformat()]
    command += ["--groups", str(GROUPS), "--seed", "1", "--json", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    cpu_s = watch(process)
    assert process.stdout is not None
    report = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {**json.loads(report), "cpu_s": cpu_s}


def watch(process: subprocess.Popen[str]) -> float:
    """CPU seconds of a process and all below it, until it ends; of each, what was seen last."""
    seen: dict[tuple[int, float], float] = {}
    root = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            for each in (root, *root.children(recursive=True)):
                times = each.cpu_times()
                seen[each.pid, each.create_time()] = times.user + times.system
        except psutil.NoSuchProcess:
            pass  # It ended between being found and being asked; what it had is known from before.
        time.sleep(SAMPLE_S)
    return sum(seen.values())


@contextmanager
def served(logs: Path, scratch: Path) -> Iterator[MusterDaemon]:
    """A daemon upon a copy of the history: it writes into its log directory."""
    copy = scratch / "served"
    shutil.copytree(logs, copy)
    daemon = MusterDaemon(scratch / "daemon", {**SERVED, "log.dirs": str(copy)})
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.terminate()


def run_job(job: str, logs: Path, records: int) -> Run:
    """The job once over all of the history, on a daemon of its own."""
    with TemporaryDirectory(prefix="muster-scale-") as temporary:
        scratch = Path(temporary)
        with served(logs, scratch) as daemon:
            broker = psutil.Process(daemon.pid)
            before = sum(broker.cpu_times()[:2])
            command = [sys.executable, "-m", "muster", "spark", "run", job, "--bootstrap", daemon.bootstrap]
            command += ["--out", str(scratch / "tables"), "--json"]
            began_s = time.monotonic()
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            cpu_s, elapsed_s = watch(process), time.monotonic() - began_s
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
            if process.returncode or not lines:
                raise SystemExit(f"{job} ended with {process.returncode}")
            read = json.loads(lines[-1])["records"]
            print(f"  {job}: {read:,} records read, {cpu_s:.1f} CPU s", file=sys.stderr)
            assert read >= records, f"{job} has read {read:,} of {records:,} records"
            size = sum(path.stat().st_size for path in (scratch / "tables").glob("[!_]*/**/*.parquet"))
            daemon_s = sum(broker.cpu_times()[:2]) - before
            return Run(job, records, cpu_s, daemon_s, elapsed_s, size)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one job: what a million records cost, and what a start costs besides."""

    job: str
    cpu_s_per_million: float
    daemon_cpu_s_per_million: float
    parquet_mb_per_million: float
    start_cpu_s: float
    bend: float  # By how much the middle size is off the line, as a share.


def cost_of(runs: Sequence[Run]) -> Cost:
    """The line through the smallest and the largest run."""
    first, *between, last = sorted(runs, key=lambda run: run.records)
    million = (last.records - first.records) / 1e6
    slope = (last.cpu_s - first.cpu_s) / million
    start_s = first.cpu_s - slope * first.records / 1e6
    off = [abs(run.cpu_s / (start_s + slope * run.records / 1e6) - 1) for run in between]
    return Cost(
        job=first.job,
        cpu_s_per_million=slope,
        daemon_cpu_s_per_million=(last.daemon_cpu_s - first.daemon_cpu_s) / million,
        parquet_mb_per_million=(last.parquet_bytes - first.parquet_bytes) / million / 1e6,
        start_cpu_s=start_s,
        bend=max(off, default=0.0),
    )


def whole_week() -> tuple[float, float]:
    """Offset records and events of all groups in a week."""
    whole = choose(Options(groups=GROUPS, days=WEEK_DAYS, end_ms=END_MS, seed=1)).whole
    return whole.commits, whole.events


def print_tables(costs: Sequence[Cost], runs: Sequence[Run]) -> None:
    """What was measured, and what follows."""
    print("\n| job | records | CPU s | daemon's CPU s | elapsed s | Parquet MB |\n|---|---|---|---|---|---|")
    for run in runs:
        size = run.parquet_bytes / 1e6
        seconds = f"{run.cpu_s:.1f} | {run.daemon_cpu_s:.1f} | {run.elapsed_s:.0f}"
        print(f"| {run.job} | {run.records:,} | {seconds} | {size:.2f} |")
    commits, events = whole_week()
    print(f"\n{GROUPS:,} groups in {WEEK_DAYS} days: {commits:.3g} offset records, {events:.3g} events.\n")
    print(
        "| job | CPU s per million | off the line | CPU s a week | cores | Parquet a week | Parquet a year |"
    )
    print("|---|---|---|---|---|---|---|")
    for cost in costs:
        millions = (commits if cost.job in OFFSETS_JOBS else events) / 1e6
        week_s = cost.cpu_s_per_million * millions
        parquet_gb = cost.parquet_mb_per_million * millions / 1e3
        print(
            f"| {cost.job} | {cost.cpu_s_per_million:.2f} | {cost.bend:.0%} "
            f"| {cost.cpu_s_per_million:.2f} x {millions:,.1f} = {week_s:,.0f} "
            f"| {week_s:,.0f} / {WEEK_DAYS * DAY_S:,} = {week_s / (WEEK_DAYS * DAY_S):.3f} "
            f"| {cost.parquet_mb_per_million:.3f} MB x {millions:,.1f} = {parquet_gb:,.2f} GB "
            f"| x {YEAR_DAYS}/{WEEK_DAYS} = {parquet_gb * YEAR_DAYS / WEEK_DAYS:,.0f} GB |"
        )


def options_for(kind: str, size: float) -> list[str]:
    """The options of a simulated history: so many commits, or events of that share of the groups."""
    if kind == "events":
        return ["--sample", str(size), "--commits", "0", "--days", str(WEEK_DAYS)]
    sizes = ["--sample", "0.02", "--commits", str(size)]
    return [*sizes, "--days", str(COMMIT_DAYS), "--log-ends", "60"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default=",".join((*OFFSETS_JOBS, *EVENTS_JOBS)))
    parser.add_argument("--scale", type=float, default=1.0, help="of the histories' sizes")
    parser.add_argument("--json", type=Path, help="write the runs there, too, each as it ends")
    arguments = parser.parse_args()
    jobs = arguments.jobs.split(",")
    runs: list[Run] = []
    with TemporaryDirectory(prefix="muster-scale-") as scratch:
        for kind, wanted, sizes in (
            ("commits", OFFSETS_JOBS, [round(each * arguments.scale) for each in COMMITS]),
            ("events", EVENTS_JOBS, [each * arguments.scale for each in EVENT_SAMPLES]),
        ):
            for size in sizes if set(wanted) & set(jobs) else ():
                logs = Path(scratch) / f"{kind}-{size}"
                simulated = simulate(logs, *options_for(kind, size))
                print(
                    f"{kind}: {simulated[kind]:,} simulated in {simulated['cpu_s']:.1f} CPU s",
                    file=sys.stderr,
                )
                for job in (each for each in wanted if each in jobs):
                    runs.append(run_job(job, logs, simulated[kind]))
                    if arguments.json:
                        arguments.json.write_text(json.dumps([asdict(run) for run in runs], indent=1))
                shutil.rmtree(logs)
    costs = [cost_of([run for run in runs if run.job == job]) for job in jobs]
    print_tables(costs, runs)


if __name__ == "__main__":
    main()
