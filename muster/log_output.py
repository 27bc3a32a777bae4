"""Sets up the daemon's log: lines for people on a terminal, one JSON object per line anywhere else.

Import this module before anything that imports structlog (see `_import_structlog`). What the standard
library logs, asyncio's complaints above all, comes out in the same form. Nothing on the path of a request
logs. A log that cannot be written, as on a full disk, is no reason to stop: its lines are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType
from typing import Any, Final, TextIO, cast

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def _import_structlog() -> ModuleType:
    """Import structlog without rich, which structlog would import for tracebacks in colour.

    That costs a daemon that should answer within a second of its start some 60 ms; plain tracebacks do.
    """
    absent = object()
    before: Any = sys.modules.get("rich", absent)
    if before is absent:
        sys.modules["rich"] = None  # type: ignore[assignment]  # Python's own way to forbid an import.
    try:
        import structlog
    finally:
        if before is absent:
            del sys.modules["rich"]
    return structlog


structlog = _import_structlog()


class LogLines:
    """Writes whole lines to a stream; drops and counts those that it does not take, and never raises.

    The first line that can be written again comes behind one that says how many were dropped.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""
        self._is_cut = False  # The last line was written in part.
        self.dropped = 0

    def write(self, text: str) -> int:
        """Add to the line that `flush` writes."""
        self._line += text
        return len(text)

    def flush(self) -> None:
        line, self._line = self._line, ""
        report = self._report() if self.dropped else ""
        try:
            self._put(("\n" if self._is_cut else "") + report + line)
        except (OSError, ValueError):  # ValueError: it is closed. Where could this be said?
            self.dropped += 1
        else:
            self.dropped, self._is_cut = 0, False

    def _report(self) -> str:
        event = {
            "dropped": self.dropped,
            "event": "lines of this log could not be written",
            "level": "warning",
        }
        return json.dumps(event) + "\n"

    def _put(self, text: str) -> None:
        """Write past the stream's own buffer, which would keep what was refused, and refuse all that follows."""
        raw = getattr(getattr(self._stream, "buffer", None), "raw", None)
        if raw is None:
            self._stream.write(text)
            self._stream.flush()
            return
        data = text.encode(errors="backslashreplace")
        while data:
            written = raw.write(data)
            if not written:
                raise BlockingIOError("the reader of the log is behind")
            data = data[written:]
            self._is_cut = bool(data)


class _ToStructlog(logging.Handler):
    """Passes records of the standard library's logging to structlog, so that they have the same form."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def configure_log(level: str, stream: TextIO = sys.stderr) -> None:
    """Send the log to `stream` from now on. `level` is one of the values of muster.log.level."""
    threshold = _LEVELS[level]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not stream.isatty()),
            *_rendering(stream),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, LogLines(stream))),
    )
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(max(threshold, logging.WARNING))  # Below that level, libraries log for their authors.


def _rendering(stream: TextIO) -> list[Any]:
    if stream.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
