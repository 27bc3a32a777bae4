"""Logs are closed side by side at a stop: syncs wait for the disk together, and the marker for all of them."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from harness.daemon_thread import Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.wire import WireClient
from storage.files import File, Files
from tests.server.asking import TOPIC, make_topic, produce
from tests.storage.directories import filled, take
from tests.storage.logs import NOW_MS, batch

MEETING_S = 10.0
MARKER = ".kafka_cleanshutdown"


class MeetingFiles(Files):
    """Files of which the first syncs of the offset indexes of TOPIC's two partitions wait for each other."""

    def __init__(self) -> None:
        self.meeting = Barrier(2, timeout=MEETING_S)

    def _file(self, path: Path, fd: int) -> File:
        is_met = path.suffix == ".index" and path.parent.name.startswith(f"{TOPIC}-")
        return MeetingFile(path, fd, self.meeting) if is_met else File(path, fd)


class MeetingFile(File):
    __slots__ = ("meeting",)

    def __init__(self, path: Path, fd: int, meeting: Barrier) -> None:
        super().__init__(path, fd)
        self.meeting = meeting

    def sync(self) -> None:
        try:
            self.meeting.wait()
        except BrokenBarrierError:
            pytest.fail("a sync came alone")
        super().sync()


def test_a_stop_has_the_disk_sync_several_logs_at_once(tmp_path: Path) -> None:
    """Each log has half a dozen files to sync: one after the other, fifty of them are most of a short stop."""
    files = MeetingFiles()
    with Daemon(tmp_path, files) as daemon, WireClient(daemon.bootstrap) as client:
        make_topic(client, partitions=2)
        assert (produce(client, 0), produce(client, 1)) == (0, 0)
    assert not files.meeting.broken
    assert (tmp_path / MARKER).exists()


def test_what_cannot_be_closed_on_a_thread_is_reported_and_leaves_no_marker(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    logs = [filled(directory, partition=each) for each in range(3)]
    logs[1].append(batch(), wall_ms=NOW_MS)
    broken = OSError(errno.EIO, "broken")
    files.fault = lambda op: broken if op.name == "sync" and op.path.parent == logs[1].directory else None
    with ThreadPoolExecutor(3) as threads:
        failures = directory.close(threads.map)
    assert [(failure.operation, failure.path.parent.name) for failure in failures] == [("sync", "t-1")]
    assert not (tmp_path / MARKER).exists()
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    again.close()
