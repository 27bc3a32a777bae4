"""Makes texts that clients chose fit to be shown: cut, and with every character visible."""

from __future__ import annotations

import json
import unicodedata
from typing import Final

NAME_MAX_CHARS: Final = 120
"""The number of characters of a group id, client id or topic that are shown; Kafka takes up to 32,767 bytes."""

REASON_MAX_CHARS: Final = 240
_BYTES_PER_CHAR: Final = 3  # JSON bytes per character, on average; a text of escapes is cut earlier.
_TRICKS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of invisible characters and of such that change their surroundings, as controls."""

NO_TEXT: Final = -1
"""The position that stands for null, as no text has it."""


class Texts:
    """The page's list of texts, each once; rows of tables have a text's position in the list.

    Texts are different if any of their characters are, even where only the beginning is shown.
    """

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._positions: dict[str, int] = {}

    def position(self, text: object, max_chars: int = NAME_MAX_CHARS) -> int:
        """The position of `text`, which is added if it is new; NO_TEXT for None and values that are not text."""
        if not isinstance(text, str):
            return NO_TEXT
        found = self._positions.get(text)
        if found is None:
            found = self._positions[text] = len(self.shown)
            self.shown.append(presentable(text, max_chars))
        return found


def presentable(text: str, max_chars: int) -> str:
    """`text` cut to about `max_chars`, with invisible characters as \\u escapes; never empty."""
    if not text:
        return "(empty)"
    kept = text[:max_chars]
    kept = "".join(_escaped(char) if unicodedata.category(char) in _TRICKS else char for char in kept)
    while len(kept) > 1 and len(as_json(kept)) > max_chars * _BYTES_PER_CHAR:
        kept = kept[: len(kept) * 3 // 4]
    if len(text) > max_chars or len(kept) < len(text):
        return f"{kept}… ({len(text):,} characters)"
    return kept


def as_json(value: object) -> bytes:
    """JSON that may stand within a <script>: it has no `<`. Raises ValueError for nan."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").encode()


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}"
