"""Says which unknown names from a file may be repeated in a sentence.

A password that stands on a line of its own, as behind a line that was meant to go on, reads as the name of a
setting; so does a line of a binary file. What is repeated is therefore made of the words of known names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

CLOSE_ENOUGH: Final = 0.8  # difflib's ratio: one or two letters wrong in a name of this length.


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` nearly is, None if there is none."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=CLOSE_ENOUGH)), None)


def may_be_shown(name: str, known: Iterable[str]) -> bool:
    """Whether `name` is nearly known, or has two words or more, between dots, that known names have as well."""
    known = frozenset(known)
    words = name.split(".")
    if len(words) > 1 and {word for each in known for word in each.split(".")}.issuperset(words):
        return True
    return closest(name, known) is not None
