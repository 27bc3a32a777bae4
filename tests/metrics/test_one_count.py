"""`why`, `muster groups history`, /metrics and Spark's table `rebalances` count the same in the same topic."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from coordinator.history.events import decode_event, encode_event
from coordinator.history.rebalances import Rebalance
from coordinator.metrics.rebalance_counts import UNKNOWN_CAUSE, RebalanceCounts
from muster.groups.rebalance_views import rebalance_views
from muster.groups.why.answers import Question, answer
from tests.metrics.test_group_walk import fill
from tests.metrics.world import Sample, running, samples, text_of, value, walk
from tests.spark.events.histories import Chronicle, ConsumerChronicle, records
from tests.spark.events.test_rebalances import history, lost, lost_with_gaps, of_the_job

SEEDS = range(12)
KINDS: dict[str, type[Chronicle | ConsumerChronicle]] = {
    "classic": Chronicle,
    "consumer": ConsumerChronicle,
    "both": Chronicle,
}


def rich_topic(seed: int) -> list[GroupEvent]:
    """Groups of both kinds side by side, a storm of one, restarts within rebalances, and gaps."""
    chance = random.Random(seed)
    groups = []
    for number, (name, kind) in enumerate(KINDS.items()):
        events = [replace(each, group_id=name) for each in history(seed * 3 + number, kind)]
        groups.append(with_restarts(events, chance))
    groups[0] = lost(groups[0], chance)
    groups[1] = lost_with_gaps(groups[1], chance)
    groups.append([replace(each, group_id="storm") for each in history(seed + 500, Chronicle)])
    merged = []
    while any(groups):
        merged.append(chance.choice([each for each in groups if each]).pop(0))
    return merged


def with_restarts(events: list[GroupEvent], chance: random.Random) -> list[GroupEvent]:
    """The events, and now and then one that says that the coordinator was restarted."""
    found = []
    for each in events:
        found.append(each)
        if each.to_state != "Dead" and chance.random() < 0.03:
            reason = CauseKind.COORDINATOR_RESTARTED
            found.append(replace(each, from_state="Dead", cause=reason.slug, reason=reason.text, phase_ms={},
                                 rebalance_cause=None, rebalance_ms={}, removed_count=0))  # fmt: skip
    return found


def by_group(topic: list[GroupEvent]) -> dict[str, list[GroupEvent]]:
    """Each group's events in order, with the gaps, which may be any group's."""
    names = {each.group_id for each in topic if each.group_id}
    return {name: [each for each in topic if each.group_id in (name, "")] for name in sorted(names)}


def of_history(events: list[GroupEvent]) -> list[Rebalance]:
    found = (view for view in rebalance_views(events) if view.is_rebalance and view.is_over)
    return [view.rebalance for view in found if view.rebalance is not None]


def of_why(group_id: str, events: list[GroupEvent]) -> set[tuple[int, int, str]]:
    """The rebalances that are over which `why` explains, asked as of each moment of the history."""
    now_ms = max(each.wall_ms for each in events) + 1
    times = {each.wall_ms for each in events}
    answers = (answer(Question(group_id, at_ms, now_ms), events, None) for at_ms in times)
    over = (each.rebalance for each in answers if each.rebalance is not None and each.is_over)
    return {(each.started_at, each.ended_at, each.cause) for each in over}


def causes(found: list[Rebalance]) -> Counter[str]:
    return Counter(each.cause or UNKNOWN_CAUSE for each in found)


def apart(topic: list[GroupEvent]) -> list[GroupEvent]:
    """The events with no two in one millisecond: so there is a time as of which each rebalance is the last one."""
    return [replace(each, wall_ms=each.wall_ms + number) for number, each in enumerate(topic)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_all_four_count_the_same_rebalances_by_the_same_causes(seed: int, tmp_path: Path) -> None:
    topic = apart(rich_topic(seed))
    in_history = {name: of_history(events) for name, events in by_group(topic).items()}
    assert sum(map(len, in_history.values())) > 40
    for name, events in by_group(topic).items():
        ended = [(each.started_at, each.ended_at, each.cause) for each in in_history[name]]
        assert of_why(name, events) == {*ended}
        assert len({*ended}) == len(ended)
    in_all = causes([each for found in in_history.values() for each in found])
    of_spark = of_the_job(records(topic))
    assert causes(of_spark) == in_all
    page = await of_the_page(topic, tmp_path)
    assert counted(page, "muster_rebalances_total") == in_all
    lasted_ms = value(page, "muster_rebalance_seconds_sum", phase="all")
    assert lasted_ms == pytest.approx(sum(each.duration_ms or 0 for each in of_spark) / 1000)
    for name, found in in_history.items():
        shown = counted(page, "muster_group_rebalances_total", group=name)
        assert value(page, "muster_group_completed_rebalances_total", group=name) == shown.total()
        was_removed = any(each.to_state == "Dead" for each in by_group(topic)[name])
        assert shown <= causes(found) if was_removed else shown == causes(found)


async def of_the_page(topic: list[GroupEvent], directory: Path) -> dict[Sample, float]:
    """What /metrics of a daemon says after these events; its groups have the names of the topic's."""
    async with running(directory) as daemon:
        fill(daemon, list(by_group(topic)), lambda number: 0)
        walk(daemon.metrics)
        for each in topic:
            daemon.metrics.rebalances.add(decode_event(encode_event(each)[1]))
        return samples(text_of(daemon.metrics))


def counted(page: dict[Sample, float], name: str, **labels: str) -> Counter[str]:
    """The counts of one metric of the page by cause, those that are not 0."""
    found: Counter[str] = Counter()
    for (each, of), count in page.items():
        if each == name and labels.items() <= dict(of).items() and count:
            found[dict(of)["cause"]] += int(count)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_events_of_one_millisecond_are_counted_alike(seed: int) -> None:
    """As they come; `why` is then asked for the last of several rebalances, so it has no count."""
    topic = rich_topic(seed)
    metrics = RebalanceCounts()
    for each in topic:
        metrics.add(decode_event(encode_event(each)[1]))
    of_metrics: Counter[str] = Counter()
    for (_, cause), count in metrics.by_cause.items():
        of_metrics[cause] += count
    in_history = {name: of_history(events) for name, events in by_group(topic).items()}
    of_spark = of_the_job(records(topic))
    assert of_metrics == causes([each for found in in_history.values() for each in found]) == causes(of_spark)
    for name, events in by_group(topic).items():
        found = in_history[name]
        assert of_why(name, events) <= {(each.started_at, each.ended_at, each.cause) for each in found}


def test_the_topic_is_rich() -> None:
    """Else equal counts would show little: several causes, restarts, gaps, both kinds of groups."""
    topic = [each for seed in SEEDS for each in rich_topic(seed)]
    assert {"coordinator_restarted", "events_dropped", "session_expired", "member_left"} <= {
        each.cause for each in topic
    }
    assert {"Reconciling", "PreparingRebalance"} <= {each.to_state for each in topic}
