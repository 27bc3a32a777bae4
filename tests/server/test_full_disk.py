"""A full disk: a daemon refuses writes up front, serves everything else, and takes writes again by itself."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import MusterDaemon
from harness.daemon_thread import Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from tests.server.asking import commit, committed, fetch, fetched, make_topic, produce
from tests.server.joining import beat, join, sync

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
PATIENCE_S = 30
QUIET_LOOKS = 50
"""In a row, at which nothing was done: each is a moment in which this process ran, however busy the machine."""


def joined_member(client: WireClient) -> Any:
    joined = client.ask(join(), 3)
    assert client.ask(sync(joined), 4).error_code == 0
    return joined


def serves_all_but_writes(client: WireClient, joined: Any, last_committed: int) -> None:
    """What a client of a daemon sees whose disk is full."""
    for _ in range(50):
        assert committed(client.ask(commit(1_000_000), 8)) == UNAVAILABLE
        assert client.ask(beat(joined), 4).error_code == 0
    assert fetched(client.ask(fetch(), 8)) == last_committed
    assert produce(client) == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.ask(sync(joined), 4).assignment == b"all"


def is_committed(client: WireClient, offset: int) -> bool:
    return committed(client.ask(commit(offset), 8)) == 0


def fill_up(client: WireClient, joined: Any) -> int:
    """Commit, produce and (a full disk) be refused; the last offset that was acknowledged."""

    def settled() -> bool:
        fetching: int = client.ask(fetch(), 8).groups[0].error_code
        beating: int = client.ask(beat(joined), 4).error_code
        return fetching == beating == 0

    offset = 1
    while is_committed(client, offset + 1):
        offset += 1
        assert offset < 10_000, "the disk has no room"
    while produce(client) == 0:
        pass
    wait_until(settled, "the shard has read what is durable", PATIENCE_S)
    return offset


def attempts(files: FaultyFiles) -> list[str]:
    """What was done to the disk, but for the trial that asks every second whether there is room."""
    return [str(operation) for operation in files.operations if "muster-room" not in str(operation)]


def is_quiet(files: FaultyFiles) -> bool:
    """Whether nothing is done to the disk for a second: the history's log is cut back in its own time."""
    before = len(attempts(files))
    for _ in range(QUIET_LOOKS):
        time.sleep(0.02)
    return len(attempts(files)) == before


def test_a_daemon_whose_disk_is_full_serves_and_writes_again_when_there_is_room(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = FaultyFiles(tmp_path)
    with Daemon(tmp_path, files) as daemon, WireClient(daemon.bootstrap) as client:
        make_topic(client)
        joined = joined_member(client)
        assert is_committed(client, 1)
        assert produce(client) == 0
        files.run_out_of_room(1000)
        last = fill_up(client, joined)
        wait_until(lambda: is_quiet(files), "every log that failed is cut back", PATIENCE_S)
        operations = len(attempts(files))
        serves_all_but_writes(client, joined, last)
        assert attempts(files)[operations:] == [], "a refusal costs the disk nothing"
        files.fault = None
        wait_until(lambda: is_committed(client, 77), "writes are taken again", PATIENCE_S)
        assert fetched(client.ask(fetch(), 8)) == 77
        wait_until(lambda: produce(client) == 0, "records are taken again", PATIENCE_S)
        assert client.ask(beat(joined), 4).error_code == 0
    said = capfd.readouterr()
    lines = (said.out + said.err).splitlines()
    assert len([line for line in lines if "no room on the disk" in line]) == 1
    assert len([line for line in lines if "room on the disk again" in line]) >= 1
    assert not (tmp_path / ".muster-room").exists()


class SmallDisk(MusterDaemon):
    """A daemon whose data directory is a tmpfs of a few MiB, mounted for it alone."""

    def _command(self) -> list[str]:
        mount = f'mount -t tmpfs -o size=4m none "{self.log_dir}" && exec "$@"'
        return ["unshare", "-m", "sh", "-c", mount, "sh", *super()._command()]

    def inside(self, name: str) -> Path:
        """A file in its data directory, as seen from outside."""
        return Path(f"/proc/{self.pid}/root{self.log_dir}/{name}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try_it = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run(try_it, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    few = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    daemon = SmallDisk(tmp_path, few)
    daemon.log_dir.mkdir()
    with daemon:
        yield daemon


def use_up(ballast: Path) -> None:
    """Write to `ballast` until there is no room."""
    file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    while write_page(file):
        pass
    os.close(file)


def write_page(file: int) -> bool:
    try:
        return os.write(file, bytes(4096)) > 0
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017 - no test of what raises.
        return False


def test_a_real_disk_that_is_full(small_disk: SmallDisk) -> None:
    """The same on a real file system, whose last pages are filled by another process."""
    with WireClient(small_disk.bootstrap) as client:
        make_topic(client)
        joined = joined_member(client)
        assert is_committed(client, 1)
        assert produce(client) == 0
        ballast = small_disk.inside("ballast")
        use_up(ballast)
        last = fill_up(client, joined)
        serves_all_but_writes(client, joined, last)
        os.unlink(ballast)
        wait_until(lambda: is_committed(client, 77), "writes are taken again", PATIENCE_S)
        wait_until(lambda: produce(client) == 0, "records are taken again", PATIENCE_S)
        assert client.ask(beat(joined), 4).error_code == 0
    assert small_disk.terminate() == 0
    log = small_disk.log_path.read_text()
    assert log.count("no room on the disk") == 1
    assert "Traceback" not in log
