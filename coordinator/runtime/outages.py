"""Logs that cannot be written wait here until they can: for space on a full disk, or for a disk that fails
now and then.

While any log waits for space, one probe for all of them writes a few blocks once a second: the number of free
blocks does not show it (quotas, reserved blocks). So a full disk costs one failed write per log, and no work
per request: a log that waits refuses writes up front. Nothing here knows a log's content or a request.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol

import structlog

from coordinator.purgatory.delayed import DeadlineHost
from storage.files import StorageError

log = structlog.get_logger("muster.disk")

PROBE_INTERVAL_MS: Final = 1_000
TRY_AGAIN_MS: Final = 10_000
"""Pause before a log that failed is tried again: file descriptors may be free again, or the disk back."""


class UnusableLog(Protocol):
    """A log that waits until it can be written."""

    def try_again(self) -> None:
        """Try to use the log; on failure it waits again."""


class Outages:
    """The logs that wait, and the probe for space. All methods run on the event-loop thread."""

    def __init__(
        self,
        timers: DeadlineHost,
        probe: Callable[[], None],
        run: Callable[[Callable[[], None], Callable[[Any], None]], None],
    ) -> None:
        """`probe` raises StorageError while there is no space; `run(work, done)` runs it on a thread."""
        self._timers = timers
        self._probe = probe
        self._run = run
        self._waiting: dict[UnusableLog, None] = {}
        self._is_stopped = False

    @property
    def is_full(self) -> bool:
        """Whether any log waits for space."""
        return bool(self._waiting)

    def wait_for_disk_space(self, unusable: UnusableLog, error: StorageError) -> None:
        """Have `unusable.try_again()` called when there is space; `error` is that of its failed write."""
        if not self._waiting:
            log.error("no room on the disk: writes are refused until there is", error=str(error))
            self._set_timer(None, PROBE_INTERVAL_MS)
        self._waiting[unusable] = None

    def try_later(self, unusable: UnusableLog) -> None:
        """Have `unusable.try_again()` called in TRY_AGAIN_MS."""
        self._set_timer(unusable, TRY_AGAIN_MS)

    def stop(self) -> None:
        """Call no `try_again` from now on."""
        self._is_stopped = True

    def _set_timer(self, unusable: UnusableLog | None, delay_ms: int) -> None:
        self._timers.set_timer(self, unusable, self._timers.now_ms() + delay_ms)

    def timer_fired(self, unusable: UnusableLog | None) -> None:
        if self._is_stopped:
            return
        if unusable is not None:
            unusable.try_again()
        else:
            self._run(self._probe, self._on_probed)

    def _on_probed(self, probed: Future[None]) -> None:
        if self._is_stopped:
            return
        try:
            probed.result()
        except StorageError:  # Logged when the first log began to wait.
            self._set_timer(None, PROBE_INTERVAL_MS)
            return
        waiting, self._waiting = self._waiting, {}
        log.warning("there is room on the disk again: writes are accepted", logs=len(waiting))
        for unusable in waiting:
            unusable.try_again()
