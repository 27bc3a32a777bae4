"""The journal's two threads: one writes frames, the other what is behind them; both report to the event loop.

What is scheduled while a frame is written goes into the next one, so under load the number of frames follows the
disk and not the requests. All book-keeping belongs to the event loop's thread. The second thread writes behind
WRITE_BEHIND_S after the first frame that it has not written, or as soon as WRITE_BEHIND_BYTES are behind; where a
reader waits it does so GATHER_S after that frame, so that readers see a commit within 20 ms. And it makes the
checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Final

from storage.files import OnFlushed, StorageError
from storage.flusher import Post
from storage.journal.journal import Journal, Outcomes
from storage.latencies import Latencies
from storage.log.staged_log import StagedLog

WRITE_BEHIND_S: Final = 0.2
"""A write costs the same for one batch of a log as for twenty, and 50 logs have some in each frame."""

WRITE_BEHIND_BYTES: Final = 1 << 20
GATHER_S: Final = 0.015
"""While a reader waits: under load a frame comes every few milliseconds, and what is behind waits for some."""

CHECKPOINT_S: Final = 30.0
CHECKPOINT_BYTES: Final = 64 << 20

Failed = dict[StagedLog, StorageError]


class JournalThreads:
    """`schedule` and `close` are for the event loop's thread only."""

    def __init__(
        self,
        journal: Journal,
        post: Post,
        call_soon: Callable[[Callable[[], None]], object],
        wall_ms: Callable[[], int],
        on_checkpoint: Callable[[], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """Start the threads.

        The second thread calls `on_checkpoint` once the segments are synced, and `on_error` with what kept it from
        its work, which is tried again.
        """
        self._journal = journal
        self._post = post
        self._call_soon = call_soon
        self._wall_ms = wall_ms
        self._on_checkpoint = on_checkpoint
        self._on_error = on_error
        self._scheduled: dict[StagedLog, list[OnFlushed]] = {}
        self._in_flight: dict[StagedLog, list[OnFlushed]] = {}
        self._is_begin_due = False
        self._rounds: SimpleQueue[dict[StagedLog, list[OnFlushed]] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Failed, BaseException | None, float]] = SimpleQueue()
        self.latencies = Latencies()
        """How long each frame took, with its sync."""
        self._is_behind = Event()
        self._is_wanted = Event()
        self._is_much_behind = Event()
        self._closed = False
        journal.want_written = self._is_wanted.set
        self._threads = [
            Thread(target=self._write_frames, name="journal", daemon=True),
            Thread(target=self._run_behind, name="write-behind", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    # The event loop's thread.

    def schedule(self, log: StagedLog, done: OnFlushed) -> None:
        """Have what is staged in `log` written to the journal; then `done(None)`, or `done(error)` if that failed.

        `done` runs on the event loop's thread, never within this call. All that is scheduled in one turn of the
        loop shares a frame.
        """
        assert not self._closed, "scheduled after close"
        self._scheduled.setdefault(log, []).append(done)
        if not self._is_begin_due and not self._in_flight:
            self._is_begin_due = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        self._is_begin_due = False
        if self._scheduled and not self._in_flight:
            self._in_flight, self._scheduled = self._scheduled, {}
            self._rounds.put(self._in_flight)

    def _settle(self) -> None:
        """Call back for the frame that has ended, and begin the next."""
        failed, bug, took_s = self._ended.get()
        self.latencies.add(took_s)
        ended, self._in_flight = self._in_flight, {}
        for log, waiting in ended.items():
            for done in waiting:
                try:
                    done(failed.get(log))
                except BaseException as error:  # Raised below: first the other logs are called back.
                    bug = bug or error
        self._begin()
        if bug is not None:
            raise bug  # It ends the loop's turn, as it would have ended any other caller's.

    def _on_behind(self, outcomes: Outcomes) -> None:
        for log, error in outcomes:
            log.on_written(error)

    def close(self) -> None:
        """Write all that was scheduled, run every `done`, and end the threads; then raise the first bug. Blocks.

        What is behind is left to the closing of the logs.
        """
        bug: BaseException | None = None
        self._begin()
        while self._in_flight:
            try:
                self._settle()
            except BaseException as error:  # Raised below.
                bug = bug or error
        self._closed = True
        self._rounds.put(None)
        self._is_behind.set()
        self._on_much_behind()
        for thread in self._threads:
            thread.join()
        if bug is not None:
            raise bug

    # The first thread.

    def _write_frames(self) -> None:
        while (logs := self._rounds.get()) is not None:
            failed: Failed = {}
            bug: BaseException | None = None
            began_s = monotonic()
            try:
                failed = self._journal.write(logs)
            except BaseException as error:  # Not swallowed: the event loop's thread raises it.
                bug = error
                failed = {log: StorageError("write", log.directory, repr(error)) for log in logs}
                for log, failure in failed.items():
                    log.frame_failed(failure)
            took_s = monotonic() - began_s
            self._is_behind.set()
            if self._journal.bytes_behind >= WRITE_BEHIND_BYTES:
                self._on_much_behind()
            self._ended.put((failed, bug, took_s))
            if not self._closed:
                self._post(self._settle_posted)

    def _settle_posted(self) -> None:
        if self._in_flight and not self._closed:  # Otherwise `close` has settled it.
            self._settle()

    # The second thread.

    def _run_behind(self) -> None:
        due_s = monotonic() + CHECKPOINT_S
        while not self._closed:
            is_behind = self._is_behind.wait(max(due_s - monotonic(), 0.0))
            try:
                if is_behind and not self._closed:
                    self._gather()
                    self._write_behind()
                if monotonic() >= due_s or self._journal.files.newest_bytes >= CHECKPOINT_BYTES:
                    due_s = monotonic() + CHECKPOINT_S
                    self._checkpoint()
            except BaseException as error:  # Reported, be it the disk's or a bug; the thread has to go on.
                self._report_error(error)

    def _report_error(self, error: BaseException) -> None:
        try:
            self._on_error(error)
        except BaseException as bug:  # The thread has to go on all the same; the loop's raises it.
            if not self._closed:
                self._post(partial(_raise, bug))

    def _gather(self) -> None:
        """Wait for more, since something is behind: not for long while a reader waits, and no longer for much."""
        began_s = monotonic()
        if self._is_wanted.wait(WRITE_BEHIND_S):
            self._is_much_behind.wait(max(began_s + GATHER_S - monotonic(), 0.0))

    def _on_much_behind(self) -> None:
        self._is_much_behind.set()
        self._is_wanted.set()

    def _write_behind(self) -> None:
        self._is_behind.clear()
        self._is_much_behind.clear()
        self._is_wanted.clear()
        self._report(self._journal.write_behind())

    def _report(self, outcomes: Outcomes) -> None:
        if outcomes and not self._closed:
            self._post(partial(self._on_behind, outcomes))

    def _checkpoint(self) -> None:
        if self._closed or not self._journal.needs_checkpoint:
            return
        self._report(self._journal.checkpoint(self._wall_ms(), self._meanwhile))
        self._on_checkpoint()

    def _meanwhile(self) -> None:
        if self._is_behind.is_set():
            self._write_behind()


def _raise(bug: BaseException) -> None:
    raise bug
