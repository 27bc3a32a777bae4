"""The turns of the event loop as `make bench` shows them: of each build the longest of all that were stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.pairs import turns
from bench.pairs.plan import Plan
from bench.pairs.servers import LongestTurn


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tmp_path)


def test_a_daemon_reports_the_turns_of_each_life_that_is_stopped(plan: Plan) -> None:
    with plan.muster() as daemon:
        daemon.kill()
        daemon.start()
        daemon.restart()
    (daemon,) = plan.daemons
    assert len(daemon.longest_turns) == 2
    assert all(0 < turn.cpu_ms < 1_000 for turn in daemon.longest_turns)


def test_of_each_build_the_longest_on_each_clock_is_shown_and_judged(plan: Plan) -> None:
    lives = {
        "Muster-fsync": [LongestTurn(12.0, 30.0), LongestTurn(25.0, 26.0)],
        "Muster-os": [LongestTurn(3.0, 90.0)],
        "Muster-compiled-0": [LongestTurn(19.0, 19.5)],
    }
    for name, reported in lives.items():
        plan.muster(name)
        plan.daemons[-1].longest_turns = reported
    (section,) = turns.sections("storms", plan)
    assert section.lines[1:] == ["| Muster | 25.0 | 90.0 | 3 |", "| Muster, compiled | 19.0 | 19.5 | 1 |"]
    (target,) = section.targets
    assert target.what == "longest turn of the event loop, ms of CPU, storms"
    assert (target.is_met, target.is_met_compiled) == (False, True)


def test_a_scenario_without_reports_says_nothing_of_turns(plan: Plan) -> None:
    plan.muster()
    assert turns.sections("wheel", plan) == []
