"""Whatever is wrong with a run makes it fail: each by itself, through the status that the command ends with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import __main__ as command
from tests.conformance import verdict
from tests.conformance.comparison import Difference, Entry, differences, normalised
from tests.conformance.registry import Case, all_scenarios
from tests.conformance.run import Run
from tests.conformance.suite import REPLAYS_MAX, Outcome
from tests.conformance.wanted import Wanted

BOTH = ("kafka", "muster")
CASES = [case for scenario in all_scenarios() for case in scenario.cases()]
Report = tuple[list[Outcome], list[str]]
RunCommand = Callable[..., int]


def whole(kinds: tuple[str, ...] = BOTH) -> list[Outcome]:
    """A run of every case in which all was well; brokers were killed while answers came, where one was to be."""
    return [Outcome(case, {kind: run_of(case, ended_amid=True) for kind in kinds}) for case in CASES]


def run_of(case: Case, *, ended_amid: bool) -> Run:
    return Run(case.name, "127.0.0.1:1", {}, was_ended_amid=ended_amid)


def a_difference() -> Difference:
    theirs, ours = (normalised([Entry("a step", code)], "127.0.0.1:1") for code in (0, 1))
    (found,) = differences(theirs, ours)
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Run the command without brokers and without playing; return its status."""

    def run(outcomes: list[Outcome], unlike: list[str] | None = None, *arguments: str) -> int:
        async def play(
            cases: list[Case], kinds: tuple[str, ...], keep: Path | None, against: str | None
        ) -> Report:
            return outcomes, unlike or []

        monkeypatch.setattr(command, "_run", play)
        monkeypatch.setattr(sys, "argv", ["conformance", *arguments])
        return command.main()

    return run


@pytest.fixture
def nothing_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every wanted difference for seen, since a run that is made up has none."""

    def none_stale(seen: list[tuple[str, Wanted, Difference]], names: set[str] | None = None) -> list[str]:
        return []

    monkeypatch.setattr(verdict, "stale", none_stale)


@pytest.mark.usefixtures("nothing_stale")
def test_a_run_in_which_all_was_well_succeeds(run: RunCommand) -> None:
    assert run(whole()) == 0
    assert run(whole(("muster",)), [], "--target", "muster") == 0


def breaks_off(outcomes: list[Outcome]) -> None:
    outcomes[3].failures["muster"] = "TimeoutError"


def differs(outcomes: list[Outcome]) -> None:
    outcomes[3].unexpected.append(a_difference())


def breaks_a_promise(outcomes: list[Outcome]) -> None:
    outcomes[3].runs["kafka"].unmet.append("it is in at once")


def is_played_on_one_side(outcomes: list[Outcome]) -> None:
    """A case that is played on one side has nothing that could differ."""
    del outcomes[3].runs["kafka"]


def is_played_again_too_often(outcomes: list[Outcome]) -> None:
    by_scenario = {outcome.case.scenario.name: outcome for outcome in outcomes}
    for outcome in list(by_scenario.values())[: REPLAYS_MAX + 1]:
        outcome.at_first = Outcome(outcome.case, failures={"muster": "slow"})


def leaves_a_line_out(outcomes: list[Outcome]) -> None:
    outcomes[:] = [each for each in outcomes if "3.1" not in each.case.lines]


def is_killed_at_rest(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        outcome.runs = {kind: run_of(outcome.case, ended_amid=False) for kind in BOTH}


@pytest.mark.usefixtures("nothing_stale")
@pytest.mark.parametrize(
    ("goes_wrong", "says"),
    [
        (breaks_off, "not as expected: "),
        (differs, "not as expected: "),
        (breaks_a_promise, "not as expected: "),
        (is_played_on_one_side, "not played on all of kafka, muster: "),
        (is_played_again_too_often, f"{REPLAYS_MAX + 1} scenarios were played again"),
        (leaves_a_line_out, "not covered: 3.1"),
        (is_killed_at_rest, "not covered: "),
    ],
)
def test_whatever_goes_wrong_fails_it(
    run: RunCommand,
    capsys: pytest.CaptureFixture[str],
    goes_wrong: Callable[[list[Outcome]], None],
    says: str,
) -> None:
    outcomes = whole()
    goes_wrong(outcomes)
    assert run(outcomes) == 1
    assert any(line.startswith(says) for line in capsys.readouterr().out.splitlines())


@pytest.mark.usefixtures("nothing_stale")
def test_a_table_of_api_versions_that_differs_fails_it(
    run: RunCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(whole(), ["ApiVersions v4: API key 3: kafka (0, 13), muster (0, 12)"]) == 1
    assert "muster (0, 12)" in capsys.readouterr().out
    part = whole()[:1]
    assert run(part, ["ApiVersions v4: ..."], "--only", part[0].case.scenario.name) == 1


def test_a_wanted_difference_that_is_gone_fails_it(
    run: RunCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(whole()) == 1
    assert "no such difference any more: " in capsys.readouterr().out


@pytest.mark.usefixtures("nothing_stale")
def test_a_line_that_no_test_proves_any_more_fails_it(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verdict, "proofs_elsewhere", lambda: {"3.27": []})
    assert run(whole()) == 1
    assert "3.27 is shown nowhere" in capsys.readouterr().out


def test_a_part_says_nothing_of_what_it_leaves_out(run: RunCommand) -> None:
    part = whole()[:1]
    assert run(part, [], "--only", part[0].case.scenario.name) == 0
    breaks_off_first = whole()[:1]
    breaks_off_first[0].failures["kafka"] = "TimeoutError"
    assert run(breaks_off_first, [], "--only", part[0].case.scenario.name) == 1
