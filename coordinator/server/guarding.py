"""What stands before the handlers of an API: each guard sees a request before its handler does.

A guard lets a request pass, changes it, or answers in the handler's place. Requests that are prepared, and so skip
the handler, hold as long as the guard says: one comparison of what it found when they were prepared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from coordinator.server.api_table import Api, Handler
from coordinator.server.pending import Pending
from coordinator.server.prepared import Prepared, Versioned


class Guard(Protocol):
    """Stands before the handler of one API."""

    def handle(self, handle: Handler, request: Any, pending: Pending) -> None:
        """Have `handle` see the request, or a part of it, or answer in its place."""

    def permit(self, request: Any, pending: Pending) -> Versioned | None:
        """Return what must not change for the request to pass whole again, unseen; None: it does not pass."""


def guarded(api: Api, guard: Guard) -> Api:
    """Return the row of the API with `guard` before its handler and before its prepared requests."""
    prepare, handle = api.prepare, api.handle

    def prepare_for(pending: Pending, request: Any, version: int, frame: bytes) -> Prepared | None:
        assert prepare is not None
        seen = guard.permit(request, pending)
        if seen is None:
            return None
        inner = api.prepare_for
        rest = (request, version, frame)
        prepared = prepare(*rest) if inner is None else inner(pending, *rest)
        return None if prepared is None else prepared.while_unchanged(seen)

    return replace(
        api,
        handle=partial(guard.handle, handle),
        prepare_for=None if prepare is None else prepare_for,
    )
