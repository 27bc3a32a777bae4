"""Which groups may have series of their own, by expressions that an operator sets, which no id makes slow: RE2."""

from __future__ import annotations

from collections.abc import Callable


def shown_groups(include: str | None, exclude: str | None) -> Callable[[str], bool]:
    """Return the function that says whether a group id is shown; an expression has to match all of the id."""
    if include is None and exclude is None:
        return _any
    import re2  # Only here: it takes 20 ms, and few set an expression.

    included = None if include is None else re2.compile(include)
    excluded = None if exclude is None else re2.compile(exclude)

    def is_shown(group_id: str) -> bool:
        if included is not None and included.fullmatch(group_id) is None:
            return False
        return excluded is None or excluded.fullmatch(group_id) is None

    return is_shown


def _any(group_id: str) -> bool:
    return True
