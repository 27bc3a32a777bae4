"""Why something at the cluster does not work, in the log: what is tried again and again says each reason once.

What belongs to every change of leaders is a reason only if it lasts (`say_if_it_lasts`).
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.runtime.clock import boot_ms

PASSING_MS: Final = 10_000
"""So long a new topic's leaders are elected, or those of a broker that went, at the most: `say_if_it_lasts`."""


class Complaints:
    """Of one kind, as `words` with `labels` say; `about` names what can fail by itself."""

    def __init__(self, log: Any, words: str, **labels: Any) -> None:
        """`log` is structlog's of the module that complains."""
        self._log, self._words, self._labels = log, words, labels
        self._reasons: dict[str, str] = {}
        self._passing_since_ms: dict[str, int] = {}

    def say(self, reason: str, about: str = "", trace: Exception | None = None) -> None:
        """Log a reason once, until it is another or is over."""
        if self._reasons.get(about) == reason:
            return
        self._reasons[about] = reason
        labels = {**self._labels, "about": about} if about else self._labels
        self._log.warning(self._words, **labels, reason=reason, exc_info=trace)

    def bug(self, error: Exception, about: str = "") -> None:
        """`say` what should not have been raised, with its trace."""
        self.say(f"{type(error).__name__}: {error}", about, error)

    def say_if_it_lasts(self, reason: str, about: str = "") -> None:
        """`say`, once there was no `over` for PASSING_MS; until then it is for who debugs."""
        now_ms = boot_ms()
        if now_ms - self._passing_since_ms.setdefault(about, now_ms) >= PASSING_MS:
            self.say(reason, about)
        else:
            self._log.debug(self._words, **self._labels, about=about, reason=reason)

    def over(self, about: str = "") -> None:
        """It works."""
        self._reasons.pop(about, None)
        self._passing_since_ms.pop(about, None)
