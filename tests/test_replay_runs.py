"""Runs of commits are replayed at once: with the outcome of a replay one by one, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.effects import CommitRun
from coordinator.groups.record_codec import encode_commit_run
from coordinator.shard import bulk_replay, replay_runs
from coordinator.shard.replay_runs import MAX_RUN, MIN_RUN
from protocol.records.records import encode_batch, parse_header
from protocol.records.run import RecordRun
from tests.test_bulk_replay import IDS, assert_same, in_bulk, int32s, int64s

WALL_MS = 1_700_000_000_000
LENGTHS = [1, MIN_RUN, MIN_RUN + 1, MIN_RUN + 2, 40, 70]


def run(
    partitions: Sequence[int], offsets: Sequence[int], *, group: str = "g", topic: str = "t", ms: int = 0
) -> RecordRun:
    count = len(partitions)
    commits = CommitRun(group, topic, IDS[1], WALL_MS + ms, partitions, offsets, [7] * count)
    return encode_commit_run(commits, WALL_MS + ms)


@st.composite
def runs(draw: st.DrawFn) -> RecordRun:
    count = draw(st.sampled_from(LENGTHS))
    partitions = draw(st.lists(st.one_of(st.integers(0, 50), int32s), min_size=count, max_size=count))
    offsets = draw(st.lists(int64s, min_size=count, max_size=count))
    group, topic = draw(st.sampled_from(["g", "g", "h"])), draw(st.sampled_from(["t", "t", "u"]))
    return run(partitions, offsets, group=group, topic=topic, ms=draw(st.sampled_from([0, 0, 1, 100])))


@settings(max_examples=60, deadline=None)
@given(st.lists(runs(), min_size=1, max_size=6))
def test_runs_say_the_same_at_once(found: list[RecordRun]) -> None:
    assert_same([encode_batch(found), encode_batch(found[::-1], base_offset=1_000)])


@settings(max_examples=60, deadline=None)
@given(runs(), st.data())
def test_a_run_with_bytes_that_were_changed_says_the_same(found: RecordRun, drawn: st.DataObject) -> None:
    batch = encode_batch([found])
    for _ in range(drawn.draw(st.integers(1, 3))):
        batch[drawn.draw(st.integers(61, len(batch) - 1))] = drawn.draw(st.integers(0, 255))
    assert_same([batch])


@pytest.mark.parametrize("position_in_run", [1, 5, MIN_RUN + 3])
def test_every_byte_of_a_record_in_a_run_may_be_another(position_in_run: int) -> None:
    whole = encode_batch([run(range(MIN_RUN + 4), range(MIN_RUN + 4))])
    size = (len(whole) - 61) // (MIN_RUN + 4)
    for position in range(61 + position_in_run * size, 61 + (position_in_run + 1) * size):
        for change in (0x01, 0x02, 0x80):
            batch = bytearray(whole)
            batch[position] ^= change
            assert_same([batch])


def test_a_run_longer_than_what_is_taken_at_once() -> None:
    """Offset deltas of one, two and three bytes are in it, and it ends with the batch."""
    count = 8 * MAX_RUN + 200
    assert_same([encode_batch([run(range(count), range(count))])])


def test_a_run_is_replayed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above hold of a replay that never looks for one."""
    replayed: list[int] = []
    replay = replay_runs.replay_run

    def watched(*arguments: Any) -> int:
        replayed.append(replay(*arguments))
        return replayed[-1]

    monkeypatch.setattr(bulk_replay, "replay_run", watched)
    batch = encode_batch([run(range(40), range(40)), run(range(20), range(20), topic="u")])
    in_bulk([batch])
    assert parse_header(batch).record_count == 60
    assert replayed == [38, 18]  # A topic's first record is decoded, the next one is the run's first.
