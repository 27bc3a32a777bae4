"""The walk over all groups: its bounds, who is shown, what is summed, and how little it takes at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from coordinator.daemon.daemon import Daemon
from coordinator.effects import CoordinatorRecord, HistoryRow
from coordinator.groups.causes import Cause, CauseKind
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.history.events import worded
from coordinator.metrics import group_walk
from coordinator.metrics.families import OTHER
from coordinator.metrics.group_walk import IDLE_MS, TICK_MS, WINDOW_MS
from coordinator.metrics.lag import Unread
from tests.metrics.test_exposition import live
from tests.metrics.world import asked, running, samples, text_of, value, walk
from tests.server.asking import TOPIC, commit, make_topic, produce
from tests.server.joining import join
from tests.spark.events.test_rebalances import WHOLE

GROUPS = 10_000
RECORDS = 7

SHOWN = 100

SLICE_MAX_S = 0.003
"""Within this are nine of ten slices: a millisecond is meant; a collection may come into some."""

SCRAPE_MAX_S = 0.02


def offset_record(group_id: str, offset: int) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=TOPIC, partition=0)
    return CoordinatorRecord(key, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1))


def fill(daemon: Daemon, names: list[str], offset_of: Callable[[int], int]) -> None:
    """Give each group one committed offset, as a replay does: through no socket and no disk."""
    for number, name in enumerate(names):
        shard = daemon.runtime.runner_for(name).shard
        assert shard is not None
        shard.replay(offset_record(name, offset_of(number)), number)


def topic_with_records(client: Any) -> None:
    make_topic(client)
    for _ in range(RECORDS):
        assert produce(client) == 0


async def test_the_foremost_have_series_and_the_others_are_summed(tmp_path: Path) -> None:
    async with running(tmp_path, muster_metrics_groups_max=3) as daemon:
        await asked(daemon, topic_with_records)
        fill(daemon, [f"g{number}" for number in range(RECORDS + 1)], lambda number: number)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        lags = {
            dict(labels)["group"]: lag for (name, labels), lag in found.items() if name == "muster_group_lag"
        }
        assert lags == {"g0": 7, "g1": 6, "g2": 5, OTHER: 4 + 3 + 2 + 1}
        assert value(found, "muster_metrics_groups", shown="yes") == 3
        assert value(found, "muster_metrics_groups", shown="no") == RECORDS + 1 - 3
        assert value(found, "muster_committed_offsets") == RECORDS + 1
        assert [daemon.metrics.lag_records(f"g{number}") for number in (0, 7)] == [7, 0]


async def test_the_others_have_all_members_and_the_longest_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joins(client: Any) -> None:
        for group_id in ("one", "two", "three"):
            client.ask(join(group_id=group_id), 3)

    async with running(tmp_path, muster_metrics_groups_max=0) as daemon:
        await asked(daemon, topic_with_records)
        await asked(daemon, joins)
        names = [f"g{number}" for number in range(RECORDS + 1)]
        monkeypatch.setattr(daemon.metrics._meter, "seconds", lambda partition, offset: RECORDS - offset)
        for offset_of in (lambda number: number, lambda number: RECORDS - number):
            fill(daemon, names, offset_of)  # Whichever comes last has not the longest in both.
            walk(daemon.metrics)
            found = samples(text_of(daemon.metrics))
            assert value(found, "muster_group_lag_seconds", group=OTHER, topic=OTHER) == RECORDS
            assert value(found, "muster_group_members", group=OTHER) == 3


async def test_without_room_for_any_group_all_are_summed(tmp_path: Path) -> None:
    async with running(tmp_path, muster_metrics_groups_max=0) as daemon:
        await asked(daemon, topic_with_records)
        fill(daemon, ["one", "two"], lambda number: number)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert value(found, "muster_group_lag", group=OTHER, topic=OTHER) == 7 + 6
        assert {dict(labels).get("group", OTHER) for _, labels in found} == {OTHER}


async def test_counts_of_the_others_grow_only_by_what_they_did_as_such(tmp_path: Path) -> None:
    """A group that gets series of its own, or loses them, takes nothing of the sum along."""

    def commits(*groups: str) -> Callable[[Any], None]:
        def talk(client: Any) -> None:
            for group_id in groups:
                assert client.ask(commit(0, group_id), 8).topics[0].partitions[0].error_code == 0

        return talk

    def counts() -> tuple[float | None, ...]:
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        return tuple(value(found, "muster_group_commits_total", group=group) for group in ("a", "b", OTHER))

    async with running(tmp_path, muster_metrics_groups_max=1) as daemon:
        await asked(daemon, make_topic)
        await asked(daemon, commits("a"))
        assert counts() == (1, None, 0)
        daemon.metrics.walk.active_ms["a"] -= 10  # It was active before the other is.
        await asked(daemon, commits("b", "b"))
        assert counts() == (None, 2, 0)
        daemon.metrics.walk.active_ms["b"] += 60_000
        await asked(daemon, commits("a"))
        assert counts() == (None, 2, 1)


async def test_expressions_say_which_groups_have_series(tmp_path: Path) -> None:
    settings = {"muster_metrics_groups_include": "app-.*", "muster_metrics_groups_exclude": ".*-test"}
    async with running(tmp_path, **settings) as daemon:
        await asked(daemon, make_topic)
        fill(daemon, ["app-1", "app-1-test", "an app-1", "other"], lambda number: 0)
        walk(daemon.metrics)
        assert set(daemon.metrics.walk.found.groups) == {"app-1"}
        assert daemon.metrics.walk.found.others.groups == 0


async def test_what_an_excluded_group_does_is_not_in_the_sum_of_the_others(tmp_path: Path) -> None:
    def talk(client: Any) -> None:
        make_topic(client)
        for group_id in ("secret", "shown"):
            assert client.ask(commit(0, group_id), 8).topics[0].partitions[0].error_code == 0

    settings = {"muster_metrics_groups_exclude": "secret.*", "muster_metrics_groups_max": 0}
    async with running(tmp_path, **settings) as daemon:
        await asked(daemon, talk)
        for each in (replace(each, group_id=name) for name in ("secret", "shown") for each in WHOLE):
            daemon.metrics.rebalances.add(each)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert value(found, "muster_group_commits_total", group=OTHER) == 1
        assert value(found, "muster_group_rebalances_total", group=OTHER, cause="session_expired") == 1
        assert value(found, "muster_group_rebalance_seconds_total", group=OTHER, phase="join") == 0.9
        assert value(found, "muster_offset_commits_total") == 2, "the daemon's own sums have all"


async def test_a_group_that_is_empty_for_an_hour_leaves_and_comes_back_when_it_commits(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, make_topic)
        await asked(daemon, lambda client: client.ask(commit(0, "sleeper"), 8))
        walk(daemon.metrics)
        assert "sleeper" in daemon.metrics.walk.found.groups
        daemon.metrics.walk.active_ms["sleeper"] -= IDLE_MS
        walk(daemon.metrics)
        assert "sleeper" not in daemon.metrics.walk.found.groups
        await asked(daemon, lambda client: client.ask(commit(0, "sleeper"), 8))
        walk(daemon.metrics)
        assert "sleeper" in daemon.metrics.walk.found.groups


async def test_what_is_kept_of_a_group_goes_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, make_topic)
        await asked(daemon, lambda client: client.ask(commit(0, "gone"), 8))
        walk(daemon.metrics)
        shard = daemon.runtime.runner_for("gone").shard
        assert shard is not None
        del shard.groups["gone"]
        walk(daemon.metrics)
        kept = daemon.metrics.walk
        assert not {"gone"} & {*kept.commits, *kept.active_ms, *kept.found.groups, *kept.lags}
        assert value(samples(text_of(daemon.metrics)), "muster_offset_commits_total") == 1


async def test_nothing_is_kept_of_a_group_that_lived_between_two_walks(tmp_path: Path) -> None:
    """As one that was joined and deleted: whoever makes such groups must not make the daemon grow."""
    async with running(tmp_path) as daemon:
        metrics = daemon.metrics
        joined = HistoryRow(
            "brief", 1, "Empty", "PreparingRebalance", Cause(CauseKind.MEMBER_JOINED), 1, 1, 0
        )
        metrics.rebalances.add(worded(joined))
        metrics.rebalances.add(
            worded(joined._replace(generation_id=1, to_state="Empty", from_state="Stable"))
        )
        assert metrics.rebalances.groups.keys() == metrics.walk.active_ms.keys() == {"brief"}
        walk(metrics)
        assert not metrics.rebalances.groups
        assert not metrics.walk.active_ms
        assert metrics.rebalances.by_cause.total() == 1, "the sums of all groups keep it"


async def test_times_of_records_are_forgotten_once_a_whole_walk_has_found_nobody_before_them(
    tmp_path: Path,
) -> None:
    """The groups read on, and what was looked up for them must not make the daemon grow."""
    async with running(tmp_path) as daemon:
        await asked(daemon, topic_with_records)
        (partition,), _ = daemon.metrics._meter.ends_of(TOPIC)
        unread, times = Unread(partition, 0), daemon.metrics._unread
        times.knows(unread)
        times.read()
        await daemon._readers.idle()
        assert times.knows(unread)
        walk(daemon.metrics)
        walk(daemon.metrics)
        assert not times.knows(unread)


@pytest.mark.measured
async def test_a_walk_and_a_scrape_of_many_groups_are_cheap_and_in_slices(tmp_path: Path) -> None:
    """A tenth of the 100,000 groups that `bench.metrics_scrape` takes, of those shown, and of its 200 ms."""
    async with running(tmp_path, muster_metrics_groups_max=SHOWN) as daemon:
        await asked(daemon, topic_with_records)
        fill(daemon, [f"group-{number:06}" for number in range(GROUPS)], lambda number: number % RECORDS)
        slices = [slice_of_a_walk(daemon)]
        while daemon.metrics.walk._steps is not None:
            slices.append(slice_of_a_walk(daemon))
        assert len(slices) > 10
        assert sorted(slices)[len(slices) * 9 // 10] < SLICE_MAX_S
        assert len(daemon.metrics.walk.found.groups) == SHOWN
        began_s = thread_time()
        chunks = list(daemon.metrics.exposition())
        took_s = thread_time() - began_s
        assert took_s < SCRAPE_MAX_S
        assert len(chunks) > 50


def slice_of_a_walk(daemon: Daemon) -> float:
    began_s = thread_time()
    daemon.metrics.walk.timer_fired("walk")
    return thread_time() - began_s


async def test_a_walk_begins_by_itself_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as daemon:
        deadlines: list[int] = []
        monkeypatch.setattr(daemon.runtime, "set_timer", lambda owner, key, at_ms: deadlines.append(at_ms))
        began_ms = daemon.runtime.now_ms()
        daemon.metrics.walk.timer_fired("walk")
        assert daemon.metrics.walk._steps is None, "there is nothing to walk"
        assert began_ms + TICK_MS <= deadlines[-1] <= daemon.runtime.now_ms() + TICK_MS


async def test_a_walk_rests_so_long_that_all_walks_take_4_percent_of_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as daemon:
        deadlines: list[int] = []
        cpu_s = count()
        monkeypatch.setattr(daemon.runtime, "set_timer", lambda owner, key, at_ms: deadlines.append(at_ms))
        monkeypatch.setattr(group_walk, "thread_time", lambda: next(cpu_s))
        began_ms = daemon.runtime.now_ms()
        whole_walk(daemon)
        took_s = next(cpu_s) - 1
        assert took_s > 5
        slices = len(deadlines)
        assert deadlines[-1] - began_ms >= (took_s - 2 * slices) / 0.04 * 1000 > 2 * TICK_MS


async def test_a_margin_is_forgotten_after_two_windows(tmp_path: Path) -> None:
    """Else one bad beat, long ago, would be an alert for ever."""

    def margin() -> float | None:
        return value(samples(text_of(daemon.metrics)), "muster_group_heartbeat_margin_ratio", group="m")

    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        whole_walk(daemon)
        assert (margin() or 0) > 0.6
        shown = []
        for _ in range(3):
            daemon.metrics.walk._window_ms -= WINDOW_MS
            whole_walk(daemon)
            shown.append(margin())
        assert shown[0] is not None
        assert shown[-1] is None


def whole_walk(daemon: Daemon) -> None:
    """Do one by the timer, as the daemon does."""
    walking = daemon.metrics.walk
    walking.timer_fired("walk")
    while walking._steps is not None:
        walking.timer_fired("walk")
