"""The packed offsets of one group and topic behave like the dict that they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator.offsets.committed import NO_EXPIRY, CommittedOffset, CommittedOffsets
from coordinator.offsets.topic_offsets import NewestOffsets, TopicOffsets
from protocol.codec.primitives import ZERO_UUID

int64s = st.integers(-(2**63), 2**63 - 1)
partitions = st.one_of(st.integers(0, 8), st.integers(-(2**31), 2**31 - 1))
commits = st.builds(
    CommittedOffset,
    offset=int64s,
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.sampled_from(["", "", "note"]),
    commit_wall_ms=int64s,
    expire_wall_ms=st.sampled_from([NO_EXPIRY, NO_EXPIRY, 5]),
    topic_id=st.sampled_from([ZERO_UUID, b"\x01" * 16]),
    log_offset=int64s,
)
steps = st.lists(st.tuples(partitions, st.one_of(commits, commits, commits, st.none())), max_size=60)


def follow(offsets: TopicOffsets, steps: list[tuple[int, CommittedOffset | None]]) -> None:
    for partition, commit in steps:
        if commit is None:
            offsets.remove(partition)
        else:
            offsets.put(partition, commit)


def as_dict(steps: list[tuple[int, CommittedOffset | None]]) -> dict[int, CommittedOffset]:
    newest = dict(steps)
    return {partition: commit for partition, commit in newest.items() if commit is not None}


@given(steps)
def test_it_holds_what_a_dict_would(steps: list[tuple[int, CommittedOffset | None]]) -> None:
    offsets, expected = TopicOffsets(), as_dict(steps)
    follow(offsets, steps)
    assert list(offsets.items()) == sorted(expected.items())
    assert list(offsets) == sorted(expected)
    assert len(offsets) == len(expected)
    for partition in (*dict(steps), -1, 0, 9, 2**31 - 1):
        assert offsets.get(partition) == expected.get(partition)


@given(steps, steps)
def test_the_newest_of_a_whole_log_are_like_the_same_one_by_one(
    steps: list[tuple[int, CommittedOffset | None]], more: list[tuple[int, CommittedOffset | None]]
) -> None:
    found, one_by_one = NewestOffsets(), TopicOffsets()
    found.newest.update(steps)
    follow(one_by_one, steps)
    offsets = TopicOffsets.of_newest(found)
    assert offsets == one_by_one
    follow(offsets, more)
    assert dict(offsets.items()) == as_dict(steps + more)


def test_two_are_equal_if_they_say_the_same_of_each_partition() -> None:
    commit = CommittedOffset(5, 1, "", 9, NO_EXPIRY, ZERO_UUID, 3)
    one, other = TopicOffsets(), TopicOffsets()
    one.put(0, commit)
    assert one != other
    other.put(1, commit)
    assert one != other
    other.put(0, commit._replace(topic_id=b"\x01" * 16))
    other.remove(1)
    assert one != other
    other.put(0, commit)
    assert one == other


def test_a_topic_and_a_group_without_offsets_are_forgotten() -> None:
    offsets, commit = CommittedOffsets(), CommittedOffset(5, 1, "", 9, NO_EXPIRY, ZERO_UUID, 3)
    offsets.put("g", "t", 3, commit)
    offsets.remove("g", "t", 4)
    offsets.remove("g", "other", 3)
    offsets.remove("other", "t", 3)
    assert offsets.topics_of("g") == ("t",)
    offsets.remove("g", "t", 3)
    assert not offsets.holds("g")
    assert offsets.count() == 0
