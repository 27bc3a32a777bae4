"""Some hundred histories of joins, commits, crashes and stops, none like another, each watched at every step.

`make simulation` plays two thousand, and `make soak SEEDS=100000` more. What is
checked is in `witness`, and after the faults in `simulation`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.simulation import Simulation, Summary

SEEDS = 600
SEEDS_PER_TEST = 50


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        Simulation(seed).run()  # Raises, with the command that repeats it.


def test_enough_goes_wrong_for_this_to_mean_anything() -> None:
    """A simulation in which nothing happens passes as well."""
    summaries = [Simulation(seed).run() for seed in range(40)]
    assert sum(each.crashes for each in summaries) >= 80
    assert sum(each.expired for each in summaries) >= 40
    assert sum(each.generations for each in summaries) >= 240
    assert sum(each.calls for each in summaries) >= 8_000
    assert sum(each.no_room for each in summaries) >= 40
    assert sum(each.cleaned for each in summaries) >= 400


def summary_under_hash_seed(hash_seed: int) -> str:
    command = "from tests.simulation.simulation import Simulation; print(Simulation(7).run())"
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
    told: str = repr(Simulation(7).run()) + "\n"
    assert told.startswith(Summary.__name__)
    assert summary_under_hash_seed(1) == summary_under_hash_seed(2) == told
