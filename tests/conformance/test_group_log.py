"""Where a script appends to a partition of the groups' log behind its coordinator's back, it is there alone."""

from __future__ import annotations

from coordinator.groups.partitioning import partition_for
from tests.conformance.group_log import PARTITIONS
from tests.conformance.registry import Ending, all_scenarios
from tests.conformance.scenarios.consumer_records import records_of_another_broker_are_read as appending


def test_no_group_of_the_same_restart_lies_on_the_partition_that_is_appended_to() -> None:
    """Kafka loads such a partition anew with its next write, and all that it knows beside its log is lost."""
    cases = [
        case
        for scenario in all_scenarios()
        for case in scenario.cases()
        if scenario.on == "delayed" and case.ending is Ending.TERM
    ]
    (own,) = [case for case in cases if case.scenario.script is appending]
    others = {partition_for(case.name, PARTITIONS) for case in cases if case is not own}
    assert others
    assert partition_for(own.name, PARTITIONS) not in others
