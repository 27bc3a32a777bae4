"""`muster serve` as a process: its one line, its signals, and what keeps it from starting."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import HOST, free_port

ROOT = Path(__file__).parent.parent
READY = re.compile(r"muster: ready on (\S+:\d+) \(log in (.+), started in \d+\.\d\d s\)\n")
TIMEOUT_S = 60


def serve(data: Path, port: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "muster", "serve", "--log-dirs", str(data), *arguments]
    return subprocess.Popen(
        [*command, "--listeners", f"PLAINTEXT://{HOST}:{port}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_ready_line_with_the_address_and_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    daemon = serve(tmp_path / "data", port)
    assert daemon.stdout is not None
    match = READY.fullmatch(daemon.stdout.readline())
    daemon.send_signal(number)
    rest, errors = daemon.communicate(timeout=TIMEOUT_S)
    assert match is not None, errors
    assert match.groups() == (f"{HOST}:{port}", str(tmp_path / "data"))
    assert (rest, daemon.returncode) == ("", 0)


HANGING = """
import asyncio
from muster.serve import stop_on_signals

async def main():
    stop = asyncio.Event()
    stop_on_signals(stop)
    print("running", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_a_second_signal_ends_a_stop_that_hangs() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGING], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGTERM


def test_port_0_is_any_free_port_and_the_ready_line_has_it(tmp_path: Path) -> None:
    daemon = serve(tmp_path, 0)
    assert daemon.stdout is not None
    match = READY.fullmatch(daemon.stdout.readline())
    assert match is not None
    host, port = match[1].split(":")
    socket.create_connection((host, int(port)), timeout=10).close()
    daemon.terminate()
    daemon.communicate(timeout=TIMEOUT_S)


def test_a_port_in_use_ends_the_start_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        daemon = serve(tmp_path, port)
        out, errors = daemon.communicate(timeout=TIMEOUT_S)
    assert (daemon.returncode, out) == (1, "")
    (sentence,) = [line for line in errors.splitlines() if line.startswith("muster: ")]
    assert str(port) in sentence
    assert "Traceback" not in errors


def test_a_directory_that_another_daemon_holds_ends_the_start_in_one_sentence(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path) as first:
        second = serve(first.log_dir, free_port())
        _, errors = second.communicate(timeout=TIMEOUT_S)
        assert second.returncode == 1
        (sentence,) = [line for line in errors.splitlines() if line.startswith("muster: ")]
        assert str(first.log_dir) in sentence
        assert "Traceback" not in errors


def test_another_number_of_offsets_partitions_ends_the_start_in_one_sentence(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, {"offsets.topic.num.partitions": "3"}) as first:
        assert first.terminate() == 0
    second = serve(first.log_dir, free_port(), "--override", "offsets.topic.num.partitions=4")
    _, errors = second.communicate(timeout=TIMEOUT_S)
    assert second.returncode == 1
    (sentence,) = [line for line in errors.splitlines() if line.startswith("muster: ")]
    assert {"__consumer_offsets", "3", "4"} <= set(re.findall(r"\w+", sentence))
    assert "Traceback" not in errors


def test_what_was_set_at_run_time_and_conflicts_with_this_start_is_named_and_does_not_keep_it_from_starting(
    tmp_path: Path,
) -> None:
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    stored = {"format": 1, "node": {least: "100000"}, "all": {}}
    (tmp_path / "dynamic-settings.json").write_text(json.dumps(stored))
    daemon = serve(tmp_path, 0, "--override", f"{most}=50000")
    assert daemon.stdout is not None
    ready = daemon.stdout.readline()
    daemon.terminate()
    _, errors = daemon.communicate(timeout=TIMEOUT_S)
    assert READY.fullmatch(ready), errors
    lines = [json.loads(line) for line in errors.splitlines()]
    (line,) = [line for line in lines if line["level"] == "error"]
    assert line["file"] == str(tmp_path / "dynamic-settings.json")
    assert f"{least}=100000" in line["settings"]
    assert f"{most}=50000" in line["settings"]


@pytest.mark.parametrize("topic", ["offsets.topic", "transaction.state.log"])
def test_segments_too_small_for_an_internal_topic_end_the_start_in_one_sentence(
    tmp_path: Path, topic: str
) -> None:
    daemon = serve(tmp_path, free_port(), "--override", f"{topic}.segment.bytes=16384")
    _, errors = daemon.communicate(timeout=TIMEOUT_S)
    assert daemon.returncode == 2
    assert errors == (
        f"muster: {topic}.segment.bytes=16384 (flag) must be a whole number from 1048576 to 2147483647\n"
    )


def test_what_is_ignored_of_kafkas_settings_is_one_line_of_json(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("process.roles=broker,controller\nnum.io.threads=8\n")
    daemon = serve(tmp_path / "data", 0, "--config", str(config))
    assert daemon.stdout is not None
    assert READY.fullmatch(daemon.stdout.readline())
    daemon.terminate()
    _, errors = daemon.communicate(timeout=TIMEOUT_S)
    lines = [json.loads(line) for line in errors.splitlines()]  # Not a terminal: every line is JSON.
    (line,) = [line for line in lines if "ignored" in line["event"]]
    assert (line["names"], line["level"]) == ("num.io.threads, process.roles", "warning")


def test_lines_below_the_level_of_the_log_are_left_out(tmp_path: Path) -> None:
    """What is ignored of a file is a warning."""
    config = tmp_path / "server.properties"
    config.write_text("num.io.threads=8\nmuster.log.level=error\n")
    daemon = serve(tmp_path / "data", 0, "--config", str(config))
    assert daemon.stdout is not None
    assert READY.fullmatch(daemon.stdout.readline())
    daemon.terminate()
    assert daemon.communicate(timeout=TIMEOUT_S) == ("", "")
