"""A session that ends, and the logins by which its client renews it on the living connection (KIP-368).

Each request asks to be admitted. SaslHandshake begins a login, of which all that follows is a part until it is
done; once the session has ended nothing else is admitted (S27 to S31). No sockets, no clock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from coordinator.security.sasl.login import HANDSHAKE_KEY, Login, LoginTerms, Step, Versions
from coordinator.security.session import Session

LOGINS_APART_MS: Final = 1000
"""Time from the beginning of one repeated login in which no other begins (S28)."""


class Admission(Enum):
    """What becomes of a request."""

    SERVED = auto()
    BEGINS_LOGIN = auto()
    CLOSES = auto()  # The session has ended.


class RenewableSession:
    """The session of one connection, which has an end, and its repeated logins."""

    def __init__(self, session: Session, terms: LoginTerms, versions: Versions) -> None:
        self._terms = terms
        self._versions = versions
        self._login: Login | None = None
        self._began_at_ms: int | None = None  # The last login on the living connection.
        self.session = session

    @property
    def is_logging_in(self) -> bool:
        """Whether a login has begun and is not done: then whatever comes is its next frame."""
        return self._login is not None

    def has_ended(self, now_ms: int) -> bool:
        """Whether the client must log in again before anything else."""
        ends_at_ms = self.session.ends_at_ms
        return ends_at_ms is not None and now_ms >= ends_at_ms

    def admission(self, api_key: int, now_ms: int) -> Admission:
        """Return what becomes of a request that comes while no login is under way."""
        if api_key == HANDSHAKE_KEY and self.session.ends_at_ms is not None and self._may_begin(now_ms):
            return Admission.BEGINS_LOGIN
        return Admission.CLOSES if self.has_ended(now_ms) else Admission.SERVED

    def _may_begin(self, now_ms: int) -> bool:
        return self._began_at_ms is None or now_ms >= self._began_at_ms + LOGINS_APART_MS

    def begin(self, now_ms: int) -> None:
        """Begin a login, whose first frame is the SaslHandshake that was admitted as its beginning."""
        self._began_at_ms = now_ms
        self._login = Login(self._terms, self._versions, self.session)

    def receive(self, frame: bytes, now_ms: int, wall_ms: int) -> Step:
        """Have the login take its next frame, as `Login.receive` does; once it is done, the session is new."""
        assert self._login is not None
        step = self._login.receive(frame, now_ms, wall_ms)
        if step.session is not None:
            self.session, self._login = step.session, None
        return step

    def refuse_size(self, size_bytes: int, max_bytes: int) -> Step:
        """Fail because of a frame whose length is none, or more than a login may have (S1)."""
        assert self._login is not None
        return self._login.refuse_size(size_bytes, max_bytes)
