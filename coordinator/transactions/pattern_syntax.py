"""Regular expressions as clients write them: RE2's syntax, without what no transactional id needs.

Read into a tree for `patterns`. There are literals, classes, groups, alternatives, repetitions, the flags i and s,
and the ends of the text; what is left out (\\b, \\p, \\Q, the flag m) is refused like what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


class InvalidPattern(ValueError):
    """The text is no regular expression, or one that we do not take on."""


Ranges: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character, of these ranges or of all others; `folded`: in whichever case."""

    ranges: Ranges
    is_negated: bool = False
    is_folded: bool = False

    def has(self, char: str) -> bool:
        found = any(low <= char <= high for low, high in self.ranges)
        if self.is_folded and not found:
            found = any(low <= c <= high for c in (char.lower(), char.upper()) for low, high in self.ranges)
        return found != self.is_negated


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least and at most so often; None: without end."""

    part: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Edge:
    """Begin or end of the text."""

    is_end: bool


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Edge

MAX_REPEAT: Final = 1_000  # As in RE2.
MAX_DEPTH: Final = 100
"""Of groups within groups."""

CLASSES: Final[dict[str, Ranges]] = {
    "d": (("0", "9"),),
    "w": (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z")),
    "s": (("\t", "\n"), ("\f", "\r"), (" ", " ")),
}
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
NEWLINE: Final[Ranges] = (("\n", "\n"),)
EVERYTHING: Final[Ranges] = (("\0", "\U0010ffff"),)
SIMPLE_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Parser:
    """Of one text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._is_folded = False
        self._dot_has_newline = False
        self._depth = 0

    def parse(self) -> Node:
        """The whole text. Raises InvalidPattern."""
        node = self._choice()
        if self._at < len(self._text):
            raise InvalidPattern(f"unexpected {self._text[self._at]!r}")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at == len(self._text):
            raise InvalidPattern("it ends too soon")
        self._at += 1
        return self._text[self._at - 1]

    def _take_if(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        self._at += len(word)
        return True

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take_if("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        self._take_if("?")  # As few as possible: what matches is the same.
        if self._bounds() is not None:
            raise InvalidPattern("a repetition of a repetition")
        least, most = bounds
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise InvalidPattern("a repetition with wrong bounds")
        return Repeat(part, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = SIMPLE_REPEATS.get(self._peek())
        if simple is not None:
            self._at += 1
            return simple
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        least, comma, most = self._text[self._at + 1 : end].partition(",")
        if not _is_number(least) or not (_is_number(most) or not most):
            return None  # Then the brace is a character like others.
        self._at = end + 1
        return int(least), (int(most) if most else None) if comma else int(least)

    def _atom(self) -> Node:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                return Edge(char == "$")
            case "." if self._dot_has_newline:
                return Chars(EVERYTHING)
            case ".":
                return Chars(NEWLINE, is_negated=True)
            case "*" | "+" | "?":
                raise InvalidPattern("a repetition of nothing")
        return Chars(((char, char),), is_folded=self._is_folded)

    def _group(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidPattern("too many groups within groups")
        outer = self._is_folded, self._dot_has_newline
        if self._take_if("?") and self._group_kind():
            self._depth -= 1
            return Sequence(())  # Flags alone: they hold up to the end of the group around.
        node = self._choice()
        if not self._take_if(")"):
            raise InvalidPattern("a group without an end")
        self._is_folded, self._dot_has_newline = outer
        self._depth -= 1
        return node

    def _group_kind(self) -> bool:
        """What stands between `(?` and its `:`, `>` or `)`; True for the last: there is no group."""
        if self._take_if("P<") or self._take_if("<"):
            name = self._take()
            while (char := self._take()) != ">":
                name += char
            if not name.isidentifier():
                raise InvalidPattern("a group with a wrong name")
            return False
        is_on = True
        while (char := self._take()) not in ":)":
            if char == "-":
                is_on = False
            elif char == "i":
                self._is_folded = is_on
            elif char == "s":
                self._dot_has_newline = is_on
            else:
                raise InvalidPattern(f"the flag {char!r}")
        return char == ")"

    def _escape(self) -> Node:
        char = self._take()
        if char in "Az":
            return Edge(char == "z")
        if char.lower() in CLASSES:
            return Chars(CLASSES[char.lower()], is_negated=char.isupper())
        literal = self._literal(char)
        return Chars(((literal, literal),), is_folded=self._is_folded)

    def _literal(self, char: str) -> str:
        """The character that stands for itself, or for another, behind a backslash."""
        if char in CONTROLS:
            return CONTROLS[char]
        if char == "x":
            digits = self._take() + self._take()
            if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise InvalidPattern("\\x without two digits")
            return chr(int(digits, 16))
        if char.isascii() and char.isalnum():
            raise InvalidPattern(f"\\{char}")
        return char

    def _class(self) -> Node:
        is_negated = self._take_if("^")
        ranges: list[tuple[str, str]] = []
        while not ranges or self._peek() != "]":
            ranges += self._class_item()
        self._at += 1
        return Chars(tuple(ranges), is_negated, self._is_folded)

    def _class_item(self) -> Ranges:
        low = self._take()
        if low == "\\":
            char = self._take()
            if char in CLASSES:
                return CLASSES[char]
            low = self._literal(char)
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return ((low, low),)
        self._at += 1
        high = self._take()
        if high == "\\":
            high = self._literal(self._take())
        if high < low:
            raise InvalidPattern(f"the range {low}-{high}")
        return ((low, high),)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
