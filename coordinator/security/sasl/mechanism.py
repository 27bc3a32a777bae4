"""A SASL mechanism on the server's side, as the state machine of a login sees it. No sockets, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: the client answers `token`."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The exchange has succeeded: `token` is the last that the client gets."""

    name: str
    """The principal's name, without its type."""
    token: bytes = b""
    expires_at_ms: int | None = None
    """The time of day in ms since the epoch at which the credential ends by itself; None: it does not."""


class AuthenticationFailed(Exception):
    """Raised when a client has not shown who it is.

    `text` is for the client, and holds no secret; None: Kafka's general sentence for the mechanism stands in its
    place (S8). `reason` is for the log, and holds no secret either. `user` is the name whose password was wrong,
    whether there is such a user or not; blank: no password was tried.
    """

    def __init__(self, text: str | None, reason: str = "", user: str = "") -> None:
        super().__init__(reason or text or "invalid credentials")
        self.text = text
        self.user = user


class Exchange(Protocol):
    """One login on one connection."""

    @property
    def held_bytes(self) -> int:
        """What it keeps of the client's until its next token: as long as the client likes."""

    def step(self, token: bytes, now_ms: int) -> Challenge | Authenticated:
        """Take the client's next token at the time of day `now_ms`. Raises AuthenticationFailed, which ends it."""


class Mechanism(Protocol):
    """A mechanism as one listener offers it."""

    @property
    def name(self) -> str:
        """Its registered name, such as SCRAM-SHA-256."""

    def begin(self) -> Exchange:
        """Begin the exchange of one login."""
