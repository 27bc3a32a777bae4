"""A run on nodes plays all that is about groups and offsets, and fails for what it leaves out or what is stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.conformance import verdict
from tests.conformance.answers import Answer
from tests.conformance.comparison import Difference
from tests.conformance.coverage import Coverage
from tests.conformance.lines import CELLS, LINES
from tests.conformance.nodes_run import TO_COVER, OnKafka, report, wrong_on_kafka
from tests.conformance.on_kafka import (
    CELLS_OF_GROUPS,
    DIFFERENT,
    LINES_OF_GROUPS,
    OF_GROUPS,
    REFUSED,
    elsewhere,
    of_groups,
)
from tests.conformance.refused import REFUSAL, Refusal, RefusedRun
from tests.conformance.registry import Case, all_scenarios
from tests.conformance.run import Run
from tests.conformance.suite import Outcome
from tests.conformance.wanted import Wanted

CASES = [case for scenario in all_scenarios() for case in scenario.cases()]
NODE_SECTIONS = ("6 ", "F ", "P ", "transactions ")
"""What the Kafka behind answers, as names of cells begin."""


@pytest.fixture(autouse=True)
def nothing_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every wanted difference for seen, since a run that is made up has none."""

    def none_stale(seen: list[tuple[str, Wanted, Difference]], names: set[str] | None = None) -> list[str]:
        return []

    monkeypatch.setattr(verdict, "stale", none_stale)


def outcome_of(case: Case) -> Outcome:
    """Equal, or with the difference that it has to have."""
    runs = {kind: Run(case.name, "127.0.0.1:1", {}, was_ended_amid=True) for kind in ("kafka", "muster")}
    reason = DIFFERENT.get(case.scenario.name, "")
    failures = {"muster": "TimeoutError"} if reason else {}
    return Outcome(case, runs, failures, reason_to_differ=reason)


def refusal_of(case: Case, refused: int = 1, *wrong: str) -> Refusal:
    return Refusal(case, refused, frozenset(), wrong, "RefusedError")


def whole() -> OnKafka:
    """A complete run in which all was well."""
    played = of_groups(CASES)
    outcomes = [outcome_of(each) for each in played if each.scenario.name not in REFUSED]
    refusals = [refusal_of(each) for each in played if each.scenario.name in REFUSED]
    return OnKafka(outcomes, refusals, is_complete=True)


# What is played.


def test_each_line_and_cell_is_of_groups_or_asked_of_the_kafka_behind() -> None:
    others = [each for each in (*LINES, *CELLS) if each not in OF_GROUPS]
    assert [each for each in others if not each.startswith(NODE_SECTIONS)] == []
    assert [each for each in OF_GROUPS if each.startswith(NODE_SECTIONS)] == []
    assert set(LINES_OF_GROUPS) == set(LINES)
    assert CELLS_OF_GROUPS.keys() | set(others) == CELLS.keys()


def test_what_is_not_played_is_about_something_else() -> None:
    played = {case.name for case in of_groups(CASES)}
    for case in CASES:
        if case.name not in played:
            assert all(line.startswith((*NODE_SECTIONS, "security ")) for line in case.lines), case.name
    assert len(list(elsewhere(CASES))) == 5


def test_all_that_is_of_groups_is_covered_by_what_is_played() -> None:
    assert Coverage([Outcome(case) for case in of_groups(CASES)], TO_COVER).missing == []


@pytest.mark.parametrize("name", sorted(REFUSED | DIFFERENT.keys()))
def test_the_tables_name_scenarios_that_are_played(name: str) -> None:
    cases = [case for case in of_groups(CASES) if case.scenario.name == name]
    assert cases
    if name in DIFFERENT:
        assert not any(case.ending for case in cases), "what shares a restart is judged without its reason"


# What fails a run.


def test_a_run_in_which_all_was_well_succeeds() -> None:
    assert list(wrong_on_kafka(whole())) == []


def is_as_kafkas_by_now(run: OnKafka) -> None:
    for outcome in run.outcomes:
        if outcome.reason_to_differ:
            outcome.failures.clear()


def fails_on_kafka_as_well(run: OnKafka) -> None:
    for outcome in run.outcomes:
        if outcome.reason_to_differ:
            outcome.failures["kafka"] = "TimeoutError"


def breaks_off(run: OnKafka) -> None:
    run.outcomes[3].failures["muster"] = "TimeoutError"


def is_taken(run: OnKafka) -> None:
    run.refusals[0] = refusal_of(run.refusals[0].case, 1, "TxnOffsetCommit v3: taken")


def is_not_asked(run: OnKafka) -> None:
    run.refusals[0] = refusal_of(run.refusals[0].case, 0)


def leaves_a_refusal_out(run: OnKafka) -> None:
    run.refusals[:] = [each for each in run.refusals if "O15" not in each.case.lines]


def leaves_a_line_out(run: OnKafka) -> None:
    run.outcomes[:] = [each for each in run.outcomes if "3.1" not in each.case.lines]


@pytest.mark.parametrize(
    ("goes_wrong", "says"),
    [
        (is_as_kafkas_by_now, f"not as expected: {next(iter(DIFFERENT))}"),
        (fails_on_kafka_as_well, f"not as expected: {next(iter(DIFFERENT))}"),
        (breaks_off, "not as expected: "),
        (is_taken, "not refused: "),
        (is_not_asked, "not refused: "),
        (leaves_a_refusal_out, "not covered: O15"),
        (leaves_a_line_out, "not covered: 3.1"),
    ],
)
def test_whatever_goes_wrong_fails_it(goes_wrong: Callable[[OnKafka], None], says: str) -> None:
    run = whole()
    goes_wrong(run)
    assert any(line.startswith(says) for line in wrong_on_kafka(run))


def test_the_report_names_what_differs_and_what_is_refused() -> None:
    said = "\n".join(report(whole(), verbose=False))
    for name, reason in DIFFERENT.items():
        assert f"differs: {name} (A76): {reason}" in said
    assert f"refused, as they have to be: {len(REFUSED)} scenarios" in said
    assert "O15" in said.split("lines and cells that are refused and nothing else")[1]


# What counts as refused.


def committed(*errors: int) -> TxnOffsetCommitResponse:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
        for index, error in enumerate(errors)
    ]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=partitions)])


@pytest.mark.parametrize(
    ("message", "refused", "taken"),
    [
        (AddOffsetsToTxnResponse(error_code=REFUSAL), 1, 0),
        (AddOffsetsToTxnResponse(error_code=0), 0, 1),
        (AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH), 0, 1),
        (committed(REFUSAL, REFUSAL), 1, 0),
        (committed(REFUSAL, 0), 0, 1),
        (committed(), 0, 0),
        (HeartbeatResponse(), 0, 0),
    ],
)
def test_all_of_a_request_has_to_be_refused(message: Any, refused: int, taken: int) -> None:
    run = RefusedRun("r", "127.0.0.1:1", {})
    run._take(Answer(type(message).__name__, message, b"", ""))
    assert (run.refused, len(run.taken)) == (refused, taken)


def test_a_version_that_is_not_offered_is_refused_and_what_is_held_is_not() -> None:
    case = of_groups(CASES)[0]
    assert Refusal(case, 0, frozenset({(28, 5)}), (), "closed").is_shown
    assert not Refusal(case, 0, frozenset(), (), "it ended").is_shown
    assert not Refusal(case, 1, frozenset({(28, 5)}), ("held: g",), "closed").is_shown
