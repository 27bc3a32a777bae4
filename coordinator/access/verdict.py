"""What a check says of a request: it passes whole, or a part of it does, or it is answered at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from coordinator.access.asker import Asker

A = TypeVar("A")
R = TypeVar("R")

Complete: TypeAlias = Callable[[Any], Any]
"""Takes a handler's response, and returns the one that the client gets."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a request: `request` is what its handler sees, or `response` the answer in its place."""

    request: Any = None
    response: Any = None
    complete: Complete | None = None
    """Puts what was taken out of the request into the handler's response. It asks for no rights any more, as it
    may run on a thread; None: the response is whole."""
    complete_part: Complete | None = None
    """As `complete`, for what each shard answers, always on the event loop: it may ask for rights."""
    asks: bool = False
    """Whether the handler itself asks for rights."""
    silence: str = ""
    """Why the connection is closed instead of an answer: the request wants none (acks=0), or cannot be read."""

    @property
    def is_whole(self) -> bool:
        """Whether the request passes as it is, and so does the response."""
        return self.request is not None and self.complete is None and self.complete_part is None


Check: TypeAlias = Callable[[Any, Asker], Verdict]
"""The check of one API: of a request, and who asks."""


def passes(request: Any) -> Verdict:
    """The request passes whole."""
    return Verdict(request)


def asks_itself(request: Any, _asker: Asker) -> Verdict:
    """A check that leaves the asking to the handler, which knows more (Fetch has sessions)."""
    return Verdict(request, asks=True)


def no_check(request: Any, _asker: Asker) -> Verdict:
    """The check of an API that everybody may call."""
    return Verdict(request)


def refused(response: Any) -> Verdict:
    """The request does not pass, and is answered with `response`."""
    return Verdict(response=response)


def interleaved(asked: Sequence[A], refusal: Callable[[A], R | None], answers: Iterable[R]) -> Iterator[R]:
    """Yield a row for each of `asked`, in its order: its refusal, or where that is None the next of `answers`."""
    rest = iter(answers)
    for each in asked:
        row = refusal(each)
        yield next(rest) if row is None else row
