"""Whether a whole text matches a client's regular expression, in time that no expression can stretch.

The expression becomes an automaton whose states are found as they are needed, so a text costs one look-up for
each of its characters. What finding states may cost is bounded: an expression that wants more is refused.
"""

from __future__ import annotations

from typing import Final

from coordinator.transactions.pattern_syntax import (
    Chars,
    Choice,
    Edge,
    InvalidPattern,
    Node,
    Parser,
    Repeat,
    Sequence,
)

__all__ = ["InvalidPattern", "Pattern"]

MAX_PLACES: Final = 2_000
"""Of an expression when its repetitions are written out."""

MAX_STEPS: Final = 200_000
"""Places that are looked at to find states, over all texts: about 100 ms, and some 20 MB until it is done."""

MATCH: Final = 0


class Pattern:
    """One expression. Raises InvalidPattern, also of `matches` where it costs too much."""

    def __init__(self, text: str) -> None:
        self._chars: list[Chars | Edge | None] = [None]
        self._next: list[list[int]] = [[]]
        self._steps = 0
        first = self._add(Parser(text).parse(), MATCH)
        self._first = self._closure([first], at_begin=True)
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._accepts: dict[frozenset[int], bool] = {}

    def matches(self, text: str) -> bool:
        """Whether all of `text` is what the expression describes."""
        state = self._first
        for char in text:
            if not state:
                return False
            known = self._moves.get((state, char))
            state = self._move(state, char) if known is None else known
        accepts = self._accepts.get(state)
        return self._accept(state) if accepts is None else accepts

    # The places of an expression: a character or an edge to pass, or a fork; each with what comes after.

    def _place(self, what: Chars | Edge | None, after: list[int]) -> int:
        if len(self._chars) >= MAX_PLACES:
            raise InvalidPattern("it is too large")
        self._chars.append(what)
        self._next.append(after)
        return len(self._chars) - 1

    def _add(self, node: Node, after: int) -> int:
        """Places for `node`, before the place `after`; the first of them."""
        match node:
            case Chars() | Edge():
                return self._place(node, [after])
            case Sequence(parts):
                for part in reversed(parts):
                    after = self._add(part, after)
                return after
            case Choice(options):
                return self._place(None, [self._add(option, after) for option in options])
            case Repeat():
                return self._add_repeat(node, after)

    def _add_repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._place(None, [after])
            self._next[loop].append(self._add(node.part, loop))
            after = loop
        else:
            end = after
            for _ in range(node.most - node.least):
                after = self._place(None, [end, self._add(node.part, after)])
        for _ in range(node.least):
            before = self._add(node.part, after)
            if before == after:
                break  # A part without a place is as good as none, and would cost nothing ever so often.
            after = before
        return after

    # The states of the automaton: sets of places.

    def _closure(self, places: list[int], *, at_begin: bool = False, at_end: bool = False) -> frozenset[int]:
        """All places that are reached from `places` without a character; an end of the text waits for it."""
        found: set[int] = set()
        while places:
            place = places.pop()
            if place in found:
                continue
            found.add(place)
            self._steps += 1
            what = self._chars[place]
            if what is None or (isinstance(what, Edge) and (at_end if what.is_end else at_begin)):
                places += self._next[place]
        if self._steps > MAX_STEPS:
            raise InvalidPattern("it costs too much to match")
        return frozenset(found)

    def _move(self, state: frozenset[int], char: str) -> frozenset[int]:
        self._steps += len(state)
        places = [
            self._next[place][0]
            for place in state
            if isinstance(what := self._chars[place], Chars) and what.has(char)
        ]
        moved = self._moves[state, char] = self._closure(places)
        return moved

    def _accept(self, state: frozenset[int]) -> bool:
        at_begin = state == self._first
        accepts = MATCH in self._closure(list(state), at_begin=at_begin, at_end=True)
        self._accepts[state] = accepts
        return accepts
