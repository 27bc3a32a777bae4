"""Why something at the cluster does not work, in the log: what is tried again and again says each reason once."""

from __future__ import annotations

from typing import Any


class Complaints:
    """Of one kind, as `words` with `labels` say; `about` names what can fail by itself."""

    def __init__(self, log: Any, words: str, **labels: Any) -> None:
        """`log` is structlog's of the module that complains."""
        self._log, self._words, self._labels = log, words, labels
        self._reasons: dict[str, str] = {}

    def say(self, reason: str, about: str = "", trace: Exception | None = None) -> None:
        """Log a reason once, until it is another or is over."""
        if self._reasons.get(about) == reason:
            return
        self._reasons[about] = reason
        labels = {**self._labels, "about": about} if about else self._labels
        self._log.warning(self._words, **labels, reason=reason, exc_info=trace)

    def over(self, about: str = "") -> None:
        """It works."""
        self._reasons.pop(about, None)
