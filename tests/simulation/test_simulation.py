"""Some hundred histories of joins, commits, crashes and stops, none like another, each watched at every step.

What is checked is in `witness`, and after the faults in `simulation`; `marks` has the rare events that all of them
together have to reach. `make simulation` prints how many seeds reached each; `make soak SEEDS=100000` plays more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.simulation.__main__ import main
from tests.simulation.simulation import Simulation, Summary
from tests.simulation.story import Story

SEEDS = 200
"""The first of those of `make simulation`, which looks whether all of them together reach every mark."""
SEEDS_PER_TEST = 50


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    seeds = range(first, first + SEEDS_PER_TEST)
    summaries = [Simulation(seed).run() for seed in seeds]  # Raises, with the seed's command.
    if first == 0:
        assert_enough_went_wrong(summaries[:40])


def assert_enough_went_wrong(summaries: Sequence[Summary]) -> None:
    """A simulation in which nothing happens breaks no promise either."""
    assert sum(each.crashes for each in summaries) >= 80
    assert sum(each.expired for each in summaries) >= 40
    assert sum(each.generations for each in summaries) >= 240
    assert sum(each.calls for each in summaries) >= 4_000
    assert sum(each.no_room for each in summaries) >= 40
    assert sum(each.cleaned for each in summaries) >= 200


SHOWN = "s = Simulation(7).run(); print(s.plain(), sorted(s.marks))"


def summary_under_hash_seed(hash_seed: int) -> str:
    command = f"from tests.simulation.simulation import Simulation; {SHOWN}"
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    ran = subprocess.run(
        [sys.executable, "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout


def test_a_seed_says_all_there_is_to_say() -> None:
    """The same history in another process, whose sets and dicts hash differently."""
    summary = Simulation(7).run()
    assert isinstance(summary, Summary)
    here = f"{summary.plain()} {sorted(summary.marks)}\n"
    assert summary_under_hash_seed(1) == summary_under_hash_seed(2) == here


def test_a_seed_shows_its_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "7"]) == 0
    shown = capsys.readouterr().out
    assert "\nseed 7\n  groups: initial delay" in shown
    profiles = Simulation(7)
    profiles.run()
    assert all(f"\n  {profile.client_id} " in shown for profile in profiles.profiles)


def test_the_story_shows_every_life_and_event_and_changes_nothing() -> None:
    lines: list[str] = []
    shown = Simulation(7)
    shown.witness.story = Story(shown.timeline, lines.append)
    summary = shown.run()
    assert summary == Simulation(7).run()
    assert summary.crashes > 0
    assert sum("--- the server dies" in line for line in lines) == summary.crashes
    assert sum("--- the server starts" in line for line in lines) == summary.crashes + 1
    for kind in (" OffsetCommitRequest(", " JoinGroupResponse(", " timer SessionTimer(", " to Stable, "):
        assert any(kind in line for line in lines), kind


def test_a_seed_that_fails_shows_its_parameters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simulation, "_unsettled", lambda simulation: ["never"])
    assert main(["--seeds", "1", "--first", "7", "--workers", "1"]) == 1
    shown = capsys.readouterr().out
    assert "['never']" in shown
    assert "repeat it: python -m tests.simulation --seed 7\nseed 7\n  groups: initial delay" in shown
