"""How close members were to losing their sessions: the least that was left when one was heard.

Whoever hears a member compares once, with the least of this window; the two newest windows count. Times are ms on
the monotonic clock. Knows no kind of group.
"""

from __future__ import annotations

from typing import Final, Protocol

NOT_HEARD: Final = 1 << 62
"""The least left of a window in which no member was heard."""


class Heard(Protocol):
    """A member's session, or the member that has it."""

    least_left_ms: int
    """The least that was left when the member was heard, in this window;"""
    least_left_before_ms: int
    """and in the window before."""


def note_left(heard: Heard, left_ms: int) -> None:
    """Note that a member was heard with so much left, which is less than before in this window."""
    heard.least_left_ms = max(left_ms, 0)


def begin_window(heard: Heard) -> None:
    """Begin a new window: the one before the last is forgotten."""
    heard.least_left_before_ms, heard.least_left_ms = heard.least_left_ms, NOT_HEARD


def margin_of(heard: Heard, session_timeout_ms: int) -> float | None:
    """The least share of its session that a member had left when it was heard; None: it was not, of late."""
    least_ms = min(heard.least_left_ms, heard.least_left_before_ms)
    if least_ms == NOT_HEARD or session_timeout_ms <= 0:
        return None
    return min(least_ms / session_timeout_ms, 1.0)
