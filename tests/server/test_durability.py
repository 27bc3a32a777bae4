"""No reply runs ahead of the disk: a whole daemon on a file layer that a test can hold, break and cut off."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.daemon_thread import DEADLINE_S, Daemon
from harness.doubles.faulty_files import FaultyFiles, Operation
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.messages.heartbeat import HeartbeatRequest
from tests.server.asking import GROUP, commit, committed, fetch, fetched, make_topic

A_LONG_ROUND_TRIP_S = 0.3


class HeldSyncs:
    """A file layer's fault that makes every sync of the journal wait until `release`."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self._released = threading.Event()

    def __call__(self, operation: Operation) -> None:
        if is_journal_sync(operation):
            self.waiting.set()
            assert self._released.wait(DEADLINE_S)

    def release(self) -> None:
        self._released.set()


def is_journal_sync(operation: Operation) -> bool:
    return operation.name == "sync" and operation.path.suffix == ".journal"


@pytest.fixture
def files(tmp_path: Path) -> FaultyFiles:
    return FaultyFiles(tmp_path)


@pytest.fixture
def daemon(tmp_path: Path, files: FaultyFiles) -> Iterator[Daemon]:
    with Daemon(tmp_path, files) as running:
        with WireClient(running.bootstrap) as client:
            make_topic(client)
        yield running


def answers_within(client: WireClient, seconds: float) -> bool:
    client.socket.settimeout(seconds)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        client.socket.settimeout(DEADLINE_S)


def test_a_commit_is_answered_after_its_fdatasync_and_heartbeats_do_not_wait(
    daemon: Daemon, files: FaultyFiles
) -> None:
    held = HeldSyncs()
    files.fault = held
    with WireClient(daemon.bootstrap) as committer, WireClient(daemon.bootstrap) as beater:
        committer.send(commit(7), 8)
        assert held.waiting.wait(DEADLINE_S), "the commit is on its way to the disk"
        for _ in range(100):
            beater.ask(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"), 4)
        assert not answers_within(committer, A_LONG_ROUND_TRIP_S)
        held.release()
        assert committed(committer.receive()) == 0


def test_a_read_is_answered_after_the_fdatasync_of_what_it_saw(daemon: Daemon, files: FaultyFiles) -> None:
    """O8: no client learns an offset that a power loss could still take back."""
    held = HeldSyncs()
    files.fault = held
    with WireClient(daemon.bootstrap) as committer, WireClient(daemon.bootstrap) as reader:
        committer.send(commit(7), 8)
        assert held.waiting.wait(DEADLINE_S)
        reader.send(fetch(), 8)
        assert not answers_within(reader, A_LONG_ROUND_TRIP_S)
        held.release()
        assert fetched(reader.receive()) == 7


def test_what_was_acknowledged_survives_a_power_loss(
    daemon: Daemon, files: FaultyFiles, tmp_path: Path
) -> None:
    with WireClient(daemon.bootstrap) as client:
        for offset in range(20):
            assert committed(client.ask(commit(offset), 8)) == 0
    files.crash()
    with Daemon(tmp_path, FaultyFiles(tmp_path)) as after, WireClient(after.bootstrap) as client:
        assert fetched(loaded(client)) == 19


def test_a_failed_fdatasync_is_an_error_and_the_next_commit_goes_well(
    daemon: Daemon, files: FaultyFiles
) -> None:
    """docs/kafka.md 2.1: a storage error is NOT_COORDINATOR (16); the shard reads its state again and goes on."""
    with WireClient(daemon.bootstrap) as client:
        assert committed(client.ask(commit(1), 8)) == 0
        broken = OSError(errno.EIO, os.strerror(errno.EIO))

        def fail_once(operation: Operation) -> OSError | None:
            if not is_journal_sync(operation):
                return None
            files.fault = None  # The journal's next sync, when it is cut back, comes later.
            return broken

        files.fault = fail_once
        assert committed(client.ask(commit(2), 8)) == 16
        assert fetched(loaded(client)) == 1, "as if the failed commit had never been"
        assert committed(client.ask(commit(3), 8)) == 0
        assert fetched(client.ask(fetch(), 8)) == 3


def loaded(client: WireClient) -> Any:
    """The first answer to `fetch` that is not "loading" (14)."""

    def ask() -> Any:
        answer = client.ask(fetch(), 8)
        return None if answer.groups[0].error_code == 14 else answer

    return wait_until(ask, "the shard is loaded", DEADLINE_S)
