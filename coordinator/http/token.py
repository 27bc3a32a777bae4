"""The bearer token that requests have to show (RFC 6750): compared in constant time, and never shown.

Without one whoever reaches a listener reads all of it. `/livez` and `/readyz` ask for none: what restarts a daemon
that does not answer has no secrets.
"""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Final

import structlog

from coordinator.http.exchange import HttpProblem
from coordinator.security.regular_file import read_regular
from coordinator.settings.operators import OperatorSettings

log = structlog.get_logger("muster.http")

OPEN_PATHS: Final = frozenset({"/livez", "/readyz"})
"""Paths that are answered without a token."""

NO_TOKEN: Final = "none"
"""Says that none is asked for, though others than this machine may reach a listener."""

TOKEN_MIN: Final = 16
"""Fewest characters of a token: with fewer it can be tried out."""

TOKEN_MAX: Final = 1024
FILE_BYTES_MAX: Final = 1 << 16
"""Of the file with the token; a larger one was named by mistake."""
LOG_EACH: Final = 1000
"""Of requests that are refused the first is logged, and each of that number."""

_FORM: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_SHOWN: Final = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class TokenError(Exception):
    """The token cannot be read, or is none; the message is a sentence without it."""


class BearerToken:
    """What a request has to show."""

    def __init__(self, text: str) -> None:
        """Raises TokenError."""
        if not _FORM.fullmatch(text) or not TOKEN_MIN <= len(text) <= TOKEN_MAX:
            raise TokenError(
                f"the token of HTTP must have {TOKEN_MIN} to {TOKEN_MAX} letters, digits and -._~+/ (RFC 6750)"
            )
        self._token = text.encode()
        self._refused = 0

    def check(self, authorization: str | None) -> None:
        """Raise HttpProblem unless the header shows the token."""
        shown = _SHOWN.fullmatch(authorization or "")
        if shown is not None and hmac.compare_digest(shown[1].encode("latin-1", "replace"), self._token):
            return
        self._refused += 1
        if self._refused % LOG_EACH == 1:
            log.warning("HTTP requests without the token are refused", so_far=self._refused)
        raise HttpProblem(
            401,
            "This asks for a token: send it as Authorization: Bearer, as docs/http.md says.",
            {"WWW-Authenticate": 'Bearer realm="muster"'},
        )


def bearer_token(settings: OperatorSettings) -> BearerToken | None:
    """The token of the settings; None if there is none. Raises TokenError."""
    text, file = settings.muster_http_token, settings.muster_http_token_file
    if text is not None and file is not None:
        raise TokenError("muster.http.token and muster.http.token.file are both given")
    if file is not None:
        text = _read(Path(file))
    return None if text is None or (text == NO_TOKEN and file is None) else BearerToken(text)


def _read(file: Path) -> str:
    try:
        return read_regular(file, FILE_BYTES_MAX).decode("ascii").rstrip("\r\n")
    except OSError as error:
        raise TokenError(f"muster.http.token.file {file} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise TokenError(f"muster.http.token.file {file} has no text of ASCII") from None
