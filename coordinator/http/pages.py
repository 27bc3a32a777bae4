"""A page of many things, in the order of a key: found a slice at a time, without sorting all of them.

Where a page ends is reported as a cursor, the key of its last thing. So the next page begins behind that, whatever
came or went meanwhile. The things of a page are kept in a heap; those beyond it are looked at and forgotten.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Generator, Iterable
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any, Final, TypeAlias

from coordinator.http.exchange import HttpProblem, Question

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1_000

LOOKED_AT_ONCE: Final = 100
"""Things looked at between two yields: some us each."""

Key: TypeAlias = tuple[Any, ...]
"""Numbers and texts, of the same types in each place; no two things of one page have the same."""


class Page:
    """The `limit` things that come first behind the cursor, in the order of their keys or against it."""

    def __init__(self, question: Question, sort: str, *, is_descending: bool) -> None:
        """Raises HttpProblem for a limit that is none, or a cursor of another order."""
        self.limit = question.number("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        self._order = f"{'-' if is_descending else ''}{sort}"
        self._is_descending = is_descending
        self._after = _decoded(question.query.get("after"), self._order)
        self._best: list[tuple[Key, Any]] = []
        self.matched = 0
        """Things looked at, those before the cursor among them."""

    def fill(self, found: Iterable[tuple[Key, Any] | None]) -> Generator[None, Any, None]:
        """Look at all that is `found`, in slices; None is a thing that does not match."""
        rest = iter(found)
        while some := list(islice(rest, LOOKED_AT_ONCE)):
            matching = [each for each in some if each is not None]
            self.matched += len(matching)
            self._take(matching)
            yield None

    def _take(self, matching: list[tuple[Key, Any]]) -> None:
        """Keep those that are among the first; one more than a page shows that there is another."""
        try:
            if self._after is not None:
                matching = [each for each in matching if self._is_behind(each[0], self._after)]
            if len(self._best) > self.limit:  # Most are beyond the page, which is seen without sorting.
                last = self._best[-1][0]
                matching = [each for each in matching if not self._is_behind(each[0], last)]
        except TypeError:
            raise HttpProblem(400, "The parameter after is no cursor of this list.") from None
        if matching:
            first = nlargest if self._is_descending else nsmallest
            self._best = first(self.limit + 1, self._best + matching, key=lambda each: each[0])

    def _is_behind(self, key: Key, other: Key) -> bool:
        return key < other if self._is_descending else key > other

    @property
    def things(self) -> list[Any]:
        return [thing for _, thing in self._best[: self.limit]]

    @property
    def cursor(self) -> str | None:
        """Where the next page begins; None if there is none."""
        if len(self._best) <= self.limit:
            return None
        document = json.dumps([self._order, *self._best[self.limit - 1][0]])
        return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")


def _decoded(cursor: str | None, order: str) -> Key | None:
    if not cursor:
        return None
    try:
        document = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        document = None
    if not isinstance(document, list) or len(document) < 2 or document[0] != order:
        raise HttpProblem(400, "The parameter after is no cursor of this list in this order.")
    return tuple(document[1:])


def sort_of(question: Question, sorts: Iterable[str], default: str) -> tuple[str, bool]:
    """Return what to sort by, and whether from the largest down. Raises HttpProblem."""
    text = question.query.get("sort", default)
    if text.removeprefix("-") not in (known := tuple(sorts)):
        raise HttpProblem(
            400, f"The parameter sort must be one of {', '.join(known)}, with a - to reverse it."
        )
    return text.removeprefix("-"), text.startswith("-")


def words_of(question: Question, name: str, known: Collection[str]) -> frozenset[str]:
    """Return the words of a list such as `a,b`, in small letters; none without it. Raises HttpProblem."""
    words = [word.strip().lower() for word in question.query.get(name, "").split(",")]
    found = frozenset(word for word in words if word)
    if not found <= {word.lower() for word in known}:
        raise HttpProblem(400, f"The parameter {name} must be one or several of {', '.join(known)}.")
    return found


def folded(text: str) -> str:
    """A text as it is searched: without regard to capitals."""
    return text.casefold()
