"""What starts and stops alike, whether the logs are on the own disk or on a Kafka: how a start fails, and HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.http.server import HttpServer
    from coordinator.http.sources import Sources
    from coordinator.runtime.turn_share import TurnShare
    from coordinator.settings.model import Settings

READER_THREADS: Final = 2
"""Threads for reads that wait for the disk, such as fetches of data that is not in the page cache."""
LAST_ANSWERS_S: Final = 1.0
"""Longest time for which a stop waits for clients to read their last answers; most do at once."""


class StartupError(Exception):
    """Raised if the daemon cannot start; the text is one sentence for the person who started it."""


async def serve_http(
    settings: Settings, turn: TurnShare, sources: Callable[[], Sources]
) -> HttpServer | None:
    """Serve HTTP if it has listeners; what it needs, `sources` too, is imported only then. Raises StartupError."""
    if not settings.muster_http_listeners:
        return None
    from coordinator.http import start

    try:
        return await start.serve_http(sources(), turn)
    except start.HttpBindError as error:
        raise StartupError(str(error)) from error
