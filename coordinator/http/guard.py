"""Which requests a browser may have been talked into by another site's page, and so are refused.

Loopback is no protection from a web page: a name of the page's own may be made to point here (DNS rebinding), and
then the page reads what it is answered. Such a request has that name in its Host. A page of another site says
so in Origin. An address in figures was looked up nowhere, so it cannot be such a name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from coordinator.http.exchange import HttpProblem

LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost."})
SHOWN_MAX: Final = 100


class Guard:
    """Knows the names under which this daemon may be asked: those of loopback, of listeners, and `names`.

    `schemes` are those that its listeners speak, http and https.
    """

    def __init__(self, names: Iterable[str], schemes: Iterable[str] = ("http",)) -> None:
        self._schemes = tuple(schemes)
        self._names = LOOPBACK_NAMES | {name.lower() for name in names if name}

    def check(self, host: str | None, origin: str | None) -> None:
        """Raise HttpProblem for a Host that is none of the names, or an Origin that is not that Host.

        A request of HTTP/1.0 may have no Host; no browser sends such.
        """
        if host is not None and not self._is_ours(_name_of(host)):
            raise HttpProblem(
                421,
                f"This daemon is not called {_shown(host)}: ask for it by an address, by localhost, or by a name "
                "in muster.http.listeners or advertised.listeners.",
            )
        ours = {f"{scheme}://{host or ''}".lower() for scheme in self._schemes}
        if origin is not None and origin.lower() not in ours:
            raise HttpProblem(403, f"Pages of {_shown(origin)} may not read this.")

    def _is_ours(self, name: str) -> bool:
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _name_of(host: str) -> str:
    """The host without its port: a port may be mapped, so it says nothing."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
