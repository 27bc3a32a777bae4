"""Tells what happens in a simulation, line by line, for whoever has to find out why a seed fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from coordinator.effects import Event, RequestReceived, Result, TimerFired
from coordinator.shard.shard import Shard
from tests.simulation.server import Server
from tests.simulation.simulation import Simulation
from tests.simulation.witness import Witness

TEXT_MAX_CHARS = 200


@contextmanager
def told(simulation: Simulation, tell: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile every event of every shard, and every life of the server, is told."""

    def now() -> str:
        return f"{simulation.timeline.now_ms:>9,}"

    def after(self: Witness, shard: Shard, event: Event, result: Result, before: Any, now_ms: int) -> None:
        tell(f"{now()}  {_short(event)}")
        for reply in result.replies:
            tell(f"{'':>11}-> {_cut(reply.response)}")
        for one in result.history:
            tell(f"{'':>11}{one.group_id}: {one.from_state} to {one.to_state}, {one.reason}")
        plain_after(self, shard, event, result, before, now_ms)

    def said(what: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            tell(f"{now()}  --- {what} {' '.join(map(str, arguments[1:]))}")
            return method(*arguments)

        return call

    plain_after = Witness.after
    with (
        patch.object(Witness, "after", after),
        patch.object(Server, "start", said("the server starts", Server.start)),
        patch.object(Server, "crash", said("the server dies", Server.crash)),
        patch.object(Server, "stop_for", said("the server stops for ms", Server.stop_for)),
    ):
        yield


def _short(event: Event) -> str:
    match event:
        case RequestReceived(request, context):
            return f"{context.client_id} v{context.api_version}: {_cut(request)}"
        case TimerFired(key, _):
            return f"timer {key}"
    return _cut(event)


def _cut(thing: object) -> str:
    text = str(thing).replace("throttle_time_ms=0, ", "")
    return text if len(text) <= TEXT_MAX_CHARS else f"{text[:TEXT_MAX_CHARS]}..."
