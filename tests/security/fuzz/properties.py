"""What a fuzzed reader of what strangers or files say has to hold to, as one check that takes one case.

`make test` plays a few hundred cases of each; `python -m tests.security.fuzz` plays them for minutes, and counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

SENTENCE_CHARS_MAX: Final = 240
CANARY: Final = "Sesame-Canary-2026"
"""Stands in the secrets of every case, and in no text that comes of one."""

_UNREADABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Property:
    """`check` takes any of `cases`, and raises for one that shows a defect; it returns what the case was."""

    name: str
    cases: st.SearchStrategy[Any]
    check: Callable[[Any], str]
    outcomes: frozenset[str]
    """All that `check` may return: each must come up, or the cases do not reach what they are for."""


def assert_sentence(text: str, *secrets: str) -> None:
    """One readable sentence at most, with nothing of what is secret."""
    assert 0 < len(text) <= SENTENCE_CHARS_MAX, f"{len(text)} characters: {text[:80]!r}"
    assert _UNREADABLE.search(text) is None, f"more than a line: {text!r}"
    for secret in (CANARY, *secrets):
        assert secret not in text, "a secret is in the text"
