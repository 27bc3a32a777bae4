"""A commit of many partitions leaves what the same commit, one by one, leaves: state, log and answer."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.effects import CommitRun
from coordinator.offsets.committed import NO_EXPIRY, CommittedOffset
from coordinator.offsets.topic_offsets import TopicOffsets
from harness.doubles.topics import Topics, topic_id_of
from protocol.codec.codec import decode, encode
from protocol.codec.packed import PackedArray
from protocol.codec.primitives import ZERO_UUID
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.groups.driver import Driver

COUNT = 300


def commit(
    version: int, partitions: list[int], start: int = 0, note: str | None = "", **more: Any
) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=start + index, committed_metadata=note
        )
        for index in partitions
    ]
    name, topic_id = ("", topic_id_of(1)) if version >= 10 else ("orders", ZERO_UUID)
    topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=rows)]
    return OffsetCommitRequest(group_id="g", topics=topics, **more)


def play(requests: list[OffsetCommitRequest], version: int, is_packed: bool) -> tuple[Driver, list[Any]]:
    """Play the requests as they come off the wire, or as lists; return what they leave and are answered."""
    driver, answers = Driver(topics=Topics(orders=COUNT)), []
    for request in requests:
        if is_packed:
            request = decode(OffsetCommitRequest, version, encode(request, version))
            assert isinstance(request.topics[0].partitions, PackedArray)
        answers.append(encode(driver.call(request, version), version))
    driver.assert_replay_agrees()
    return driver, answers


SHUFFLED = random.Random(5).sample(range(COUNT), COUNT)
CASES = {
    "all": [list(range(COUNT))],
    "all, again": [list(range(COUNT)), list(range(COUNT))],
    "shuffled": [SHUFFLED],
    "one half, then all": [list(range(0, COUNT, 2)), list(range(COUNT)), list(range(COUNT))],
    "some twice in one": [[*range(100), *range(50, 150)]],
    "some that are not there": [list(range(COUNT - 50, COUNT + 50)), [-1, *range(40)]],
    "none that is there": [list(range(COUNT, COUNT + 40))],
}


@pytest.mark.parametrize("version", [2, 5, 6, 7, 8, 9, 10])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("note", ["", None])
def test_packed_or_not_it_is_the_same(version: int, case: list[list[int]], note: str | None) -> None:
    requests = [commit(version, partitions, 1000 * turn, note) for turn, partitions in enumerate(case)]
    packed, packed_answers = play(requests, version, True)
    listed, listed_answers = play(requests, version, False)
    assert packed_answers == listed_answers
    assert packed.log == listed.log
    assert packed.shard.offsets == listed.shard.offsets
    assert packed.shard.groups.keys() == listed.shard.groups.keys()


def test_one_with_a_retention_of_its_own_is_stored_one_by_one() -> None:
    """A run has no expiry for its commits (docs/kafka.md O1, O19)."""
    request = commit(4, list(range(COUNT)), retention_time_ms=5_000)
    packed, _ = play([request], 4, True)
    stored = packed.shard.offsets.get("g", "orders", 7)
    assert stored is not None
    assert stored.expire_wall_ms != NO_EXPIRY


def test_a_refused_one_stores_nothing_and_says_so_for_each() -> None:
    request = commit(8, list(range(COUNT)), generation_id_or_member_epoch=3, member_id="unknown")
    packed, packed_answers = play([request], 8, True)
    _, listed_answers = play([request], 8, False)
    assert packed_answers == listed_answers
    assert not packed.log


ids = st.sampled_from([ZERO_UUID, b"\1" * 16])
few = st.integers(0, 1)  # So that a run often names just the partitions that there are.
before = st.lists(st.tuples(few, st.sampled_from(["", "", "note"]), ids, st.booleans()), max_size=6)
runs = st.lists(st.tuples(st.lists(few, min_size=1, max_size=4), ids), max_size=4)


@example([(0, "note", ZERO_UUID, False)], [([0], ZERO_UUID)])
@example([(0, "", ZERO_UUID, False)], [([0], b"\1" * 16)])
@example([(0, "note", ZERO_UUID, True)], [([0, 1], ZERO_UUID)])
@settings(max_examples=300)
@given(before, runs)
def test_rows_of_a_run_are_put_as_single_ones(
    before: list[tuple[int, str, bytes, bool]], runs: list[tuple[list[int], bytes]]
) -> None:
    """The rows are equal whatever was stored before: partitions, metadata, topic ids, removed rows."""
    at_once, one_by_one = TopicOffsets(), TopicOffsets()
    for each in (at_once, one_by_one):
        for partition, note, topic_id, goes in before:
            each.put(partition, CommittedOffset(5, 1, note, 9, NO_EXPIRY, topic_id, 3))
            if goes:
                each.remove(partition)
    for number, (partitions, topic_id) in enumerate(runs):
        offsets = [10 * number + partition for partition in partitions]
        run = CommitRun("g", "t", topic_id, 50 + number, partitions, offsets, [number] * len(partitions))
        at_once.put_run(run, 100 * number)
        for place, (partition, offset) in enumerate(zip(partitions, offsets, strict=True)):
            fields = (offset, number, "", 50 + number, NO_EXPIRY, topic_id, 100 * number + place)
            one_by_one.put(partition, CommittedOffset(*fields))
    assert dict(at_once.items()) == dict(one_by_one.items())
    assert list(at_once) == list(one_by_one)
