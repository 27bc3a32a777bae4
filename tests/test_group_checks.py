"""`muster groups check` and `wait`: the rules by themselves, on samples and sights."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

import pytest

from muster.cluster import Cluster
from muster.groups import check_command
from muster.groups.check_command import CheckOptions
from muster.groups.check_rules import Finding, GroupSamples, Limits, Sample, Status, findings, judge, worst
from muster.groups.descriptions import GroupDescription
from muster.groups.history import GroupHistory
from muster.groups.sights import Sight
from muster.groups.wait_command import Wanted, told
from muster.groups.watch_command import change
from muster.usage import UsageError
from protocol.topic_partition import TopicPartition
from tests.why_events import NOON_MS, before, joined

WHERE = TopicPartition("orders", 0)


def samples(*pairs: tuple[int | None, int | None], owned: bool = True) -> list[Sample]:
    return [Sample(committed, log_end, owned) for committed, log_end in pairs]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (samples((5, 5), (5, 9), (9, 9)), Status.OK),  # No lag now.
        (samples((5, 5), (5, 9), (7, 9)), Status.OK),  # None at a moment of the window.
        (samples((1, 9), (3, 9), (4, 9)), Status.OK),  # It goes down.
        (samples((1, 9), (3, 10), (4, 12)), Status.OK),  # It went down in between.
        (samples((1, 9), (2, 10), (4, 12)), Status.WARN),  # It never does.
        (samples((1, 9), (2, 11), (3, 14)), Status.WARN),
        (samples((1, 9), (1, 11), (1, 14)), Status.STALL),
        (samples((1, 9), (1, 9)), Status.STALL),
        (samples((1, 9), (1, 11), owned=False), Status.STOP),
        (samples((9, 9), (9, 11), owned=False), Status.STOP),  # Well before, and nobody reads on.
        (samples((9, 9), (9, 11)), Status.OK),
        (samples((5, 9), (2, 9), (3, 9)), Status.REWIND),
        (samples((1, 9), (None, 9)), Status.OK),
        (samples((1, None), (1, None)), Status.OK),
        (samples((None, 9), (None, 11), owned=False), Status.OK),
        (samples((100, 5)), Status.BEYOND),  # One look is enough: the log ends before the commit.
        (samples((1, 9), (100, 5)), Status.BEYOND),
        (samples((100, 5), (5, 5)), Status.OK),
        (samples((8, 5), (8, 9)), Status.OK),  # No lag at a moment of the window.
        (samples((100, 5), (None, 5)), Status.OK),
        (samples((1, 9)), Status.OK),  # One look shows no movement.
        ([], Status.OK),
    ],
)
def test_a_partition_is_judged_by_burrows_rules(seen: list[Sample], expected: Status) -> None:
    assert judge(seen) is expected


def test_one_member_that_had_it_at_a_moment_makes_a_stall_of_a_stop() -> None:
    assert judge([Sample(1, 9, False), Sample(1, 9, True)]) is Status.STALL


def test_what_is_wrong_is_said_with_its_figures_and_its_place() -> None:
    seen = GroupSamples({WHERE: samples((1, 1_009), (1, 1_011))})
    assert findings(seen, Limits(), 30_000) == [
        Finding(Status.STALL, "lag 1,010, and nothing committed beyond 1 for 30 s", WHERE)
    ]
    stopped = GroupSamples({WHERE: samples((1, 9), (1, 9), owned=False)})
    assert findings(stopped, Limits(), 30_000)[0].what == "lag 8, and no member has it"
    rewound = GroupSamples({WHERE: samples((5, 9), (2, 9))})
    assert findings(rewound, Limits(), 30_000)[0].what == "lag 7, and put back from 5 to 2"
    beyond = GroupSamples({WHERE: samples((1_100, 5))})
    assert findings(beyond, Limits(lag=0), 0) == [
        Finding(Status.BEYOND, "1,100 is committed, and the log ends at 5", WHERE)
    ]
    behind = GroupSamples({WHERE: samples((1, 9), (2, 12))})
    assert findings(behind, Limits(), 30_000)[0].what == "lag 10, from 8 in 30 s, though it reads"


def test_limits_are_exceeded_above_them_only() -> None:
    seen = GroupSamples({WHERE: samples((1, 9))}, {WHERE: 300_000}, 4)
    at_the_limit = Limits(lag=8, time_lag_ms=300_000, rebalances=4, rebalances_within_ms=3_600_000)
    assert findings(seen, at_the_limit, 0) == []
    above = Limits(lag=7, time_lag_ms=299_999, rebalances=3, rebalances_within_ms=3_600_000)
    assert findings(seen, above, 0) == [
        Finding(Status.LIMIT, "lag 8, more than 7", WHERE),
        Finding(Status.LIMIT, "time lag 5 min, more than 4 min 59 s", WHERE),
        Finding(Status.LIMIT, "4 rebalances in 1 h, more than 3"),
    ]


async def test_rebalances_before_the_time_that_is_asked_about_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = tuple(
        replace(each, generation_id=number)
        for number, minutes in enumerate((120, 61, 59, 1))
        for each in (before(minutes, joined("app-1", wall_ms=NOON_MS)),)
    )

    async def read_histories(cluster: object, group_ids: list[str]) -> dict[str, GroupHistory]:
        return {group_id: GroupHistory(events, 0) for group_id in group_ids}

    monkeypatch.setattr(check_command, "read_histories", read_histories)
    monkeypatch.setattr(check_command, "describe_groups", described_as_empty)
    monkeypatch.setattr(time, "time_ns", lambda: NOON_MS * 1_000_000)
    for period, count in (("30m", 1), ("1h", 2), ("3h", 4)):
        limits = CheckOptions(max_rebalances=f"0/{period}").limits()
        seen = await check_command.observed(cast(Cluster, None), ["g"], limits, 0)
        assert seen["g"].rebalances == count, period


async def described_as_empty(cluster: object, group_ids: list[str]) -> dict[str, GroupDescription]:
    return {
        group_id: GroupDescription(group_id, "classic", "Empty", "", "", None, None, 1, "", (), ())
        for group_id in group_ids
    }


def test_the_worst_finding_is_the_groups_status() -> None:
    found = [Finding(Status.REWIND, ""), Finding(Status.WARN, ""), Finding(Status.STOP, "")]
    assert (worst(found), worst([])) == (Status.REWIND, Status.OK)


def test_the_options_of_a_check_are_its_limits() -> None:
    options = CheckOptions(max_lag=5, max_time_lag="5m", max_rebalances="4/h")
    assert options.limits() == Limits(
        lag=5, time_lag_ms=300_000, rebalances=4, rebalances_within_ms=3_600_000
    )
    assert CheckOptions(max_rebalances="10/2h").limits().rebalances_within_ms == 7_200_000
    for wrong in (CheckOptions(max_rebalances="4"), CheckOptions(max_rebalances="x/h")):
        with pytest.raises(UsageError, match="--max-rebalances"):
            wrong.limits()
    with pytest.raises(UsageError, match="--max-time-lag 5 must"):
        CheckOptions(max_time_lag="5").limits()


STABLE = Sight("g", 0, "Stable", (("a", "a-1"), ("b", "b-1")), lag=3, partitions=2)


@pytest.mark.parametrize(
    ("wanted", "is_met"),
    [
        (Wanted(state=["Stable"]), True),
        (Wanted(state=["empty,stable"]), True),
        (Wanted(state=["Empty"]), False),
        (Wanted(members=2), True),
        (Wanted(members=1), False),
        (Wanted(lag_below=4), True),
        (Wanted(lag_below=3), False),
        (Wanted(state=["Stable"], members=2, lag_below=4), True),
        (Wanted(state=["Stable"], members=3, lag_below=4), False),
    ],
)
def test_all_that_is_wanted_has_to_hold(wanted: Wanted, is_met: bool) -> None:
    assert wanted.is_met_by(STABLE) is is_met


def test_lag_that_is_not_known_is_not_low() -> None:
    assert not Wanted(lag_below=10).is_met_by(Sight("g", 0, "Stable", lag=0, partitions=2, unmeasured=1))
    assert not Wanted(lag_below=10).is_met_by(Sight("g", 0, "Stable"))
    assert not Wanted(lag_below=10).is_met_by(Sight("g", 0, "Stable", partitions=2, beyond_end=1))


def test_nothing_wanted_and_states_that_there_are_not_are_refused() -> None:
    for wrong in (Wanted(), Wanted(state=["stuck"])):
        with pytest.raises(UsageError):
            wrong.check()


def test_sights_and_changes_are_told_in_words() -> None:
    assert told(STABLE) == "Stable, 2 members, lag 3"
    empty = Sight("g", 1, "Empty", lag=1_204, partitions=2, unmeasured=1)
    assert change(STABLE, empty) == (
        "Stable -> Empty, 0 members, lag 1,204, no lag known of 1 partition; a, b left"
    )
    beyond = Sight("g", 1, "Empty", partitions=2, beyond_end=1)
    assert told(beyond) == "Empty, 0 members, lag 0, 1 partition committed beyond the log's end"
    assert change(None, STABLE) == "Stable, 2 members, lag 3"
    first, second = (Sight("g", 0, "Stable", group_epoch=epoch) for epoch in (3, 4))
    assert change(first, second) == "Stable, 0 members, lag 0; group epoch 4"
