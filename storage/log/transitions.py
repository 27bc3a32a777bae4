"""Moving along a table of transitions: the one way in which a log, its files and its shard change their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


class NoSuchTransition(AssertionError):
    """A state and a trigger that have no row in the table: a bug of ours."""


def next_state(transitions: Mapping[tuple[S, T], S], state: S, trigger: T) -> S:
    """Return the state that `trigger` leads to from `state`. Raises NoSuchTransition."""
    try:
        return transitions[state, trigger]
    except KeyError:
        raise NoSuchTransition(f"{trigger} in {state}") from None
