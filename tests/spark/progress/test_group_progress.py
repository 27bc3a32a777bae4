"""The rules by which a group follows a checkpoint, as plain calls: no Spark, no Kafka."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from muster.spark.errors import PassingError
from muster.spark.progress.group_progress import REFRESH_EVERY_S, GroupProgress
from muster.spark.progress.positions import (
    SHOWN_MAX,
    ConflictError,
    OffsetConflict,
    Positions,
    Standing,
    conflicts,
    due,
    earliest,
    listed,
)
from protocol.topic_partition import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FRESH = Standing(None, {})


class Query:
    """A query that stands where it is put."""

    def __init__(self, standing: Standing = FRESH) -> None:
        self.now = standing

    def standing(self) -> Standing:
        return self.now


class Group:
    """A group in memory, of a cluster that may be away or lack partitions; notes every commit."""

    group_id = "g"

    def __init__(self, offsets: Positions | None = None) -> None:
        self.offsets = dict(offsets or {})
        self.commits: list[Positions] = []
        self.absent: frozenset[TopicPartition] = frozenset()
        self.is_away = False

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self.is_away:
            raise PassingError("away")
        return {where: self.offsets[where] for where in partitions if where in self.offsets}

    def committed_in(self, topics: frozenset[str] | None) -> dict[TopicPartition, int]:
        return self.committed([where for where in self.offsets if topics is None or where.topic in topics])

    def commit(self, positions: Positions) -> frozenset[TopicPartition]:
        if self.is_away:
            raise PassingError("away")
        self.commits.append(dict(positions))
        self.offsets |= {where: offset for where, offset in positions.items() if where not in self.absent}
        return self.absent & positions.keys()


@pytest.mark.parametrize(
    ("standing", "group", "found"),
    [
        (FRESH, {}, []),
        (FRESH, {A0: 5}, [OffsetConflict("a", 0, None, 5)]),
        (FRESH, {A0: 0}, [OffsetConflict("a", 0, None, 0)]),
        (Standing(3, {A0: 5}), {}, []),
        (Standing(3, {A0: 5}), {A0: 5}, []),
        (Standing(3, {A0: 5}), {A0: 4, A1: 9, B0: 9}, []),
        (
            Standing(3, {A0: 5, A1: 0}),
            {A0: 6, A1: 1},
            [OffsetConflict("a", 0, 5, 6), OffsetConflict("a", 1, 0, 1)],
        ),
        (Standing(None, {A0: 5}), {A0: 5}, []),
        (Standing(None, {A0: 5}), {A0: 6}, [OffsetConflict("a", 0, 5, 6)]),
    ],
)
def test_a_group_that_stands_later_is_a_conflict(
    standing: Standing, group: Positions, found: list[OffsetConflict]
) -> None:
    assert conflicts(standing, group) == found


@pytest.mark.parametrize(
    ("standing", "group", "found"),
    [
        (FRESH, {A0: 5}, {}),
        (Standing(None, {A0: 5}), {}, {}),
        (Standing(0, {A0: 5, A1: 6}), {A0: 5}, {A1: 6}),
        (Standing(0, {A0: 5}), {A0: 9, B0: 7}, {A0: 5}),
        (Standing(0, {A0: 5}), {A0: 5}, {}),
    ],
)
def test_due_is_what_the_group_lacks_of_the_finished_batch(
    standing: Standing, group: Positions, found: Positions
) -> None:
    assert due(standing, group) == found


def test_of_several_positions_the_earliest_counts() -> None:
    assert earliest([{A0: 5, A1: 1}, {A0: 3}, {B0: 7}]) == {A0: 3, A1: 1, B0: 7}
    assert earliest([]) == {}


def test_a_long_list_is_cut() -> None:
    assert listed(range(SHOWN_MAX + 2)).endswith("9 and 2 more")
    assert listed(["x"]) == "x"


def test_each_finished_batch_moves_the_group_and_nothing_else_asks_the_cluster() -> None:
    query, group = Query(), Group()
    progress = GroupProgress(query, group)
    for batch_id in range(3):
        query.now = Standing(batch_id, {A0: batch_id * 10, A1: 7})
        progress.step(batch_id)
    group.is_away = True  # A step without news does not notice.
    progress.step(3)
    assert group.commits == [{A0: 0, A1: 7}, {A0: 10}, {A0: 20}]
    assert progress.last.committed == {A0: 20, A1: 7}
    assert progress.last.pending == {}


def test_a_restart_finds_the_group_behind_and_brings_it_on() -> None:
    group = Group({A0: 10, B0: 99})
    GroupProgress(Query(Standing(4, {A0: 20, A1: 3})), group).step(0)
    assert group.offsets == {A0: 20, A1: 3, B0: 99}


def test_a_checkpoint_behind_the_group_is_refused_with_both_positions() -> None:
    group = Group({A0: 10, A1: 30})
    with pytest.raises(ConflictError, match=r"a-1 \(checkpoint: 20, group: 30\)") as refused:
        GroupProgress(Query(Standing(4, {A0: 20, A1: 20})), group).step(0)
    assert refused.value.conflicts == (OffsetConflict("a", 1, 20, 30),)
    assert "on_conflict='reset'" in str(refused.value)
    assert group.commits == []


def test_a_fresh_checkpoint_under_a_group_with_offsets_is_refused() -> None:
    with pytest.raises(ConflictError, match=r"a-0 \(checkpoint: nothing yet, group: 10\)"):
        GroupProgress(Query(), Group({A0: 10})).step(0)


def test_offsets_of_other_topics_are_no_conflict_of_a_fresh_checkpoint_that_names_its_own() -> None:
    query, group = Query(), Group({B0: 10})
    progress = GroupProgress(query, group, frozenset("a"))
    progress.step(0)
    query.now = Standing(0, {A0: 5, B0: 1})
    progress.step(1)
    assert group.offsets == {A0: 5, B0: 10}


def test_a_reset_moves_the_group_back_once_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    query, group = Query(Standing(4, {A0: 20})), Group({A0: 30})
    progress = GroupProgress(query, group, may_reset=True)
    with caplog.at_level(logging.WARNING):
        progress.step(0)
    assert group.offsets == {A0: 20}
    assert "set back, as was asked: a-0 (checkpoint: 20, group: 30)" in caplog.text
    query.now = Standing(5, {A0: 40})
    group.offsets[A0] = 50
    with pytest.raises(ConflictError, match="Another client commits to it"):
        progress.step(1)


def test_a_reset_of_a_fresh_checkpoint_waits_for_its_first_batch() -> None:
    query, group = Query(), Group({A0: 30, B0: 5})
    progress = GroupProgress(query, group, may_reset=True)
    progress.step(0)
    assert group.commits == []
    query.now = Standing(0, {A0: 10})
    progress.step(1)
    assert group.offsets == {A0: 10, B0: 5}


def test_a_fresh_checkpoint_is_compared_again_when_its_first_batch_has_ended() -> None:
    query, group = Query(), Group()
    progress = GroupProgress(query, group)
    progress.step(0)
    group.offsets[A0] = 30
    progress.step(REFRESH_EVERY_S)  # It still knows nothing.
    query.now = Standing(0, {A0: 10})
    with pytest.raises(ConflictError, match=r"a-0 \(checkpoint: 10, group: 30\)"):
        progress.step(REFRESH_EVERY_S + 1)


def test_of_two_queries_with_one_group_the_one_behind_stops() -> None:
    group = Group()
    ahead, behind = Query(Standing(0, {A0: 10})), Query(Standing(0, {A0: 10}))
    first, second = GroupProgress(ahead, group), GroupProgress(behind, group)
    first.step(0)
    second.step(0)
    ahead.now = Standing(1, {A0: 30})
    first.step(1)
    behind.now = Standing(1, {A0: 20})
    with pytest.raises(ConflictError, match=r"a-0 \(checkpoint: 20, group: 30\)"):
        second.step(1)
    ahead.now = Standing(2, {A0: 31})
    first.step(2)
    assert group.offsets == {A0: 31}


def test_while_the_cluster_is_away_only_the_newest_position_waits() -> None:
    query, group = Query(Standing(0, {A0: 1})), Group()
    progress = GroupProgress(query, group)
    progress.step(0)
    group.is_away = True
    for batch_id in range(2, 50):
        query.now = Standing(batch_id, {A0: batch_id})
        with pytest.raises(PassingError):
            progress.step(batch_id)
        assert (progress.last.pending, progress.last.committed) == ({A0: batch_id}, {A0: 1})
    group.is_away = False
    progress.step(50)
    assert group.commits == [{A0: 1}, {A0: 49}]
    assert progress.last.pending == {}


def test_partitions_that_are_gone_are_left_out_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    query, group = Query(Standing(0, {A0: 1, B0: 1})), Group()
    group.absent = frozenset({B0})
    progress = GroupProgress(query, group)
    for batch_id in range(3):
        query.now = Standing(batch_id, {A0: batch_id, B0: batch_id})
        progress.step(batch_id)
    assert group.offsets == {A0: 2}
    assert progress.last.missing == {B0}
    assert progress.last.pending == {}
    assert caplog.text.count("the cluster does not have them: b-0") == 1
    group.absent = frozenset()
    query.now = Standing(3, {A0: 3, B0: 3})
    progress.step(3)
    assert (progress.last.missing, group.offsets) == (frozenset(), {A0: 3, B0: 3})


def test_an_idle_query_commits_again_before_its_offsets_expire() -> None:
    group = Group()
    progress = GroupProgress(Query(Standing(0, {A0: 1, A1: 2})), group)
    for now_s in (0, 1, REFRESH_EVERY_S - 1, REFRESH_EVERY_S, REFRESH_EVERY_S + 1):
        progress.step(now_s)
    assert group.commits == [{A0: 1, A1: 2}, {A0: 1, A1: 2}]
