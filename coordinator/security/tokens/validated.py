"""What comes of a bearer token: a name for as long as the token lasts, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

MAX_NAME_CHARS: Final = 1000
"""Longest name that a token may give its client: sessions, ACLs and quotas are kept by it."""


@dataclass(frozen=True, slots=True)
class ValidToken:
    """What a token says that was validated."""

    name: str
    """Of the principal, without its type."""
    expires_at_ms: int
    """A time of day in ms since the epoch; it may have passed, within the skew of clocks."""


class TokenRefused(Exception):
    """Raised for a token that is not good. The text is for the log, and has nothing of the token."""

    def __init__(self, reason: str, missing_scope: str | None = None) -> None:
        """`missing_scope`: what the token would need, if that is all that it lacks."""
        super().__init__(reason)
        self.missing_scope = missing_scope


class Validator(Protocol):
    """Says whether tokens are good."""

    def validate(self, token: str, now_ms: int) -> ValidToken:
        """Look at a token at the time of day `now_ms`. Waits for nothing. Raises TokenRefused."""
