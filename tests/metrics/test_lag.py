"""Lag in records and in time: where its points are, what they cost, markers, restarts, and its history."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.metrics.arrivals import POINTS_LEAST, Arrivals, Track
from coordinator.metrics.lag import KNOWN_MAX, READS_MAX, WANTED_MAX, LagMeter, UnreadRecords
from coordinator.metrics.lag_history import GROUPS_MAX, POINTS_MAX, TREND_MS, LagHistories
from coordinator.metrics.metrics import READ
from harness.doubles.inline_workers import InlineWorkers
from harness.wire import WireClient
from protocol.errors import ErrorCode
from tests.metrics.world import asked, running, samples, text_of, value, walk
from tests.server.asking import TOPIC, commit, fetch, make_topic, produce

SECOND_MS = 1000


class Log:
    """A partition as the arrivals see it."""

    def __init__(self, topic: str = "orders") -> None:
        self.topic, self.high_watermark, self.markers = topic, 0, 0

    @property
    def data_end(self) -> int:
        return self.high_watermark - self.markers


class World:
    """Arrivals on a clock that a test moves, and one partition."""

    def __init__(self, **bounds: int) -> None:
        self.now_ms = 0
        self.arrivals = Arrivals(lambda: self.now_ms, **bounds)
        self.log = Log()
        self.grow(0)

    def grow(self, records: int, log: Log | None = None) -> None:
        log = log or self.log
        log.high_watermark += records
        self.arrivals.advanced(cast(Any, log))

    def waited_ms(self, offset: int) -> int | None:
        return self.arrivals.waited_ms(cast(Any, self.log), offset)


def test_a_lag_in_time_is_at_most_a_second_more_than_since_the_record_arrived() -> None:
    """A thousand records at random times, against a table of all of them."""
    world, chance = World(), random.Random(7)
    arrived: list[int] = []
    for _ in range(1_000):
        world.now_ms += chance.choice((0, 3, 100, 900, 5_000))
        arrived += [world.now_ms] * (count := chance.randrange(1, 5))
        world.grow(count)
    world.now_ms += 60_000
    for offset, at_ms in enumerate(arrived):
        waited_ms = world.waited_ms(offset)
        assert waited_ms is not None
        assert 0 <= waited_ms - (world.now_ms - at_ms) < SECOND_MS, offset


def test_who_has_read_all_waits_for_nothing_however_long_the_topic_is_idle() -> None:
    world = World()
    world.grow(5)
    world.now_ms += 3_600_000
    assert world.waited_ms(5) == 0
    assert world.waited_ms(4) == 3_600_000


def test_only_markers_left_is_no_lag_in_time() -> None:
    world = World()
    world.grow(5)
    world.now_ms += 60_000
    world.log.markers = 1
    world.grow(1)
    world.now_ms += 60_000
    assert world.waited_ms(5) == 0
    assert world.waited_ms(4) == 120_000


def test_what_was_there_before_the_first_point_is_not_guessed() -> None:
    world = World()
    log = Log()
    log.high_watermark = 100
    world.arrivals.advanced(cast(Any, log))
    world.log = log
    world.grow(1)
    assert world.waited_ms(99) is None
    assert world.waited_ms(100) == 0
    world.now_ms += 10
    assert world.waited_ms(100) == 10


def test_records_that_are_cut_off_take_their_points_along() -> None:
    world = World()
    world.grow(10)
    world.now_ms += 10_000
    world.grow(10)
    world.log.high_watermark = 10
    world.arrivals.advanced(cast(Any, world.log))
    world.now_ms += 10_000
    world.grow(5)
    assert world.waited_ms(10) == 0
    assert world.waited_ms(3) == 20_000


def test_all_partitions_together_have_a_bound_and_old_points_get_coarse() -> None:
    most = 100
    world = World(points_max=most)
    logs = [world.log, Log(), Log(), Log()]
    for log in logs:
        world.grow(0, log)
    for _ in range(3_000):
        world.now_ms += SECOND_MS
        for log in logs:
            world.grow(1, log)
    assert world.arrivals.points <= max(most, POINTS_LEAST * len(logs))
    oldest_ms = world.waited_ms(0)
    assert oldest_ms == 2_999 * SECOND_MS, "the oldest point stays"
    recent_ms = world.waited_ms(world.log.high_watermark - 2)
    assert recent_ms == SECOND_MS, "the newest are as they were"


def test_the_coordinators_own_topics_have_no_points() -> None:
    world = World()
    own = Log("__consumer_offsets")
    world.grow(0, own)
    world.now_ms += SECOND_MS
    world.grow(5, own)
    assert world.arrivals.points == 0


def test_thinning_keeps_the_first_and_the_newer_half() -> None:
    track = Track(0)
    for number in range(9):
        track.advance(number + 1, number * SECOND_MS)
    track.thin()
    assert list(track.offsets) == [0, 2, 4, 5, 6, 7, 8]


READS_BETWEEN_WALKS = 15
END = 1 << 40


class Old:
    """A meter, and a partition whose records were there before the daemon: one a second, from 0 on."""

    def __init__(self) -> None:
        self.now_s = 1_000
        self.read_offsets: list[int] = []
        self.data_end, self.log = END, self
        self.unread = UnreadRecords(InlineWorkers())
        topics: Any = None
        arrivals = Arrivals(lambda: 0)
        self.meter = LagMeter(topics, arrivals, self.unread, lambda: 0, lambda: self.now_s * 1000)

    def batches(self, offset: int, size: int) -> Iterator[tuple[Any, bytes]]:
        self.read_offsets.append(offset)
        yield SimpleNamespace(is_control=False, base_timestamp_ms=offset * 1000), b""

    def seconds(self, offset: int) -> float | None:
        return self.meter.seconds(cast(Any, self), offset)

    def walk(self, *offsets: int) -> list[float | None]:
        """A walk that finds groups at these offsets, and what goes on until the next one begins."""
        self.meter.begin_walk()
        found = [self.seconds(offset) for offset in offsets]
        for _ in range(READS_BETWEEN_WALKS):
            self.now_s += 1
            self.unread.read()
        return found


def test_a_time_that_was_read_is_known_to_all_walks_that_ask_for_it() -> None:
    """Between two walks there are many reads, for which nobody asks."""
    old = Old()
    assert [old.walk(400) for _ in range(4)] == [[None], [615.0], [630.0], [645.0]]
    assert old.read_offsets == [400], "it is read once"


def test_a_time_that_no_walk_asks_for_any_more_is_forgotten() -> None:
    old = Old()
    for offset in range(10):
        old.walk(offset)
    assert len(old.unread._known) + len(old.unread._known_before) == 2, "those of the last two walks"
    assert old.seconds(9) is not None
    assert old.seconds(7) is None


def test_what_is_asked_between_two_walks_is_known_soon_and_not_for_ever() -> None:
    """As by the API, for a group that commits and is not looked at again."""
    old = Old()
    old.walk()
    assert old.seconds(5) is None
    old.unread.read()
    assert old.seconds(5) == 1_010.0
    old.walk()
    old.walk()
    assert old.unread._known == old.unread._known_before == {}
    assert old.seconds(5) is None


def test_of_many_unread_records_each_walk_has_some_more_read_until_all_are_known() -> None:
    """Those of the walk before that were not read are not read either, if no group is there any more."""
    old = Old()
    many = range(2 * WANTED_MAX)
    old.walk(*range(many.stop, 2 * many.stop))
    walks = 0
    while None in old.walk(*many):
        walks += 1
        assert len(old.unread._wanted) <= WANTED_MAX
        assert len(old.unread._known) <= (walks + 1) * READS_MAX * READS_BETWEEN_WALKS
    assert walks == -(-len(many) // (READS_MAX * READS_BETWEEN_WALKS))
    assert set(old.read_offsets[READS_MAX * READS_BETWEEN_WALKS :]) == set(many)


def test_so_many_times_are_kept_and_no_more() -> None:
    old = Old()
    old.unread._known = cast(Any, dict.fromkeys(range(KNOWN_MAX), 0))
    old.walk(5)
    assert not old.read_offsets
    assert old.walk(5) == [None], "it was not read, and is from here on: what was kept is gone"
    assert old.walk(5) != [None]


@pytest.mark.parametrize(("partitions", "is_in_steps"), [([400], False), ([401], True), ([200, 201], True)])
def test_a_group_with_many_partitions_is_summed_in_steps_however_many_topics_they_are_of(
    partitions: list[int], is_in_steps: bool
) -> None:
    meter: Any = Old().meter
    meter.ends_of = lambda topic: ([], [])  # There is no such topic.
    committed: Any = {str(number): range(count) for number, count in enumerate(partitions)}
    assert (meter.of_group(committed) is None) is is_in_steps


def commits(offset: int, group_id: str = "g") -> Any:
    def talk(client: WireClient) -> None:
        assert client.ask(commit(offset, group_id), 8).topics[0].partitions[0].error_code == 0

    return talk


def with_records(client: WireClient) -> None:
    make_topic(client)
    for _ in range(3):
        assert produce(client) == 0


async def test_a_group_without_a_commit_has_no_lag_and_not_zero(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, with_records)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert not [name for name, _ in found if name.startswith("muster_group_lag")]


async def test_after_a_restart_the_lag_in_time_is_that_of_the_records_timestamp(tmp_path: Path) -> None:
    """It is read on a thread, and absent until then; nothing is made up meanwhile."""
    async with running(tmp_path) as daemon:
        await asked(daemon, with_records)
        await asked(daemon, commits(1))
    async with running(tmp_path) as daemon:

        def loaded(client: WireClient) -> None:
            while client.ask(fetch(), 8).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass

        await asked(daemon, loaded)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert value(found, "muster_group_lag", group="g", topic=TOPIC) == 2
        assert value(found, "muster_group_lag_seconds", group="g", topic=TOPIC) is None
        for _ in range(READS_BETWEEN_WALKS):
            daemon.metrics.timer_fired(READ)
            await daemon._readers.idle()
        walk(daemon.metrics)
        seconds = value(samples(text_of(daemon.metrics)), "muster_group_lag_seconds", group="g", topic=TOPIC)
        # What `produce` of the tests sends has a timestamp of long ago.
        assert seconds is not None
        assert seconds > 0


async def test_a_topic_that_is_gone_has_no_lag(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, with_records)
        await asked(daemon, commits(1))
        shard = daemon.runtime.runner_for("g").shard
        assert shard is not None
        committed = shard.offsets.by_topic("g")
        assert daemon.metrics._meter.now(committed)[TOPIC].records == 2
        assert daemon.metrics._meter.now({"no such topic": committed[TOPIC]}) == {}


@pytest.mark.parametrize(
    ("records", "trend"),
    [
        ((5,), None),
        ((100, 104), "steady"),
        ((100, 130), "growing"),
        ((100, 2), "shrinking"),
        ((0, 9), "steady"),
    ],
)
def test_a_trend_needs_two_points_and_a_change_that_matters(
    records: tuple[int, ...], trend: str | None
) -> None:
    histories = LagHistories()
    for number, lag in enumerate(records):
        histories.add("g", number * 15_000, lag, None)
    assert histories.trend("g", TREND_MS) == trend


def test_a_history_is_an_hour_long_and_of_so_many_groups() -> None:
    histories = LagHistories()
    for number in range(POINTS_MAX + 5):
        histories.add("g", number, number, number / 2)
    found = histories.since("g", 0)
    assert len(found.times_ms) == len(found.records) == len(found.seconds) == POINTS_MAX
    assert (found.times_ms[0], found.records[-1], found.seconds[0]) == (5, POINTS_MAX + 4, 2.5)
    for number in range(GROUPS_MAX + 5):
        histories.add(f"g-{number}", 0, 0, None)
    assert len(histories._by_group) == GROUPS_MAX
    histories.keep({"g"})
    assert histories.since("g-1", 0) == LagHistories().since("nobody", 0)
    assert histories.since("g", POINTS_MAX + 4).records == (POINTS_MAX + 4,)
