"""Logs that cannot be used wait here until they can: for space on a full disk, or for a disk that fails
now and then.

Space is looked for by one probe for all, a trial write of a few blocks, once a second while any log waits: free
space alone does not show it (quotas, reserved blocks). So a full disk costs one failed write per log, and no work
per request: a log that waits refuses writes up front. Knows neither logs nor requests.
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
"""After so long a log that the disk would not let us use is tried again: files run out, disks come back."""


class UnusableLog(Protocol):
    """A log that waits."""

    def try_again(self) -> None:
        """It may be of use now; it may fail and wait again."""


class Outages:
    """All methods run on the event-loop thread."""

    def __init__(
        self,
        timers: DeadlineHost,
        probe: Callable[[], None],
        run: Callable[[Callable[[], None], Callable[[Any], None]], None],
    ) -> None:
        """`probe` raises StorageError while there is no space; `run(work, done)` does work on a thread."""
        self._timers = timers
        self._probe = probe
        self._run = run
        self._waiting: dict[UnusableLog, None] = {}
        self._is_over = False

    @property
    def is_full(self) -> bool:
        """Whether any log waits for space."""
        return bool(self._waiting)

    def wait_for_disk_space(self, unusable: UnusableLog, error: StorageError) -> None:
        """`unusable` tries again when there is space; `error` is what it met."""
        if not self._waiting:
            log.error("no room on the disk: writes are refused until there is", error=str(error))
            self._set_timer(None, PROBE_INTERVAL_MS)
        self._waiting[unusable] = None

    def try_later(self, unusable: UnusableLog) -> None:
        """`unusable` tries again in a while."""
        self._set_timer(unusable, TRY_AGAIN_MS)

    def stop(self) -> None:
        """Have nothing tried any more."""
        self._is_over = True

    def _set_timer(self, unusable: UnusableLog | None, delay_ms: int) -> None:
        self._timers.set_timer(self, unusable, self._timers.now_ms() + delay_ms)

    def timer_fired(self, unusable: UnusableLog | None) -> None:
        if self._is_over:
            return
        if unusable is not None:
            unusable.try_again()
        else:
            self._run(self._probe, self._on_probed)

    def _on_probed(self, probed: Future[None]) -> None:
        if self._is_over:
            return
        try:
            probed.result()
        except StorageError:  # Logged when it began.
            self._set_timer(None, PROBE_INTERVAL_MS)
            return
        waiting, self._waiting = self._waiting, {}
        log.warning("there is room on the disk again: writes are accepted", logs=len(waiting))
        for unusable in waiting:
            unusable.try_again()
