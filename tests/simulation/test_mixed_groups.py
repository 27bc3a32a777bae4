"""Histories of groups with members of both protocols: whatever kind a group is of, no promise is broken.

`python -m tests.simulation --mixed --seeds 2000` plays more; `mixed_groups` says what happens, and `mixed_witness`
what is checked.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.__main__ import are_reached, main
from tests.simulation.mixed_groups import MixedGroups
from tests.simulation.mixed_marks import ENOUGH_FOR_FREQUENT, FREQUENT, KNOWN, MIXED_MARKS
from tests.simulation.simulation import Failure

SEEDS, SEEDS_PER_TEST = 30, 10
"""The first of those of `make simulation`."""


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_of_whatever_kind_groups_are(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        MixedGroups(seed).run()  # Raises, with the seed's command.


@pytest.mark.parametrize("name", sorted(MIXED_MARKS))
def test_a_mark_can_be_reached(name: str) -> None:
    """Some line of the simulation notes it."""
    here = Path(__file__).resolve().parent
    assert any(f'reach("{name}")' in path.read_text() for path in here.glob("*.py"))
    assert name in KNOWN


def test_a_run_fails_that_does_not_reach_what_is_frequent(capsys: pytest.CaptureFixture[str]) -> None:
    every = [frozenset(FREQUENT)] * ENOUGH_FOR_FREQUENT
    assert are_reached(MixedGroups, every)
    assert are_reached(MixedGroups, [frozenset()] * (ENOUGH_FOR_FREQUENT - 1)), "too few say nothing"
    missing = min(FREQUENT)
    assert not are_reached(MixedGroups, [each - {missing} for each in every])
    assert f"reached by none of {ENOUGH_FOR_FREQUENT} seeds: {missing}" in capsys.readouterr().out


def test_a_seed_says_all_there_is_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert MixedGroups(3).run() == MixedGroups(3).run()
    assert main(["--mixed", "--seed", "3"]) == 0
    assert "\n  consumer groups: " in capsys.readouterr().out
    assert main(["--mixed", "--seeds", "2", "--workers", "1"]) == 0


def test_a_failure_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MixedGroups, "_unsettled", lambda simulation: ["never"])
    with pytest.raises(Failure, match=r"python -m tests.simulation --mixed --seed 3"):
        MixedGroups(3).run()
