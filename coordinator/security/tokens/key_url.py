"""Where an issuer's keys are: `sasl.oauthbearer.jwks.endpoint.url`, of which the setting is consent enough (S36).

https to anywhere, http to this machine alone, a file of this machine. Nothing is resolved or read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

LOOPBACK: Final = re.compile(r"localhost|::1|127(?:\.[0-9]{1,3}){3}")
_TEXT: Final = re.compile(r"[\x21-\x7e]+")
_PORTS: Final = {"http": 80, "https": 443}


class KeyUrlError(ValueError):
    """Raised for what is no such address; the text follows the setting's name."""


@dataclass(frozen=True, slots=True)
class KeyUrl:
    """Where a key set is."""

    scheme: str
    """http, https or file."""
    host: str
    """Blank for a file."""
    port: int
    target: str
    """The path of a file, or what is asked for of a server."""

    @property
    def is_file(self) -> bool:
        return self.scheme == "file"


def parse_key_url(text: str) -> KeyUrl:
    """Read an address. Raises KeyUrlError."""
    if _TEXT.fullmatch(text) is None:
        raise KeyUrlError("must be a URL in ASCII, without blanks")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise KeyUrlError("must be a URL of https, file, or http to this machine") from None
    host = (url.hostname or "").lower()
    if url.scheme == "file":
        if host not in ("", "localhost") or not url.path.startswith("/"):
            raise KeyUrlError("must name a file of this machine, as file:///path/of/keys.json")
        return KeyUrl("file", "", 0, unquote(url.path))
    if url.scheme not in _PORTS or not host:
        raise KeyUrlError("must be a URL of https, file, or http to this machine")
    if url.username is not None or url.password is not None:
        raise KeyUrlError("may not have a user's name or password, since clients are shown it")
    if url.scheme == "http" and LOOPBACK.fullmatch(host) is None:
        raise KeyUrlError("must be https: by http keys may be anybody's, but for this machine's own")
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return KeyUrl(url.scheme, host, _PORTS[url.scheme] if port is None else port, target)
