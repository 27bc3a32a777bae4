"""The scenarios together show every line and cell that is to be covered, in every version it holds for."""

from __future__ import annotations

import re
from pathlib import Path

from protocol.messages import REQUESTS
from tests.conformance.coverage import Coverage, proofs_elsewhere
from tests.conformance.lines import (
    BY_CLASS,
    CELLS,
    DURABLE,
    ELSEWHERE,
    LINES,
    NAMED_LINES,
    NETS,
    SCRAPED,
    Net,
)
from tests.conformance.registry import Case, Ending, all_scenarios
from tests.conformance.run import Run
from tests.conformance.security_lines import SECURITY_LINES
from tests.conformance.suite import Outcome
from tests.spoken import served

NAMED_OTHERWISE = {
    "Fetch": "^F ",
    "JoinGroup": "^2.2 Join:",
    "SyncGroup": "^2.2 Sync:",
    "LeaveGroup": "^2.2 Leave:",
    "DescribeProducers": "^P describe: ",
    "DescribeTopicPartitions": "topics that other requests do not make$",
    **dict.fromkeys(("DescribeAcls", "CreateAcls", "DeleteAcls"), "ACLs$"),
}
"""Which cells ask an API whose name they do not bear."""

CASES = [case for scenario in all_scenarios() for case in scenario.cases()]


def test_everything_is_covered() -> None:
    assert Coverage([Outcome(case) for case in CASES]).missing == []


def test_every_version_that_is_served_is_compared() -> None:
    """docs/apis.md lists the versions: a cell without versions stands for an API that has but one."""
    missing = {}
    for key, versions in served().items():
        name = REQUESTS[key].__name__.removesuffix("Request")
        pattern = re.compile(NAMED_OTHERWISE.get(name, rf"\b{name}\b"))
        cells = [
            CELLS[cell] or (versions if len(versions) == 1 else ()) for cell in CELLS if pattern.search(cell)
        ]
        if absent := versions.difference(*cells):
            missing[name] = sorted(absent)
    assert missing == {}


def test_scenarios_name_lines_that_there_are() -> None:
    known = {*LINES, *CELLS, *ELSEWHERE, *BY_CLASS, *SCRAPED, *SECURITY_LINES}
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


def test_a_durable_line_is_shown_by_a_broker_that_was_killed_right_after_answers() -> None:
    """Neither a script without an end nor one that ends in order shows that an answer waited for the write."""

    def of(line: str, ending: Ending | None) -> list[Outcome]:
        return [Outcome(case) for case in CASES if line in case.lines and case.ending is ending]

    for line in DURABLE:
        for ending in (None, Ending.TERM):
            assert line in Coverage(of(line, ending)).missing
        killed = of(line, Ending.KILL)
        assert line not in Coverage(killed).missing
        for outcome in killed:
            outcome.runs["muster"] = Run(outcome.case.name, "127.0.0.1:1", {})
        assert line in Coverage(killed).missing, "it was killed at rest"


def test_each_line_has_its_net_and_few_have_another_than_a_running_kafka() -> None:
    """These may be shown otherwise: the lists may only get shorter."""
    nets = {net: {line for line, own in NETS.items() if own is net} for net in Net}
    assert nets[Net.SIMULATION] == {
        *("3.27", "3.38", "3.49", "3.50", "3.70", "3.71", "3.72", "3.73", "3.85", "3.86", "3.88")
    }
    assert nets[Net.CLASS] == {"A34", "A35", "A44"}
    assert nets[Net.SCRAPE] == {"O28"}
    assert nets[Net.KILLED] == {"3.33", "3.44", "3.63", "3.64", "O8", "O15", "A74"}
    assert set(LINES) == nets[Net.LIVE] | nets[Net.KILLED]


def test_the_test_that_proves_a_line_is_found_by_its_name(tmp_path: Path) -> None:
    source = tmp_path / NAMED_LINES
    source.parent.mkdir(parents=True)
    source.write_text(
        "def test_3_27_a_newcomer_waits_five_minutes() -> None:\n    ...\n\ndef test_3_7_other() -> None: ...\n"
    )
    proofs = proofs_elsewhere(tmp_path)
    assert proofs.pop("3.27") == [f"{NAMED_LINES}::test_3_27_a_newcomer_waits_five_minutes"]
    assert not any(proofs.values())


def test_what_is_not_shown_here_is_shown_elsewhere() -> None:
    assert all(proofs_elsewhere().values())


def test_what_is_not_equal_is_counted_as_covered_only() -> None:
    outcomes = [Outcome(case) for case in CASES if case.scenario.name == "an_old_client_is_in_at_once"]
    lines = next(iter(Coverage(outcomes).counts()))
    assert "3 covered, 3 equal" in lines
    outcomes[0].failures["muster"] = "broke off"
    lines, *_, broken = Coverage(outcomes).counts()
    assert "3 covered, 0 equal" in lines
    assert broken == "not equal: 3.1, 3.2, 3.21"
