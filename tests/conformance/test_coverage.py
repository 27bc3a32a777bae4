"""The scenarios together show every line and cell that is to be covered, in every version it holds for."""

from __future__ import annotations

from tests.conformance.coverage import Coverage
from tests.conformance.lines import CELLS, ELSEWHERE, LATER, LINES
from tests.conformance.registry import Case, all_scenarios
from tests.conformance.suite import Outcome

CASES = [case for scenario in all_scenarios() for case in scenario.cases()]


def test_everything_is_covered() -> None:
    assert Coverage([Outcome(case) for case in CASES]).missing == []


def test_scenarios_name_lines_that_there_are() -> None:
    known = {*LINES, *CELLS, *ELSEWHERE, *LATER}
    unknown = {(case.scenario.name, line) for case in CASES for line in case.lines if line not in known}
    assert unknown == set()


def test_a_cell_is_claimed_in_no_version_that_its_rule_does_not_hold_for() -> None:
    wrong = {
        (case.name, line)
        for case in CASES
        for line in case.lines
        if CELLS.get(line) and case.version not in CELLS[line]
    }
    assert wrong == set()


def test_a_version_that_no_case_plays_is_missing() -> None:
    cell = "2.2 Heartbeat: wrong generation"

    def plays(case: Case) -> bool:
        return cell in case.lines and case.version != 3

    covered = Coverage([Outcome(case) for case in CASES if plays(case)])
    assert f"{cell} (versions 3)" in covered.missing
    assert "3.1" in covered.missing


def test_what_is_not_equal_is_counted_as_covered_only() -> None:
    outcomes = [Outcome(case) for case in CASES if "3.2" in case.lines]
    outcomes[0].failures["muster"] = "broke off"
    (lines, _, broken) = Coverage(outcomes).counts()
    assert "1 covered" not in lines or "0 equal" in lines
    assert "3.2" in broken
