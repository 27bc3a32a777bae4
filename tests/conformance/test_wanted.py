"""The table of wanted differences excuses the fields it names, with the values it names, and nothing else."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from protocol.messages.describe_groups import DescribedGroup
from protocol.messages.sync_group import SyncGroupResponse
from tests.conformance.comparison import Difference, Entry, differences, normalised
from tests.conformance.registry import all_scenarios
from tests.conformance.run import PARKED
from tests.conformance.wanted import WANTED, reason_for, stale

CASE = "a_member_parked_in_sync_leaves/v5"
STEP = "bob: SyncGroup v5"


def difference(what: str, kafka: object, muster: object) -> Difference:
    """The difference between two sides that saw these."""
    theirs, ours = (normalised([Entry(what, seen)], "127.0.0.1:1") for seen in (kafka, muster))
    (found,) = differences(theirs, ours)
    return found


def test_what_is_wanted_is_excused() -> None:
    assert reason_for(CASE, difference(STEP, PARKED, SyncGroupResponse(error_code=25, assignment=b"")))


@pytest.mark.parametrize(
    ("case", "step", "kafka", "muster"),
    [
        ("another_case/v5", STEP, PARKED, SyncGroupResponse(error_code=25, assignment=b"")),
        (CASE, "alice: SyncGroup v5", PARKED, SyncGroupResponse(error_code=25, assignment=b"")),
        (CASE, STEP, PARKED, SyncGroupResponse(error_code=27, assignment=b"")),
        (CASE, STEP, PARKED, SyncGroupResponse(error_code=25, assignment=b"x")),
        (CASE, STEP, "the connection was closed", SyncGroupResponse(error_code=25, assignment=b"")),
        (CASE, STEP, SyncGroupResponse(error_code=25, assignment=b""), PARKED),
    ],
)
def test_anything_else_is_reported(case: str, step: str, kafka: object, muster: object) -> None:
    assert reason_for(case, difference(step, kafka, muster)) is None


def test_a_field_more_than_wanted_is_reported() -> None:
    case, step = "join_a_group_with_one_protocol_twice/v9", "the group described"
    kafka = DescribedGroup(group_id="g", group_state="PreparingRebalance")
    muster = DescribedGroup(group_id="g", group_state="CompletingRebalance")
    assert reason_for(case, difference(step, kafka, muster))
    muster.protocol_type = "consumer"
    assert reason_for(case, difference(step, kafka, muster)) is None


def test_a_field_that_never_differs_is_stale() -> None:
    found = difference(STEP, PARKED, SyncGroupResponse(error_code=25, assignment=b""))
    row = reason_for(CASE, found)
    assert row is not None
    fields = sum(
        len(fields) for each in WANTED for steps in each.scenarios.values() for fields in steps.values()
    )
    assert len(stale([])) == fields
    assert len(stale([(CASE, row, found)])) == fields - 1


def test_rows_are_about_scenarios_that_there_are() -> None:
    names = {scenario.name for scenario in all_scenarios()}
    for row in WANTED:
        for pattern in row.scenarios:
            assert [name for name in names if fnmatchcase(name, pattern)], pattern
