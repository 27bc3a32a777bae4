"""End to end: flights through a Spark driver of its own, which is killed midway and started again.

At any time the sink has every record before the group's offsets; at the end the two are equal. The session that
other tests share is not needed here, and not started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.demo.flights import load_flights
from bench.demo.produce import FlightProducer
from harness.daemon import ROOT
from harness.observer import Observer, unique
from harness.processes import ServerProcess, wait_until

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 3_000
PARTITIONS = 3
KILLED_AFTER_ROWS = 900
SLOW_S, QUICK_S = 0.5, 0.0
DEADLINE_S = 180.0
LOG_TAIL_BYTES = 4_000


class Sink:
    """What the driver has written, as far as its batches are whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "rows"

    def rows(self) -> pd.DataFrame:
        parts = [part for part in self._folder.glob("batch_id=*") if (part / "_SUCCESS").exists()]
        tables = [pd.read_parquet(part) for part in parts]
        return pd.concat(tables) if tables else pd.DataFrame({"partition": [], "offset": []})

    def without_gap(self) -> dict[int, int]:
        """The first offset of each partition that is not there."""
        found = {}
        for partition, rows in self.rows().groupby("partition"):
            offsets = set(rows["offset"])
            found[int(str(partition))] = next(n for n in range(len(offsets) + 1) if n not in offsets)
        return found


@contextmanager
def driver(
    bootstrap: str, topic: str, group: str, folder: Path, seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """The job; it and its JVM are killed at the end of the block, if they still run."""
    command = [
        sys.executable,
        "-m",
        "tests.spark.progress.driver",
        bootstrap,
        topic,
        group,
        str(folder),
        str(seconds),
    ]
    with (folder / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_S)


def log_tail(folder: Path) -> str:
    return (folder / "driver.log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")


def described(bootstrap: str, group: str) -> dict[str, Any]:
    """What `muster groups describe` says of the group."""
    command = [
        sys.executable,
        "-m",
        "muster",
        "groups",
        "describe",
        group,
        "--json",
        "--bootstrap",
        bootstrap,
    ]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    (description,) = json.loads(shown.stdout)
    return dict(description)


def test_the_groups_offsets_are_what_the_sink_holds_through_a_kill_of_the_driver(
    spark_java: None, broker: ServerProcess, observer: Observer, tmp_path: Path
) -> None:
    topic, group, sink = observer.create_topic("flights", PARTITIONS), unique("flights-job"), Sink(tmp_path)
    assert FlightProducer(broker.bootstrap, lambda _: None).produce(topic, load_flights(ROWS)) == ROWS
    log_ends = observer.log_ends(topic, PARTITIONS)

    with driver(broker.bootstrap, topic, group, tmp_path, SLOW_S) as first:
        wait_until(
            lambda: sum(observer.committed(group, topic).values()) >= KILLED_AFTER_ROWS,
            "the group follows",
            DEADLINE_S,
            give_up=lambda: None if first.poll() is None else log_tail(tmp_path),
        )
    committed, written = observer.committed(group, topic), sink.without_gap()
    assert KILLED_AFTER_ROWS <= sum(committed.values()) < ROWS, "it was killed midway"
    assert all(offset <= written[partition] for partition, offset in committed.items()), (committed, written)
    state = described(broker.bootstrap, group)
    assert state["state"] == "Empty"
    assert sum(place["lag"] for place in state["progress"]) == ROWS - sum(committed.values())

    with driver(broker.bootstrap, topic, group, tmp_path, QUICK_S) as second:
        assert second.wait(DEADLINE_S) == 0, log_tail(tmp_path)
    rows = sink.rows()
    assert not rows.duplicated(["partition", "offset"]).any()
    newest = rows.groupby("partition")["offset"].max()
    ends = {int(partition): int(last) + 1 for partition, last in zip(newest.index, newest, strict=True)}
    assert observer.committed(group, topic) == ends == sink.without_gap()
    assert ends == {partition: end for partition, end in log_ends.items() if end}
    assert len(rows) == ROWS
