"""Who a connection's client is: the principal that rights and quotas go by, and until when it is believed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER: Final = "User:"
"""The type of all principals here, and what their text begins with."""

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not said who it is (S30)."""


@dataclass(frozen=True, slots=True)
class Session:
    """What a login, a client certificate, or neither, has made of a connection; a next login makes another."""

    principal: str = ANONYMOUS
    """`User:` and the name, as ACLs name it; case matters (S11)."""
    mechanism: str = ""
    """The SASL mechanism that it logged in with; blank without a login."""
    ends_at_ms: int | None = None
    """`Clock.elapsed_ms` from which requests are refused until it has logged in again (KIP-368); None: never.

    That clock goes on while the process stands still, which makes no session longer."""


NO_SESSION: Final = Session()
"""The session of a connection through which nobody has to log in."""
