"""The listeners of HTTP in `muster.http.listeners`, `http://host:port` or https. Nothing is bound or resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from coordinator.settings.types import Words

OPTION: Final = "muster.http.listeners"
HTTP_DEFAULT: Final = "http://127.0.0.1:9640"

_ENDPOINT: Final = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:/@?#\s]*)):(?P<port>[0-9]{1,5})/?",
    re.IGNORECASE,
)
_EVERY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class HttpListener:
    """One address to bind. A blank host means every interface; port 0 means any free port."""

    host: str
    port: int
    is_tls: bool = False


@dataclass(frozen=True, slots=True)
class Addresses(Words):
    """A list separated by commas of `http://host:port` or https, no port twice; the value is the list of texts."""

    @property
    def allowed(self) -> str:
        return (
            "a list separated by commas of http://host:port or https://host:port, "
            f"each port from 0 to {_MAX_PORT} and given once"
        )

    def parse(self, value: object) -> tuple[str, ...]:
        try:
            texts = Words.parse(self, value)
            listeners = [http_listener(text) for text in texts]
        except ValueError:
            raise ValueError(self.allowed) from None
        chosen = [(listener.host, listener.port) for listener in listeners if listener.port]
        if len(set(chosen)) < len(chosen):
            raise ValueError(self.allowed)
        return texts


HttpListeners: TypeAlias = Annotated[tuple[str, ...], Addresses()]


def http_listener(text: str) -> HttpListener:
    """Return the listener that `text` names. Raises ValueError."""
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > _MAX_PORT:
        raise ValueError(text)
    host = match["v6"] or match["host"] or ""
    is_tls = match["scheme"].lower() == "https"
    return HttpListener("" if host in _EVERY_INTERFACE else host, int(match["port"]), is_tls)
