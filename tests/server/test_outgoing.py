"""Answers that are ranges of files: sent by the piece, in order, whatever the peer and the disk do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coordinator.server.outgoing import (
    PIECE_BYTES,
    SLOW_READERS_BYTES,
    SMALL_PIECE_BYTES,
    Outgoing,
    SlowReaders,
)
from coordinator.topics.workers import ThreadWorkers
from harness.doubles.inline_workers import finished
from storage.files import File, Files, StorageError
from storage.log.file_range import FileRange

CONTENT = bytes(range(251)) * 8000  # Some two megabytes, in no rhythm with a piece.


class SlowPeer(asyncio.Transport):
    """A transport whose peer takes `takes` bytes and no more, until `drain` is called."""

    def __init__(self, takes: int = 1 << 40) -> None:
        super().__init__()
        self.takes = takes
        self.taken = b""
        self.held = b""
        self.most_held = 0
        self.is_aborted = False
        self.out: Outgoing

    def write(self, data: Any) -> None:
        self.held += bytes(data)
        self.flush()

    def get_write_buffer_size(self) -> int:
        return len(self.held)

    def abort(self) -> None:
        self.is_aborted = True

    def flush(self) -> None:
        taken, self.held = self.held[: self.takes], self.held[self.takes :]
        self.taken += taken
        self.takes -= len(taken)
        self.most_held = max(self.most_held, len(self.held))
        if self.held:
            self.out.pause()

    def drain(self, takes: int) -> None:
        self.takes = takes
        self.flush()
        if not self.held:
            self.out.resume()


class SlowDisk:
    """Threads that do nothing until `finish`: what is read meanwhile has to wait without them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
        self.waiting.append((work, done))

    def finish(self) -> None:
        work, done = self.waiting.pop(0)
        done(finished(work))


class Line:
    """One connection's way out, and what it reported."""

    def __init__(self, takes: int = 1 << 40, slow: SlowReaders | None = None) -> None:
        self.peer, self.disk, self.slow = SlowPeer(takes), SlowDisk(), slow or SlowReaders()
        self.sent = 0
        self.failures: list[StorageError] = []
        self.out = self.peer.out = Outgoing(
            self.peer, self.disk, self.slow, self.on_sent, self.failures.append
        )

    def on_sent(self) -> None:
        self.sent += 1


@pytest.fixture
def file(tmp_path: Path) -> File:
    file = Files().open(tmp_path / "log", create=True)
    file.write_at([CONTENT], 0)
    return file


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(File, "read_at_nowait", lambda *_: None)


def test_ranges_and_bytes_leave_in_their_order(file: File) -> None:
    line = Line()
    line.out.send([b"head", FileRange(file, 5, 700_000), b"between", FileRange(file, 0, 10), b"tail"])
    assert line.peer.taken == b"head" + CONTENT[5:700_005] + b"between" + CONTENT[:10] + b"tail"
    assert (line.sent, line.out.is_idle) == (1, True)


def test_a_reader_that_does_not_read_holds_one_piece(file: File) -> None:
    """However much it asked for; and it is given the rest when it reads on."""
    line = Line(takes=100)
    line.out.send([b"head", FileRange(file, 0, len(CONTENT))])
    assert not line.out.is_idle
    while not line.out.is_idle or line.peer.held:
        line.peer.drain(100_000)
    assert line.peer.taken == b"head" + CONTENT
    assert line.peer.most_held <= PIECE_BYTES + 4
    assert line.slow.count == 0


def test_what_many_slow_readers_hold_is_bounded(file: File) -> None:
    slow = SlowReaders()
    full = SLOW_READERS_BYTES // PIECE_BYTES
    lines = [Line(takes=0, slow=slow) for _ in range(full + 10)]
    for line in lines:
        line.out.send([FileRange(file, 0, len(CONTENT))])
    assert sum(len(line.peer.held) for line in lines) == SLOW_READERS_BYTES + 10 * SMALL_PIECE_BYTES
    for line in lines:
        line.out.stop()
    assert slow.count == 0


