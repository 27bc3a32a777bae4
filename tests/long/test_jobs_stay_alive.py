"""A continuous job outlives a restart of the daemon, and a topic deleted under it; SIGTERM ends it cleanly.

Run by itself: `.venv/bin/python -m pytest -n 0 tests/long/test_jobs_stay_alive.py`. It takes some minutes, since
minutes have to pass.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from harness import java_tools
from harness.daemon import ROOT, MusterDaemon
from harness.spark_tables import read_arrow
from tests.spark.offsets_records import PARTITIONS, OffsetsTopic, make_topic, write_at

DEADLINE_S = 420
POLL_S = 1


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MusterDaemon]:
    try:
        java_tools.java()
    except java_tools.JavaUnavailable as missing:
        pytest.skip(f"needs Java: {missing}")
    with MusterDaemon(tmp_path / "muster", {"offsets.topic.num.partitions": str(PARTITIONS)}) as found:
        yield found


def wait_for(condition: Callable[[], bool], job: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert job.poll() is None, f"the job ended with {job.returncode}, waiting for {what}"
        assert time.monotonic() < deadline, f"no {what} in {DEADLINE_S} s"
        time.sleep(POLL_S)


def lines(path: Path) -> list[dict[str, object]]:
    """What the job said so far, whole lines only: it may be writing one."""
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def test_a_continuous_job_outlives_a_restart_and_a_topic_that_is_deleted(
    daemon: MusterDaemon, tmp_path: Path
) -> None:
    topic = OffsetsTopic(daemon.bootstrap)
    now_ms = time.time_ns() // 1_000_000
    for name in ("kept", "deleted"):
        make_topic(daemon.bootstrap, name, 1)
        write_at(daemon.bootstrap, name, 0, [now_ms - 240_000 + 100 * number for number in range(100)])
        topic.commit("group", name, 0, 60, now_ms - 180_000)
    topic.flush()
    out, said = tmp_path / "out", tmp_path / "said"
    command = [sys.executable, "-m", "muster", "spark", "run", "lag", "--out", str(out), "--json",
               "--bootstrap", daemon.bootstrap, "--continuous", "--every", "5s", "--watermark", "1s"]  # fmt: skip
    with said.open("wb") as output:
        job = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=output)
    try:
        wait_for(lambda: "deleted" in topics_in(out), job, "rows of the first pass")
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        admin.delete_topics(["deleted"])["deleted"].result(30)
        daemon.kill()
        wait_for(lambda: any("trying again" in str(line["notes"]) for line in lines(said)), job, "a note")
        daemon.start()
        later = OffsetsTopic(daemon.bootstrap)
        committed_ms = time.time_ns() // 1_000_000
        for name in ("kept", "deleted"):
            later.commit("later", name, 0, 10, committed_ms)
        later.flush()
        wait_for(lambda: len(ends_of(out, "later")) == 2, job, "rows of the minute after the restart")
        assert ends_of(out, "later") == {"kept": 100, "deleted": None}
        # A pass prints its line when its tables are written: the rows can be read before that.
        missing = "no log ends of topics that are not there: deleted"
        wait_for(
            lambda: any(missing in str(line["notes"]) for line in lines(said)), job, "a note of the topic"
        )
        job.send_signal(signal.SIGTERM)
        assert job.wait(120) == 0
    finally:
        job.kill()
        job.wait()


def topics_in(out: Path) -> set[str]:
    return set(read_arrow(out, "lag").column("topic").to_pylist())


def ends_of(out: Path, group: str) -> dict[str, int | None]:
    rows = read_arrow(out, "lag").to_pylist()
    return {row["topic"]: row["log_end_offset"] for row in rows if row["group_id"] == group}
