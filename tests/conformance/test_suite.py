"""A run plays again what differed beside others of at most two scenarios, and shows what had differed."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance import suite
from tests.conformance.registry import Case, all_scenarios
from tests.conformance.report import lines_of
from tests.conformance.suite import REPLAYS_MAX, Outcome, Replays
from tests.conformance.targets import Target

CASES = [scenario.cases()[0] for scenario in all_scenarios()[: REPLAYS_MAX + 1]]
"""Each of a scenario of its own."""


def different(case: Case) -> Outcome:
    return Outcome(case, failures={"muster": "broke off: slow"})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases that were played again, in a list that grows; each replay is equal."""
    again: list[Case] = []

    async def play(case: Case, targets: list[Target], restarts: object, at_first: Outcome) -> Outcome:
        again.append(case)
        return Outcome(case, at_first=at_first)

    monkeypatch.setattr(suite, "play", play)
    return again


def test_as_many_cases_as_may_be_are_played_again_and_the_report_shows_why(played: list[Case]) -> None:
    outcomes = asyncio.run(Replays().play([different(case) for case in CASES[:REPLAYS_MAX]], []))
    assert played == CASES[:REPLAYS_MAX]
    assert all(outcome.is_equal for outcome in outcomes)
    report = "\n".join(lines_of(outcomes, verbose=False))
    assert f"replays: {REPLAYS_MAX}, of at most {REPLAYS_MAX} scenarios in a run" in report
    assert report.count("broke off: slow") == REPLAYS_MAX


def test_the_versions_of_a_scenario_are_played_side_by_side_and_count_as_one(played: list[Case]) -> None:
    several = next(cases for each in all_scenarios() if len(cases := each.cases()) > REPLAYS_MAX + 1)
    outcomes = asyncio.run(Replays().play([different(case) for case in [*several, *CASES[:1]]], []))
    assert played == [*several, *CASES[:1]]
    assert all(outcome.is_equal for outcome in outcomes)


def test_more_than_that_are_failures_of_the_run(played: list[Case]) -> None:
    outcomes = asyncio.run(Replays().play([different(case) for case in CASES], []))
    assert played == []
    assert not any(outcome.is_equal for outcome in outcomes)


def test_the_replays_of_all_configurations_are_counted_together(played: list[Case]) -> None:
    async def play() -> list[Outcome]:
        replays = Replays()
        first = await replays.play([different(case) for case in CASES[:1]], [])
        return first + await replays.play([different(case) for case in CASES[1:]], [])

    outcomes = asyncio.run(play())
    assert played == CASES[:1]
    assert [outcome.is_equal for outcome in outcomes] == [True] + [False] * REPLAYS_MAX
