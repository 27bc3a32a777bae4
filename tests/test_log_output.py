"""The daemon's log: whole lines, and none that cannot be written ends anything."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
from pathlib import Path
from typing import TextIO, cast

import pytest

from harness.daemon import MusterDaemon
from harness.wire import WireClient
from muster.log_output import LogLines
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


class Disk(io.RawIOBase):
    """Takes so many bytes, then fails; None is room without end."""

    def __init__(self) -> None:
        self.written = b""
        self.room: int | None = None
        self.error: Exception = OSError(errno.ENOSPC, "no room")

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int | None:
        taken = bytes(cast(bytes, data))[: self.room]
        if not taken:
            raise self.error
        self.written += taken
        if self.room is not None:
            self.room -= len(taken)
        return len(taken)

    @property
    def lines(self) -> list[str]:
        return self.written.decode().splitlines()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log(disk: Disk) -> LogLines:
    return LogLines(io.TextIOWrapper(io.BufferedWriter(disk)))


def put(log: LogLines, line: str) -> None:
    """As structlog does."""
    print(line, file=cast(TextIO, log), flush=True)


def test_lines_are_written_whole_and_at_once(log: LogLines, disk: Disk) -> None:
    put(log, "one")
    assert disk.lines == ["one"]
    put(log, "two \udcff")
    assert disk.lines == ["one", "two \\udcff"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no room"), BrokenPipeError(), ValueError("closed")])
def test_a_line_that_cannot_be_written_is_dropped_and_the_next_one_says_how_many(
    log: LogLines, disk: Disk, error: Exception
) -> None:
    put(log, "before")
    disk.room, disk.error = 0, error
    for _ in range(3):
        put(log, "dropped")
    assert log.dropped == 3
    disk.room = None
    put(log, "after")
    put(log, "last")
    assert disk.lines[0] == "before"
    assert json.loads(disk.lines[1])["dropped"] == 3
    assert disk.lines[2:] == ["after", "last"]


def test_a_line_that_was_cut_off_does_not_run_into_the_next(log: LogLines, disk: Disk) -> None:
    disk.room = 4
    put(log, "half of this")
    disk.room = None
    put(log, "after")
    assert disk.lines[0] == "half"
    assert json.loads(disk.lines[1])["dropped"] == 1
    assert disk.lines[2:] == ["after"]


def test_a_stream_without_a_file_is_written_as_it_is() -> None:
    stream = io.StringIO()
    put(LogLines(stream), "line")
    assert stream.getvalue() == "line\n"
    stream.close()
    put(LogLines(stream), "dropped")


class Unheard(MusterDaemon):
    """Its log goes to a full disk."""

    def _command(self) -> list[str]:
        return ["/bin/sh", "-c", 'exec "$@" 2>/dev/full', "sh", *super()._command()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux' /dev/full")
def test_a_daemon_whose_log_cannot_be_written_serves_and_stops_cleanly(tmp_path: Path) -> None:
    with Unheard(tmp_path) as daemon:
        with WireClient(daemon.bootstrap) as client:
            for number in range(3):  # Each is a line of the log.
                topic = CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1)
                assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
        assert daemon.terminate() == 0
    assert not (daemon.log_dir / "muster-journal").exists()


def test_a_daemon_whose_log_is_read_no_further_goes_on(tmp_path: Path) -> None:
    """`muster serve 2>&1 >/dev/null | head -1`."""
    daemon = MusterDaemon(tmp_path)
    with subprocess.Popen(
        daemon._command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(daemon), text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.close()
        assert "ready" in process.stdout.readline()
        with WireClient(daemon.bootstrap) as client:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
        process.terminate()
        assert process.wait(30) == 0


def _environment(daemon: MusterDaemon) -> dict[str, str]:
    return {**os.environ, **daemon._environment()}
