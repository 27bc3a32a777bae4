"""What is served where: the table of paths, and the checks that every request goes through.

A request is checked in this order: method, Host and Origin, path, parameters. Handlers are in files of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.http.connection import Connection, Stream
from coordinator.http.event_streams import EventStreams
from coordinator.http.exchange import HttpProblem, Request, Route, Steps
from coordinator.http.guard import Guard
from coordinator.http.health import Health
from coordinator.http.sources import Sources

EVENTS: Final = "/api/v1/events"
METHODS: Final = "GET, HEAD"


class HttpSite:
    """All that HTTP serves."""

    def __init__(self, sources: Sources, names: Iterable[str]) -> None:
        """`names` are those that this daemon may be asked under, beside localhost."""
        self._sources = sources
        self._guard = Guard(names)
        self._streams = EventStreams(sources)
        self._routes = _routes(sources)

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        """Begin to answer. Raises HttpProblem."""
        if request.method not in ("GET", "HEAD"):
            raise HttpProblem(405, f"{request.method} changes things, and nothing is changed here.", {"Allow": METHODS})
        self._guard.check(request.headers.get("host"), request.headers.get("origin"))
        route = self._routes.get(request.path)
        if route is None:
            raise HttpProblem(404, "There is nothing here: see docs/http.md for the paths.")
        unknown = sorted(request.query.keys() - route.parameters)
        if unknown:
            known = ", ".join(sorted(route.parameters)) or "none"
            raise HttpProblem(400, f"A parameter of the query is not known; those known here: {known}.")
        if route.handler is not None:
            return route.handler(request), route.media_type
        return self._streams.open(request, connection)

    def on_time(self, now_ms: int) -> None:
        self._streams.on_time(now_ms)


def _routes(sources: Sources) -> dict[str, Route]:
    health = Health(sources.runtime, sources.runtime.now_ms)
    routes = {
        "/livez": Route(health.live),
        "/readyz": Route(health.ready, frozenset({"group"})),
        EVENTS: Route(None, frozenset({"group", "from"})),
    }
    return routes
