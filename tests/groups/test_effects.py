"""Results add up, in order, and wait for one append at most."""

from __future__ import annotations

import pytest

from coordinator.effects import NOTHING, CoordinatorRecord, Reply, Result, SetTimer, combine

RECORD = CoordinatorRecord("key", None)
ONE = Result(records=(RECORD,), replies=(Reply(1, "a"),), timers=(SetTimer("t", 1),), superseded=(9,))
TWO = Result(replies=(Reply(2, "b"),), timers=(SetTimer("t", None),), then="then", atomic=False)


def test_a_sum_asks_for_both_in_order() -> None:
    both = ONE + TWO
    assert both == Result(
        records=(RECORD,),
        replies=(Reply(1, "a"), Reply(2, "b")),
        timers=(SetTimer("t", 1), SetTimer("t", None)),
        then="then",
        superseded=(9,),
        atomic=False,
    )
    assert combine([ONE, TWO]) == both


def test_nothing_changes_nothing() -> None:
    assert NOTHING + ONE == ONE
    assert ONE + NOTHING == ONE
    assert combine([]) == NOTHING


def test_two_appends_cannot_be_waited_for() -> None:
    with pytest.raises(AssertionError):
        TWO + TWO
