"""Sentences for people, and what a command says beside its output: on standard error, cut to a readable length.

A sentence repeats what a user gave, which may be a whole file that a shell put in the place of a name.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import Final

ID_CHARACTERS_MAX: Final = 120
"""Longer ids are cut in tables and sentences, which they would wreck (Kafka allows 32,767 bytes); JSON has all."""

MAX_CHARACTERS: Final = 1_000
_HEAD, _TAIL = 600, 300  # The beginning mostly says what is wrong, and the end why.


_NOT_SHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters: controls, formats such as bidi marks, surrogates, separators of lines."""


def visible(text: str) -> str:
    """`text` with what a terminal would obey in place of showing it (ESC, a line end, bidi marks) as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if unicodedata.category(each) not in _NOT_SHOWN else each.encode("unicode_escape").decode()
        for each in text
    )


def shown_id(text: str) -> str:
    """An id or a name that a client chose, as tables and sentences have it: visible, and cut if it is too long."""
    shown = visible(text[: ID_CHARACTERS_MAX + 1])
    return shown if len(shown) <= ID_CHARACTERS_MAX else f"{shown[: ID_CHARACTERS_MAX - 1]}…"


def say(sentence: object, as_json: bool = False) -> None:
    """Print what went wrong to standard error, as `remark` does: under the program's name, or as a JSON object."""
    if as_json:
        print(json.dumps({"error": cut(str(sentence))}, ensure_ascii=False), file=sys.stderr, flush=True)
    else:
        remark(f"muster: {sentence}")


def remark(sentence: str) -> None:
    """Print a sentence about the output to standard error; it is not part of the output.

    It is cut if too long. It may have several lines; all else that a terminal would obey is shown as an escape.
    """
    lines = cut(sentence).split("\n")
    print("\n".join(map(visible, lines)), file=sys.stderr, flush=True)


def cut(text: str) -> str:
    """`text`; if it is longer than MAX_CHARACTERS, its middle is replaced by a note of how much was left out."""
    if len(text) <= MAX_CHARACTERS:
        return text
    left_out = len(text) - _HEAD - _TAIL
    return f"{text[:_HEAD]} [... {left_out:,} of {len(text):,} characters left out ...] {text[-_TAIL:]}"


def counted(number: int, noun: str) -> str:
    """`number` and the noun, which is in the plural but for one: "1 member", "2 members"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
