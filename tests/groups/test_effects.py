"""Effects are collected, and Results add up, in order; an event waits for one append at most."""

from __future__ import annotations

import pytest

from coordinator.effects import NOTHING, CoordinatorRecord, Effects, Reply, Result, SetTimer, combine

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


def test_what_was_collected_comes_out_in_order() -> None:
    effects = Effects()
    assert effects.result() == NOTHING
    effects.add(ONE)
    effects.reply(3, "c", reveals_stored=False)
    effects.set_timer("u", 7)
    effects.add(TWO)
    assert effects.result() == Result(
        records=(RECORD,),
        replies=(Reply(1, "a"), Reply(3, "c", reveals_stored=False), Reply(2, "b")),
        timers=(SetTimer("t", 1), SetTimer("u", 7), SetTimer("t", None)),
        then="then",
        superseded=(9,),
        atomic=False,
    )


def test_one_event_is_handed_back_one_append() -> None:
    effects = Effects()
    effects.hand_back("then")
    with pytest.raises(AssertionError):
        effects.add(TWO)


def test_a_transactional_batch_is_not_collected() -> None:
    with pytest.raises(AssertionError):
        Effects().add(Result(records=(RECORD,), producer=(1, 0)))
