"""Sets up the daemon's log: lines for people on a terminal, one JSON object per line anywhere else.

Import this module before anything that imports structlog (see `_import_structlog`). What the standard
library logs, asyncio's complaints above all, comes out in the same form. Nothing on the path of a request
logs.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import Any, Final, TextIO

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
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    root = logging.getLogger()
    root.handlers = [_ToStructlog()]
    root.setLevel(max(threshold, logging.WARNING))  # Below that level, libraries log for their authors.


def _rendering(stream: TextIO) -> list[Any]:
    if stream.isatty():
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
