"""The population is what docs/scale.md says, within what chance allows; so are samples and estimates of it."""

from __future__ import annotations

import numpy as np
import pytest

from tools.simulate import population as drawn
from tools.simulate.history import Options, choose
from tools.simulate.population import AUTO, DEAD, Groups, Topics, new_groups, new_topics
from tools.simulate.production import DAY_MS, log_ends
from tools.simulate.sample import commits_per_second, evenly, evenly_within

COUNT = 20_000
START_MS = 1_767_225_600_000


@pytest.fixture(scope="module")
def topics() -> Topics:
    return new_topics(1, COUNT)


@pytest.fixture(scope="module")
def groups(topics: Topics) -> Groups:
    return new_groups(1, COUNT, topics)


def test_kinds_and_traits_have_their_shares(groups: Groups) -> None:
    shares = np.bincount(groups.kinds, minlength=5) / COUNT
    assert shares == pytest.approx(drawn.KIND_SHARES, abs=0.012)
    alive = groups.kinds != DEAD
    assert np.mean(groups.changed_only) == pytest.approx(drawn.CHANGED_ONLY_SHARE, abs=0.02)
    assert np.mean(groups.is_slow) == pytest.approx(drawn.SLOW_SHARE, abs=0.006)
    assert np.mean(groups.is_stormy[alive]) == pytest.approx(drawn.STORMY_SHARE, abs=0.003)
    assert np.mean(groups.capacity < 1) == pytest.approx(drawn.BEHIND_SHARE, abs=0.005)


def test_members_and_intervals(groups: Groups) -> None:
    alive = groups.kinds != DEAD
    assert np.all(groups.members[alive] >= 1)
    assert np.all(groups.members <= groups.lanes)
    assert np.all(groups.members[~alive] == 0)
    wide = alive & (groups.lanes >= 50)
    assert np.median(groups.members[wide]) == pytest.approx(drawn.MEMBERS_MEDIAN, abs=0.5)
    assert set(groups.interval_ms[groups.kinds == AUTO]) == {drawn.AUTO_INTERVAL_MS}


def test_topics_are_shared_by_zipfs_law(groups: Groups, topics: Topics) -> None:
    readers = np.zeros(len(topics.names), np.int64)
    for numbers in groups.topics:
        readers[list(numbers)] += 1
    assert readers[0] / readers[1:3].mean() == pytest.approx(2.4, abs=0.5)  # 1 to the mean of 1/2 and 1/3.
    assert readers[0] / readers[99] == pytest.approx(100, rel=0.4)
    assert len(set(topics.names)) == len(set(topics.ids)) == COUNT // drawn.GROUPS_PER_TOPIC


def test_production_follows_the_day_and_never_falls() -> None:
    times_ms = np.arange(START_MS, START_MS + DAY_MS + 1, 60_000)
    ends = log_ends(np.array([10.0]), np.array([13.0]), times_ms, START_MS)
    per_minute = np.diff(ends)
    assert np.all(per_minute >= 0)
    assert int(ends[-1] - ends[0]) == pytest.approx(10 * DAY_MS / 1_000, abs=1)
    assert int(np.argmax(per_minute)) / 60 == pytest.approx(13, abs=1)
    assert per_minute.max() / per_minute.min() == pytest.approx(4, abs=0.05)


def test_a_sample_has_large_and_small_in_the_shares_of_all(groups: Groups, topics: Topics) -> None:
    sizes = commits_per_second(groups, topics)
    chosen = evenly(sizes, 400)
    assert len(set(chosen.tolist())) == 400
    assert np.mean(sizes[chosen]) == pytest.approx(np.mean(sizes), rel=0.1)
    budget = float(sizes.sum()) / 50
    within = evenly_within(sizes, budget)
    assert 0.9 * budget <= float(sizes[within].sum()) <= budget
    assert len(evenly_within(sizes, 0.0)) <= np.sum(sizes == 0.0) + 1


def test_the_choice_keeps_to_its_bounds() -> None:
    options = Options(groups=5_000, days=7, end_ms=START_MS, events_max=50_000, commits_max=4_000_000)
    choice = choose(options)
    assert set(choice.committing) <= set(choice.with_events) < set(range(5_000))
    assert 40_000 < choice.chosen.events <= 50_000
    assert 2_500_000 < choice.chosen.commits <= 4_000_000
    assert choice.whole.groups == 5_000
    assert choice.whole.commits > 100 * choice.chosen.commits
