"""Counters begin at 0: `increase` over two scrapes has all that happened between, and the alert rules fire."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import yaml

from coordinator.daemon.daemon import Daemon
from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.metrics.families import DAEMON
from coordinator.metrics.rebalance_counts import BEGINNINGS, EXPIRIES, RebalanceCounts
from tests.metrics.test_docs import RULES
from tests.metrics.test_exposition import live
from tests.metrics.test_one_count import SEEDS, rich_topic
from tests.metrics.world import Sample, asked, running, samples, text_of, walk
from tests.spark.events.histories import event
from tests.spark.events.test_rebalances import WHOLE

CAUSES: Final = ("session_expired", "member_left", "member_joined", "leader_rejoined", "topics_changed")


def alert(name: str) -> tuple[str, float]:
    """The counter that a rule asks the increase of, and what it has to reach."""
    rules = (rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"])
    (asked_for,) = (rule["expr"] for rule in rules if rule["alert"] == name)
    counter, threshold = re.findall(r"increase\((\w+)[^)]*\)+ >=? (\d+)", asked_for)[0]
    return counter, float(threshold)


def increase(first: Mapping[Sample, float], then: Mapping[Sample, float], name: str, **labels: str) -> float:
    """As Prometheus has it, summed: of a series that was not there before it knows nothing."""
    return sum(
        value - first.get((name, of), value)
        for (each, of), value in then.items()
        if each == name and labels.items() <= dict(of).items()
    )


def scraped(daemon: Daemon) -> dict[Sample, float]:
    walk(daemon.metrics)
    return samples(text_of(daemon.metrics))


def rebalance(group_id: str, number: int, cause: str) -> Iterable[GroupEvent]:
    """The events of a whole rebalance of that cause, the one after `number` others."""
    for each in WHOLE:
        yield replace(
            each,
            group_id=group_id,
            generation_id=each.generation_id + number,
            wall_ms=each.wall_ms + number * 10_000,
            cause=cause if each is WHOLE[0] else each.cause,
            rebalance_cause=None if each.rebalance_cause is None else cause,
        )


async def test_five_rebalances_of_five_causes_ring_the_alert(tmp_path: Path) -> None:
    counter, threshold = alert("MusterGroupRebalancesAgainAndAgain")
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        first = scraped(daemon)
        for number, cause in enumerate(CAUSES):
            for each in rebalance("m", number + 10, cause):
                daemon.metrics.rebalances.add(each)
        then = scraped(daemon)
        assert {dict(of)["cause"] for name, of in then if name == "muster_group_rebalances_total"} >= {
            *CAUSES
        }
        assert increase(first, then, counter, group="m") == len(CAUSES) >= threshold
        assert increase(first, then, "muster_rebalances_total") == len(CAUSES)
        lost = "muster_group_rebalance_seconds_total"
        assert increase(first, then, lost, group="m", phase="join") == pytest.approx(0.9 * len(CAUSES))


async def test_a_group_that_never_rebalanced_has_counters(tmp_path: Path) -> None:
    """One with offsets only, as a client without membership has it, may get members later."""
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        daemon.metrics.rebalances.groups.clear()
        first = scraped(daemon)
        for each in rebalance("m", 1, "member_left"):
            daemon.metrics.rebalances.add(each)
        then = scraped(daemon)
        assert increase(first, then, "muster_group_completed_rebalances_total", group="m") == 1
        assert increase(first, then, "muster_group_rebalance_seconds_total", group="m") == pytest.approx(1.0)


async def test_the_first_members_that_are_late_ring_the_alert(tmp_path: Path) -> None:
    counter, threshold = alert("MusterMembersExpire")
    async with running(tmp_path) as daemon:
        first = scraped(daemon)
        for cause in (CauseKind.SESSION_EXPIRED, CauseKind.REBALANCE_TIMEOUT):
            daemon.metrics.rebalances.add(event(0, "Stable PreparingRebalance", cause, removed_count=6))
        assert increase(first, scraped(daemon), counter) == 12 > threshold


async def test_what_the_others_do_first_is_in_the_increase(tmp_path: Path) -> None:
    async with running(tmp_path, muster_metrics_groups_max=0) as daemon:
        first = scraped(daemon)
        await asked(daemon, live)
        then = scraped(daemon)
        counters = ("muster_group_completed_rebalances_total", "muster_group_commits_total")
        assert [increase(first, then, each, group="__other__") for each in counters] == [1, 20]


async def test_in_a_fresh_daemon_every_counter_is_there_and_0(tmp_path: Path) -> None:
    """But for errors: of an API any might come."""
    async with running(tmp_path) as daemon:
        found = scraped(daemon)
        for name in (each.name for each in DAEMON.values() if each.kind == "counter"):
            values = {value for (each, _), value in found.items() if each == name}
            if name == "muster_loop_busy_seconds_total":
                assert values
            else:
                assert values == (set() if name == "muster_request_errors_total" else {0}), name


def test_rebalances_are_counted_by_what_begins_at_0() -> None:
    counts = RebalanceCounts()
    for seed in SEEDS[:3]:
        for each in rich_topic(seed):
            counts.add(each)
    assert counts.by_cause.keys() <= BEGINNINGS
    assert counts.expiries.keys() <= EXPIRIES
    assert len(counts.by_cause) > 10
