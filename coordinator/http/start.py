"""Puts HTTP together and opens its listeners. The daemon imports this room only if there are any."""

from __future__ import annotations

import asyncio
import ipaddress

import structlog

from coordinator.http.encryption import HttpStores
from coordinator.http.server import HttpBindError, HttpServer
from coordinator.http.site import HttpSite
from coordinator.http.sources import Sources
from coordinator.http.token import NO_TOKEN, TokenError, bearer_token
from coordinator.http.work import StepQueue
from coordinator.runtime.turn_share import TurnShare
from coordinator.security.tls.problems import TlsProblem
from coordinator.settings.http_listeners import OPTION, HttpListener, http_listener
from coordinator.settings.model import Settings
from coordinator.settings.unusable import UnusableSettings

__all__ = ["HttpBindError", "serve_http"]

log = structlog.get_logger("muster.http")


async def serve_http(sources: Sources, turn: TurnShare) -> HttpServer | None:
    """Serve HTTP where the settings say; return None if the default port is taken, as HTTP is then left out.

    Raises HttpBindError for a listener that was set by hand, and UnusableSettings for a token or a key store, or
    where others than this machine would read all of it unasked.
    DescribeConfigs shows what was bound.
    """
    settings, runtime = sources.settings, sources.runtime
    bound = {} if sources.data is None else sources.data.broker.bound
    listeners = [http_listener(text) for text in settings.muster_http_listeners]
    try:
        token = bearer_token(settings)
        stores = HttpStores(settings) if any(each.is_tls for each in listeners) else None
    except (TokenError, TlsProblem) as problem:
        raise UnusableSettings(f"HTTP cannot be served: {problem}") from None
    others = _beyond_loopback(listeners, settings, has_token=token is not None)
    steps = StepQueue(asyncio.get_running_loop().call_soon, turn.is_over, sources.readers.submit)
    names = [each.host for each in listeners]
    names += [each.advertised_host for each in settings.endpoints]
    site = HttpSite(sources, names, steps, token)
    server = HttpServer(site, steps, runtime.now_ms, runtime.set_timer)
    try:
        await server.listen(listeners, stores)
    except HttpBindError as error:
        bound[OPTION] = ""
        if "muster_http_listeners" in settings.model_fields_set:
            raise
        log.warning("HTTP is left out", reason=str(error))
        return None
    if stores is not None:
        sources.server.tls.add(stores)
    bound[OPTION] = ",".join(server.addresses)
    log.info("HTTP is served", at=bound[OPTION])
    _warn(others, has_token=token is not None)
    if token is None and settings.authorizer_class_name:
        log.warning("HTTP asks for no token: it shows to all who reach it what ACLs keep from them")
    return server


def _beyond_loopback(
    listeners: list[HttpListener], settings: Settings, *, has_token: bool
) -> list[HttpListener]:
    """Those that others than this machine may reach. Raises UnusableSettings."""
    others = [each for each in listeners if not is_loopback(each.host)]
    if others and not has_token and settings.muster_http_token != NO_TOKEN:
        raise UnusableSettings(
            "HTTP cannot be served: muster.http.listeners are not on loopback alone, and whoever reaches them "
            f"would read all of it: set muster.http.token.file, or muster.http.token={NO_TOKEN}"
        )
    return others


def is_loopback(host: str) -> bool:
    """Whether this machine alone reaches a listener there; "" is every interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _warn(others: list[HttpListener], *, has_token: bool) -> None:
    """Log what whoever reaches listeners beyond loopback may read."""
    if others and not has_token:
        log.warning("HTTP is not on loopback alone: whoever reaches it reads all of it, without a password")
    elif any(not each.is_tls for each in others):
        log.warning("HTTP is not on loopback alone: its token goes over the network in clear, without https")
