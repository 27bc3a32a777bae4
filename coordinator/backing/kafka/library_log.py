"""What aiokafka logs, in the log of a node: each of its texts once a minute.

It logs every attempt to connect, and with a Kafka that is away there are dozens a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from coordinator.runtime.clock import boot_ms

AGAIN_MS: Final = 60_000
REMEMBERED_TEXTS: Final = 1_000
"""What is in them, such as addresses, is a cluster's: beyond so many all may be said again."""


class OnceAMinute(logging.Handler):
    """Hands records on to `then` unless one with the same text was handed on within AGAIN_MS."""

    def __init__(self, then: Callable[[logging.LogRecord], None], clock: Callable[[], int] = boot_ms) -> None:
        super().__init__()
        self._then = then
        self._clock = clock
        self._said_ms: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text, now_ms = record.getMessage(), self._clock()
        said_ms = self._said_ms.get(text)
        if said_ms is not None and now_ms - said_ms < AGAIN_MS:
            return
        if len(self._said_ms) >= REMEMBERED_TEXTS:
            self._said_ms.clear()
        self._said_ms[text] = now_ms
        self._then(record)


def quieten_aiokafka() -> None:
    """Have the library's records reach the log no other way."""
    logger = logging.getLogger("aiokafka")
    logger.propagate = False
    if not any(isinstance(handler, OnceAMinute) for handler in logger.handlers):
        logger.addHandler(OnceAMinute(logging.getLogger().handle))
