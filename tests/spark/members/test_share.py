"""What a member takes, processes and offers to be committed, without any broker."""

from __future__ import annotations

import pytest

from muster.spark.members.report import OffsetRange
from muster.spark.members.share import OutOfOrderError, ProcessedOffset, Share
from protocol.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def records(where: TopicPartition, *offsets: int) -> list[tuple[TopicPartition, int, str]]:
    return [(where, offset, f"{where[1]}-{offset}") for offset in offsets]


def owning(*positions: int | None, ends: dict[TopicPartition, int] | None = None) -> Share:
    """A share that owns the first partitions of `t`, from the given positions on."""
    share = Share(ends)
    share.assign({TopicPartition("t", number): position for number, position in enumerate(positions)})
    return share


def test_rows_come_in_order_with_a_range_for_each_partition() -> None:
    share = owning(None, 7)
    batch = share.take([*records(A, 3, 4), *records(B, 9), *records(A, 6)])
    assert batch.rows == ["0-3", "0-4", "1-9", "0-6"]
    assert batch.ranges == (OffsetRange("t", 0, 3, 7, 3), OffsetRange("t", 1, 7, 10, 1))


def test_only_what_is_processed_is_offered_for_a_commit_and_only_once() -> None:
    share = owning(None, None)
    batch = share.take(records(A, 0, 1))
    assert share.uncommitted() == []
    share.mark_processed(batch)
    assert share.uncommitted() == [ProcessedOffset("t", 0, 2, False)]
    share.mark_committed(share.uncommitted())
    assert share.uncommitted() == []


def test_the_ranges_of_one_owner_join_up_over_offsets_that_have_no_rows() -> None:
    share = owning(None)
    share.mark_processed(share.take(records(A, 5, 6)))
    share.reach(A, 9)  # Markers of transactions lie at 7 and 8.
    share.mark_processed(share.take([]))
    assert share.uncommitted() == [ProcessedOffset("t", 0, 9, False)]
    batch = share.take(records(A, 10))
    assert batch.ranges == (OffsetRange("t", 0, 7, 11, 1),)
    share.mark_processed(batch)
    assert share.ranges() == (OffsetRange("t", 0, 5, 11, 3),)


def test_each_owning_of_a_partition_has_a_range_of_its_own() -> None:
    share = owning(None)
    share.mark_processed(share.take(records(A, 0, 1)))
    share.release([A])
    share.assign({A: None})
    share.mark_processed(share.take(records(A, 8)))
    assert share.ranges() == (OffsetRange("t", 0, 0, 2, 2), OffsetRange("t", 0, 8, 9, 1))
    assert share.rows == {A: 3}


def test_rows_behind_the_end_are_not_taken_and_show_that_it_is_reached() -> None:
    share = owning(None, ends={A: 2})
    batch = share.take(records(A, 0, 1, 2, 3))
    assert batch.rows == ["0-0", "0-1"]
    assert share.newly_at_end() == [], "nothing is processed yet"
    share.mark_processed(batch)
    assert share.uncommitted() == [ProcessedOffset("t", 0, 2, True)]
    assert share.newly_at_end() == [A]
    assert share.newly_at_end() == [], "reported once"


def test_a_partition_that_ends_with_markers_is_at_its_end_by_the_brokers_word() -> None:
    share = owning(None, ends={A: 5})
    share.mark_processed(share.take(records(A, 0, 1, 2)))
    share.reach(A, 4)
    share.mark_processed(share.take([]))
    assert share.newly_at_end() == []
    share.reach(A, 8)
    share.mark_processed(share.take([]))
    assert share.newly_at_end() == [A]
    assert share.uncommitted() == [ProcessedOffset("t", 0, 5, True)]


def test_a_log_without_rows_is_at_its_end_as_soon_as_the_broker_says_so() -> None:
    share = owning(None, ends={A: 0})
    assert share.newly_at_end() == []
    share.reach(A, 0)
    share.mark_processed(share.take([]))
    assert share.uncommitted() == [ProcessedOffset("t", 0, 0, True)]


def test_a_store_that_is_at_the_end_already_has_it_committed_there() -> None:
    share = owning(5, ends={A: 5})
    share.mark_processed(share.take([]))
    assert share.uncommitted() == [ProcessedOffset("t", 0, 5, True)]


def test_a_partition_made_after_the_start_has_nothing_for_a_run_with_ends() -> None:
    share = owning(None, None, ends={A: 1})
    batch = share.take([*records(A, 0), *records(B, 0, 1)])
    assert batch.rows == ["0-0"]


def test_rows_of_a_partition_that_was_taken_away_are_left_to_its_next_owner() -> None:
    share = owning(None)
    share.release([A])
    batch = share.take(records(A, 0))
    assert batch.rows == []
    share.mark_processed(batch)
    assert share.uncommitted() == []


def test_a_revocation_asks_for_its_partitions_alone() -> None:
    share = owning(None, None)
    share.mark_processed(share.take([*records(A, 0), *records(B, 4)]))
    assert share.uncommitted([B, TopicPartition("elsewhere", 0)]) == [ProcessedOffset("t", 1, 5, False)]


def test_a_row_that_comes_twice_or_backwards_is_never_committed_over() -> None:
    share = owning(None)
    with pytest.raises(OutOfOrderError, match="t-0: offset 4 behind 6"):
        share.take(records(A, 4, 5, 4))
    assert share.uncommitted() == []
