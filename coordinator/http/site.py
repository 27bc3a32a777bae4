"""What is served where: the table of paths, and the checks that every request goes through.

A request is checked in this order: method, Host and Origin, token, path, parameters. Handlers are in files of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator.data.broker import Broker
from coordinator.http import cluster_pages, group_list
from coordinator.http.cluster_pages import ClusterPages
from coordinator.http.connection import Connection, Stream
from coordinator.http.event_streams import EventStreams
from coordinator.http.exchange import HttpProblem, Question, Request, Route, Steps, split_target
from coordinator.http.group_list import GroupList
from coordinator.http.group_pages import GroupPages
from coordinator.http.guard import Guard
from coordinator.http.health import Health
from coordinator.http.parts import in_parts
from coordinator.http.sources import Nodes, Sources
from coordinator.http.token import OPEN_PATHS, BearerToken
from coordinator.http.work import StepQueue
from coordinator.metrics.metrics import CONTENT_TYPE

EVENTS: Final = "/api/v1/events"
EVENT_STREAM: Final = "text/event-stream; charset=utf-8"
METHODS: Final = "GET, HEAD"


class HttpSite:
    """All that HTTP serves."""

    def __init__(
        self, sources: Sources, names: Iterable[str], steps: StepQueue, token: BearerToken | None = None
    ) -> None:
        """`names` are those that this daemon may be asked under, beside localhost."""
        self._token = token
        texts = sources.settings.muster_http_listeners
        self._guard = Guard(names, {text.partition(":")[0].lower() for text in texts})
        data = sources.data
        self._streams = None if data is None else EventStreams(data.events, steps.run, sources.runtime.now_ms)
        self._routes = _routes(sources)

    def handle(self, request: Request, connection: Connection) -> tuple[Steps, str] | Stream:
        """Begin to answer. Raises HttpProblem."""
        if request.method not in ("GET", "HEAD"):
            raise HttpProblem(
                405, f"{request.method} changes things, and nothing is changed here.", {"Allow": METHODS}
            )
        self._guard.check(request.headers.get("host"), request.headers.get("origin"))
        path, query = split_target(request.target)
        if self._token is not None and path not in OPEN_PATHS:
            self._token.check(request.headers.get("authorization"))
        route = self._routes.get(path)
        if route is None:
            raise HttpProblem(404, "There is nothing here: see docs/http.md for the paths.")
        if query.keys() - route.parameters:
            known = ", ".join(sorted(route.parameters)) or "none"
            raise HttpProblem(400, f"A parameter of the query is not known; those known here: {known}.")
        if route.handler is not None:
            return route.handler(Question(query)), route.media_type
        if request.method == "HEAD":
            return _nothing(), EVENT_STREAM
        assert self._streams is not None, "there are streams where there is data"
        last_id = request.headers.get("last-event-id", "")
        return self._streams.open(Question(query), last_id, connection)

    def on_time(self, now_ms: int) -> None:
        if self._streams is not None:
            self._streams.on_time(now_ms)


def _nothing() -> Steps:
    yield None


def _routes(sources: Sources) -> dict[str, Route]:
    nodes, data = sources.nodes, sources.data
    health = Health(sources.runtime, sources.runtime.now_ms, None if nodes is None else nodes.not_ready)
    groups, group = GroupList(sources.runtime, sources.metrics), GroupPages(sources)
    routes = {
        "/livez": Route(health.live),
        "/readyz": Route(health.ready, frozenset({"group"})),
        "/metrics": Route(lambda _: _exposition(sources), media_type=CONTENT_TYPE),
        "/api/v1/groups": Route(groups.answer, group_list.PARAMETERS),
        "/api/v1/group": Route(group.group, frozenset({"id"})),
        "/api/v1/group/why": Route(group.why, frozenset({"id"})),
        "/api/v1/group/rebalances": Route(group.rebalances, frozenset({"id", "from", "limit"})),
        "/api/v1/group/lag": Route(group.lag, frozenset({"id", "minutes"})),
    }
    if nodes is not None:
        routes["/api/v1/nodes"] = Route(lambda _: _page_of(nodes))
    if data is not None:
        routes |= _routes_of_data(sources, data.broker)
    return routes


def _routes_of_data(sources: Sources, broker: Broker) -> dict[str, Route]:
    """What there is where topics are kept."""
    cluster = ClusterPages(sources, broker)
    return {
        "/api/v1/topics": Route(cluster.topics, cluster_pages.TOPIC),
        "/api/v1/transactions": Route(cluster.transactions, cluster_pages.TRANSACTIONS),
        "/api/v1/clients": Route(cluster.clients, cluster_pages.CLIENTS),
        "/api/v1/settings": Route(cluster.settings, frozenset({"q"})),
        EVENTS: Route(None, frozenset({"group", "from"})),
    }


def _page_of(nodes: Nodes) -> Steps:
    yield from in_parts(nodes.page())


def _exposition(sources: Sources) -> Steps:
    yield from sources.metrics.exposition()
