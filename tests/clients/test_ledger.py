"""The books of a group notice records unread, committed ones that are read again, and offsets that go back."""

from __future__ import annotations

import pytest

from tests.clients.ledger import Commit, Ledger, Read, Sample

P = "topic-0"
READS = [Read(10, P, 0, 4, "a"), Read(20, P, 5, 9, "b")]
COMMITS = [Commit(12, P, 5), Commit(22, P, 10)]
SAMPLES = [Sample(11, P, 0), Sample(13, P, 5), Sample(30, P, 10)]


def test_books_that_agree() -> None:
    ledger = Ledger.of(READS, COMMITS, SAMPLES)
    ledger.check({P: 10})
    assert ledger.repeated == 0


def test_what_was_not_committed_may_be_read_again() -> None:
    """As after a crash: the repeated records are counted."""
    ledger = Ledger.of([*READS, Read(21, P, 7, 9, "c")], COMMITS, SAMPLES)
    ledger.check({P: 10})
    assert ledger.repeated == 3


def test_a_commit_that_was_stored_and_not_acknowledged_is_no_fault() -> None:
    Ledger.of(READS, COMMITS[1:], SAMPLES).check({P: 10})


@pytest.mark.parametrize(
    ("reads", "commits", "samples", "fault"),
    [
        (READS[1:], COMMITS, SAMPLES, "topic-0: 0 to 4 were read by no member"),
        (READS[:1], COMMITS, SAMPLES, "topic-0: 5 to 9 were read by no member"),
        ([], [], [], "topic-0: 0 to 9 were read by no member"),
        ([*READS, Read(23, P, 9, 9, "c")], COMMITS, SAMPLES, "c read 9 to 9, 10 was committed before"),
        ([*READS, Read(13, P, 4, 6, "c")], COMMITS, SAMPLES, "c read 4 to 6, 5 was committed before"),
        (READS, COMMITS, [Sample(13, P, 4), SAMPLES[2]], "OffsetFetch says 4, 5 was committed before"),
        (READS, COMMITS[1:], [SAMPLES[1], Sample(14, P, 4), SAMPLES[2]], "says 4, and said 5 before"),
        (READS, COMMITS, [Sample(30, P, 11)], "OffsetFetch says 11, and from 10 on no member read"),
        (READS, COMMITS[:1], SAMPLES[:2], "5 is committed at last, and the log ends at 10"),
    ],
)
def test_what_must_not_be(
    reads: list[Read], commits: list[Commit], samples: list[Sample], fault: str
) -> None:
    with pytest.raises(AssertionError, match=fault):
        Ledger.of(reads, commits, samples).check({P: 10})
