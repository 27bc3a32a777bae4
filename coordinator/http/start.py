"""Puts HTTP together and opens its listeners. The daemon imports this room only if there are any."""

from __future__ import annotations

import asyncio

import structlog

from coordinator.http.server import HttpBindError, HttpServer
from coordinator.http.site import HttpSite
from coordinator.http.sources import Sources
from coordinator.http.work import StepQueue
from coordinator.runtime.turn_share import TurnShare
from coordinator.settings.http_listeners import OPTION, http_listener

__all__ = ["HttpBindError", "Sources", "serve_http"]

log = structlog.get_logger("muster.http")

LOOPBACK = ("127.0.0.1", "::1", "localhost")


async def serve_http(sources: Sources, turn: TurnShare) -> HttpServer | None:
    """Serve HTTP where the settings say; return None if the default port is taken, as HTTP is then left out.

    Raises HttpBindError for a listener that was set by hand. DescribeConfigs shows what was bound.
    """
    settings, broker = sources.settings, sources.broker
    listeners = [http_listener(text) for text in settings.muster_http_listeners]
    steps = StepQueue(asyncio.get_running_loop().call_soon, turn.is_over, broker.readers.submit)
    names = [each.host for each in listeners]
    names += [each.advertised_host for each in settings.endpoints]
    site = HttpSite(sources, names, steps)
    server = HttpServer(site, steps, broker.now_ms, sources.runtime.set_timer)
    try:
        await server.listen(listeners)
    except HttpBindError as error:
        broker.bound[OPTION] = ""
        if "muster_http_listeners" in settings.model_fields_set:
            raise
        log.warning("HTTP is left out", reason=str(error))
        return None
    broker.bound[OPTION] = ",".join(server.addresses)
    log.info("HTTP is served", at=broker.bound[OPTION])
    if any(each.host not in LOOPBACK for each in listeners):
        log.warning("HTTP is not on loopback alone: whoever reaches it reads all of it, without a password")
    return server