@pytest.mark.usefixtures("cold")
def test_the_loop_does_not_wait_for_a_cold_disk(file: File) -> None:
    line = Line()
    line.out.send([b"head", FileRange(file, 0, 300_000), b"tail"])
    assert line.peer.taken == b"head"
    while line.disk.waiting:
        assert len(line.disk.waiting) == 1, "one piece is read at a time"
        line.disk.finish()
    assert line.peer.taken == b"head" + CONTENT[:300_000] + b"tail"
    assert line.sent == 1


@pytest.mark.usefixtures("cold")
def test_a_connection_that_is_gone_takes_no_more_from_the_disk(file: File) -> None:
    line = Line()
    line.out.send([FileRange(file, 0, 300_000)])
    line.out.stop()
    line.disk.finish()
    assert (line.peer.taken, line.disk.waiting, line.sent) == (b"", [], 0)


@pytest.mark.usefixtures("cold")
def test_a_file_that_cannot_be_read_to_its_end_ends_the_answer(file: File) -> None:
    line = Line()
    line.out.send([FileRange(file, len(CONTENT) - 10, 20), b"next answer"])
    line.disk.finish()
    assert [error.operation for error in line.failures] == ["read"]
    assert (line.peer.taken, line.sent) == (b"", 0)


def test_an_answer_behind_a_slow_one_waits_for_it(file: File) -> None:
    line = Line(takes=10)
    line.out.send([FileRange(file, 0, 400_000)])
    line.out.send([b"second"])
    assert b"second" not in line.peer.taken + line.peer.held
    while line.peer.held:
        line.peer.drain(1 << 20)
    assert line.peer.taken == CONTENT[:400_000] + b"second"


def test_a_segment_that_is_deleted_meanwhile_is_still_sent(file: File, tmp_path: Path) -> None:
    line = Line(takes=10)
    line.out.send([FileRange(file, 0, len(CONTENT))])
    (tmp_path / "log").unlink()
    while line.peer.held:
        line.peer.drain(1 << 20)
    assert line.peer.taken == CONTENT


async def test_others_are_served_while_the_disk_is_waited_for(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With real threads: the read ends only when the loop has gone on for a hundred turns."""
    loop, may_read, sent = asyncio.get_running_loop(), threading.Event(), asyncio.Event()

    def slow_read(file: File, length: int, position: int) -> bytes:
        assert may_read.wait(30), "the loop was held"
        return CONTENT[position : position + length]

    def unexpected(error: StorageError) -> None:
        pytest.fail(str(error))

    monkeypatch.setattr(File, "read_at_nowait", lambda *_: None)
    monkeypatch.setattr(File, "read_at", slow_read)
    peer, readers = SlowPeer(), ThreadWorkers(1, loop.call_soon_threadsafe, "reader")
    peer.out = Outgoing(peer, readers, SlowReaders(), sent.set, unexpected)
    peer.out.send([FileRange(file, 0, 1000)])
    for _ in range(100):
        await asyncio.sleep(0)
    assert (peer.taken, sent.is_set()) == (b"", False)
    may_read.set()
    await asyncio.wait_for(sent.wait(), 30)
    assert peer.taken == CONTENT[:1000]
    readers.close()


def test_answers_that_are_not_read_are_bounded_over_all_connections() -> None:
    """Who has waited longest is cut off, the newest never; a small piece, as all slow readers have, is free."""
    slow = SlowReaders(unread_bytes_max=3 * PIECE_BYTES)
    reader = Line(takes=0, slow=slow)
    reader.peer.write(bytes(SMALL_PIECE_BYTES))
    lines = [Line(takes=0, slow=slow) for _ in range(5)]
    for line in lines:
        line.peer.write(bytes(PIECE_BYTES))
    assert [line.peer.is_aborted for line in [reader, *lines]] == [False, True, True, False, False, False]
    lines[2].peer.drain(1 << 40)
    lines[3].peer.write(bytes(PIECE_BYTES))
    lines[3].out.on_more_written()
    assert not lines[3].peer.is_aborted, "there is room again"
    lines[3].peer.write(bytes(10 * PIECE_BYTES))
    lines[3].out.on_more_written()
    assert [lines[3].peer.is_aborted, lines[4].peer.is_aborted] == [True, False]
