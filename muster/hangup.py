"""Holds SIGHUP back from the daemon's first lines on, until its settings are read.

With TLS it asks for renewed certificates, which a daemon that starts reads anyway; without TLS it ends the daemon.
Which of the two only the settings say, and to import what reads them is half of a start. The kernel remembers a
signal that is blocked, so nothing is lost meanwhile. This module imports nothing that takes time.
"""

from __future__ import annotations

import signal


class HeldHangup:
    """SIGHUP, blocked for this process's only thread from here on."""

    def __init__(self) -> None:
        self._mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

    def release(self, *, is_ignored: bool) -> None:
        """Let what has come, and what comes, act: it does nothing if `is_ignored`, else what it would have done.

        That is the end, at once if it has come; or nothing, for a process that was started by nohup.
        """
        if is_ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
