"""Who cannot write waits here until it can: for room on a full disk, or for a disk that has its moods.

Room is looked for by one probe for everybody, a trial write of a few blocks, once a second while anybody waits:
free space alone does not tell (quotas, reserved blocks). So a full disk costs one failed write per log, and
no work per request: whoever waits refuses writes up front. Knows neither logs nor requests.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol

import structlog

from coordinator.purgatory.delayed import TimerOwner
from storage.files import StorageError

log = structlog.get_logger("muster.disk")

PROBE_INTERVAL_MS: Final = 1_000
TRY_AGAIN_MS: Final = 10_000
"""After so long a log that the disk would not let us use is tried again: files run out, disks come back."""


class Waiter(Protocol):
    """Somebody who cannot write."""

    def try_again(self) -> None:
        """There is hope; it may fail and wait again."""


class Timers(Protocol):
    """What sets deadlines: `owner.timer_fired(key)` is called."""

    def now_ms(self) -> int: ...
    def set_timer(
        self, owner: TimerOwner[Waiter | None], key: Waiter | None, deadline_ms: int | None
    ) -> None: ...


class Outages:
    """All methods run on the event-loop thread."""

    def __init__(
        self,
        timers: Timers,
        probe: Callable[[], None],
        run: Callable[[Callable[[], None], Callable[[Any], None]], None],
    ) -> None:
        """`probe` raises StorageError while there is no room; `run(work, done)` does work on a thread."""
        self._timers = timers
        self._probe = probe
        self._run = run
        self._waiting: dict[Waiter, None] = {}
        self._is_over = False

    @property
    def is_full(self) -> bool:
        """Whether anybody waits for room."""
        return bool(self._waiting)

    def wait_for_room(self, who: Waiter, error: StorageError) -> None:
        """`who` is told to try again when there is room; `error` is what it met."""
        if not self._waiting:
            log.error("no room on the disk: writes are refused until there is", error=str(error))
            self._set_timer(None, PROBE_INTERVAL_MS)
        self._waiting[who] = None

    def try_later(self, who: Waiter) -> None:
        """`who` is told to try again in a while."""
        self._set_timer(who, TRY_AGAIN_MS)

    def stop(self) -> None:
        """Tell nobody any more."""
        self._is_over = True

    def _set_timer(self, who: Waiter | None, delay_ms: int) -> None:
        self._timers.set_timer(self, who, self._timers.now_ms() + delay_ms)

    def timer_fired(self, who: Waiter | None) -> None:
        if self._is_over:
            return
        if who is not None:
            who.try_again()
        else:
            self._run(self._probe, self._on_probed)

    def _on_probed(self, probed: Future[None]) -> None:
        if self._is_over:
            return
        try:
            probed.result()
        except StorageError:  # Told when it began.
            self._set_timer(None, PROBE_INTERVAL_MS)
            return
        waiting, self._waiting = self._waiting, {}
        log.warning("there is room on the disk again: writes are accepted", logs=len(waiting))
        for who in waiting:
            who.try_again()
