"""Who vouches for a batch that begins a transaction (KIP-890): the coordinator, by its last word alone."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from protocol.records.batch import Batch, parse_header
from protocol.records.records import Record
from storage.producers.producer_checks import (
    ProducerError,
    ProducerVerification,
    ProducerVerifications,
    check_verified,
)
from storage.producers.producer_state import ProducerState
from tests.batches import encode_batch

PRODUCER, WALL_MS = 7, 1_700_000_000_000


def batch(epoch: int = 0, sequence: int = 0) -> Batch:
    data = encode_batch(
        [Record(b"k", b"v", WALL_MS)],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return parse_header(data)


def begun(verifications: ProducerVerifications, of: Batch) -> ProducerVerification:
    """The coordinator was asked about it and has answered."""
    verification = verifications.begin(of, has_own_epoch=False, wall_ms=WALL_MS)
    verifications.answered(PRODUCER)
    return verification


def refusal(
    verifications: ProducerVerifications, of: Batch, shown: ProducerVerification | None
) -> ErrorCode | None:
    try:
        check_verified(ProducerState(), of, verifications.find(PRODUCER), shown)
    except ProducerError as refused:
        return refused.error
    return None


def test_a_batch_is_taken_under_the_verification_it_was_asked_for() -> None:
    verifications = ProducerVerifications()
    shown = begun(verifications, batch())
    assert refusal(verifications, batch(), shown) is None


def test_a_batch_that_was_never_asked_about_is_refused() -> None:
    assert refusal(ProducerVerifications(), batch(), None) is ErrorCode.INVALID_TXN_STATE
    verifications = ProducerVerifications()
    begun(verifications, batch())
    assert refusal(verifications, batch(), None) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_is_void_once_something_of_the_producer_was_appended() -> None:
    verifications = ProducerVerifications()
    shown = begun(verifications, batch())
    verifications.end(PRODUCER)
    assert refusal(verifications, batch(), shown) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_later_question_does_not_bring_an_earlier_word_back(epoch: int) -> None:
    """A late batch of a transaction that a marker has ended would open one that nothing ends."""
    verifications = ProducerVerifications()
    shown = begun(verifications, batch())
    verifications.end(PRODUCER)  # The marker.
    later = begun(verifications, batch(epoch, sequence=1))
    assert refusal(verifications, batch(), shown) is ErrorCode.INVALID_TXN_STATE
    assert refusal(verifications, batch(epoch, sequence=1), later) is None


def test_a_producer_of_a_newer_epoch_voids_the_word_about_the_older_one() -> None:
    verifications = ProducerVerifications()
    shown = begun(verifications, batch(epoch=0))
    newer = begun(verifications, batch(epoch=1))
    assert refusal(verifications, batch(epoch=0), shown) is ErrorCode.INVALID_TXN_STATE
    assert refusal(verifications, batch(epoch=1), newer) is None


def test_batches_of_one_epoch_share_a_verification() -> None:
    verifications = ProducerVerifications()
    shown = begun(verifications, batch(sequence=1))
    assert begun(verifications, batch(sequence=0)) is shown
    assert shown.lowest_sequence == 0


def test_what_was_forgotten_for_its_age_vouches_no_more() -> None:
    verifications = ProducerVerifications()
    shown = begun(verifications, batch())
    verifications.expire(WALL_MS + 999, expiration_ms=1000)
    assert refusal(verifications, batch(), shown) is None
    verifications.expire(WALL_MS + 1000, expiration_ms=1000)
    assert refusal(verifications, batch(), shown) is ErrorCode.INVALID_TXN_STATE
