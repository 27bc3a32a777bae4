"""A request as handlers see it, and what they answer with: steps, parts of a body, or a problem.

A handler is a function of a `Question` that returns `Steps`: a generator of at most STEP_MS of work between two
yields. It yields None to let others have the loop, bytes to send them as a part of the body, or an `Aside` to have
work done on a thread. What it returns is sent as JSON. Nothing here knows a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

STEP_MS: Final = 1
"""The most work, in ms, between two yields of a handler: so much later is what waits for the loop."""

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Aside:
    """Work for a thread, which may wait for the disk; the handler is sent its outcome, or what it raised."""

    work: Callable[[], Any]


Steps: TypeAlias = Generator[bytes | Aside | None, Any, Any]


class HttpProblem(Exception):
    """A request that is answered with an error (RFC 9457): status, a sentence, further headers and fields."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.fields = fields
        super().__init__(detail)

    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"type": "about:blank", "status": self.status, "detail": self.detail, **self.fields}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came; names of headers are in lower case."""

    method: str
    target: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """What a path is asked: the parameters of the query, decoded."""

    query: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a parameter as it is; "" is a value. Raises HttpProblem if it is missing and has no default."""
        found = self.query.get(name, default)
        if found is None:
            raise HttpProblem(400, f"The parameter {name} is missing.")
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a parameter that is a whole number from `least` to `most`. Raises HttpProblem."""
        text = self.query.get(name)
        if text is None:
            return default
        try:
            found = int(text) if text.isascii() and "_" not in text and len(text) <= 20 else None
        except ValueError:
            found = None
        if found is None or not least <= found <= most:
            raise HttpProblem(400, f"The parameter {name} must be a whole number from {least} to {most}.")
        return found


@dataclass(frozen=True, slots=True)
class Route:
    """What a path answers: `handler`, or, if it is the stream of events, no handler."""

    handler: Callable[[Question], Steps] | None
    parameters: frozenset[str] = frozenset()
    media_type: str = JSON


def split_target(target: bytes) -> tuple[str, dict[str, str]]:
    """Return path and query of a request's target. Raises HttpProblem for what is no path, or no UTF-8.

    Group ids are any text, so they go in the query: of a path nothing is decoded, and nothing is resolved.
    """
    if not target.startswith(b"/"):
        raise HttpProblem(400, "The target must be a path: this is no proxy.")
    path, _, query = target.partition(b"?")
    return path.decode("ascii", "replace"), _parameters(query)


def _parameters(query: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in query.split(b"&") if query else ():
        name, _, value = pair.partition(b"=")
        key = _decoded(name)
        if key in found:
            raise HttpProblem(400, "A parameter is given twice.")
        found[key] = _decoded(value)
    return found


def _decoded(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise HttpProblem(400, "The query is no UTF-8.") from None
