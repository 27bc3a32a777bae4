"""The listeners: which addresses the daemon binds, and which it advertises to clients.

`listeners`, `advertised.listeners`, `listener.security.protocol.map` and `controller.listener.names`
are read together, by Kafka's rules, into one `ListenerConfig` per address that is bound. A broker's controller
listeners are left out, since Muster has no controller quorum, so that a stock broker's file works. What a
listener needs beside its protocol, such as a key or mechanisms, is not looked at here, and nothing is bound or
resolved.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_ENDPOINT: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<v6>[0-9a-zA-Z:%.]*)\]|(?P<host>[0-9a-zA-Z\-%._]*)):(?P<port>[0-9]{1,5})"
)
_EVERY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_NOT_ROUTABLE: Final = frozenset({"0.0.0.0", "::"})
_MAX_PORT: Final = 65535
_LOOPBACK: Final = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}", re.IGNORECASE)


class SecurityProtocol(StrEnum):
    """Whether a listener encrypts, and whether clients have to log in on it."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


_PROTOCOLS: Final = frozenset(SecurityProtocol)


class ListenersError(ValueError):
    """Raised if the listener settings do not fit together; `problems` holds a sentence for each reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """One `NAME://host:port`. A blank host means every interface; port 0 means any free port."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One address to bind, with the address that is advertised to its clients.

    `host` is blank for every interface. An `advertised_port` of 0 stands for the port that gets bound.
    """

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def is_open_to_others(self) -> bool:
        """Whether other machines may reach it, and whoever does need not show who it is."""
        return self.protocol is SecurityProtocol.PLAINTEXT and not _LOOPBACK.fullmatch(self.host)


def parse_listeners(
    listeners: Iterable[str],
    advertised_listeners: Iterable[str],
    protocol_map: Iterable[str],
    controller_listener_names: Iterable[str],
) -> tuple[ListenerConfig, ...]:
    """Read the four settings, already split at their commas. Raises ListenersError with all problems."""
    problems: list[str] = []
    bound = _endpoints("listeners", listeners, problems)
    all_readable = not problems
    advertised = _endpoints("advertised.listeners", advertised_listeners, problems)
    protocols = _protocols(protocol_map, problems)
    unserved = {name.upper() for name in controller_listener_names}
    bound = [endpoint for endpoint in bound if endpoint.name not in unserved]
    advertised_by_name = {endpoint.name: endpoint for endpoint in advertised if endpoint.name not in unserved}
    if not bound and all_readable:
        problems.append("listeners: at least one is needed, beside those of a controller")
    if advertised and not advertised_by_name and all_readable:
        problems.append("advertised.listeners: at least one is needed, beside those of a controller")
    problems += _bound_problems(bound, protocols) + _advertised_problems(bound, advertised_by_name)
    if problems:
        raise ListenersError(problems)
    return tuple(
        _listener(endpoint, advertised_by_name.get(endpoint.name, endpoint), protocols[endpoint.name])
        for endpoint in bound
    )


def _endpoints(setting: str, texts: Iterable[str], problems: list[str]) -> list[ListenerAddress]:
    endpoints: list[ListenerAddress] = []
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None or int(match["port"]) > _MAX_PORT:
            problems.append(f"{setting}: {text!r} must be NAME://host:port with a port from 0 to {_MAX_PORT}")
            continue
        name = match["name"].upper()  # Kafka holds listener names in capitals.
        if any(other.name == name for other in endpoints):
            problems.append(f"{setting}: the name {name} is given twice")
        endpoints.append(ListenerAddress(name, match["v6"] or match["host"] or "", int(match["port"])))
    return endpoints


def _protocols(entries: Iterable[str], problems: list[str]) -> dict[str, SecurityProtocol]:
    """Return the protocols by the names of listeners, of which the last entry of a name counts (L1)."""
    protocols: dict[str, SecurityProtocol] = {}
    for entry in entries:
        name, _, protocol = (part.strip() for part in entry.partition(":"))
        if not (name and protocol):
            problems.append(f"listener.security.protocol.map: {entry!r} must be NAME:PROTOCOL")
        elif protocol.upper() not in _PROTOCOLS:
            problems.append(
                f"listener.security.protocol.map: {entry!r} has an invalid security protocol; there are "
                f"{', '.join(SecurityProtocol)}"
            )
        else:
            protocols[name.upper()] = SecurityProtocol(protocol.upper())
    return protocols


def _bound_problems(bound: list[ListenerAddress], protocols: dict[str, SecurityProtocol]) -> list[str]:
    problems = [
        f"listener.security.protocol.map: has no entry for the listener {endpoint.name}"
        for endpoint in bound
        if endpoint.name not in protocols
    ]
    return problems + _port_problems(bound)


def _port_problems(bound: list[ListenerAddress]) -> list[str]:
    """Return a sentence for each port that two listeners share; one IPv4 and one IPv6 address may, as in Kafka."""
    problems = []
    for position, endpoint in enumerate(bound):
        for other in bound[:position]:
            same_family = (":" in endpoint.host) == (":" in other.host)
            if endpoint.port and endpoint.port == other.port and same_family:
                problems.append(f"listeners: {other.name} and {endpoint.name} both take port {endpoint.port}")
    return problems


def _advertised_problems(bound: list[ListenerAddress], advertised: dict[str, ListenerAddress]) -> list[str]:
    names = {endpoint.name for endpoint in bound}
    problems = [
        f"advertised.listeners: {name} is not one of the listeners"
        for name in advertised
        if name not in names
    ]
    for endpoint in bound:
        if advertised and endpoint.name not in advertised:
            continue  # It is told to no client of another listener (L4).
        host = advertised.get(endpoint.name, endpoint).host
        if host in _NOT_ROUTABLE:
            problems.append(
                f"advertised.listeners: clients cannot connect to {host}; "
                f"give the listener {endpoint.name} an address that they can reach"
            )
    return problems


def _listener(
    endpoint: ListenerAddress, advertised: ListenerAddress, protocol: SecurityProtocol
) -> ListenerConfig:
    host = "" if endpoint.host in _EVERY_INTERFACE else endpoint.host
    told = socket.gethostname() if advertised.host in _EVERY_INTERFACE else advertised.host
    return ListenerConfig(endpoint.name, host, endpoint.port, told, advertised.port, protocol)
