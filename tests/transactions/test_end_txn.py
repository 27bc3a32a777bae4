"""EndTxn in every state, in the classic protocol and in transactions v2, and what becomes of its markers."""

from __future__ import annotations

import pytest

from coordinator.effects import MarkersWritten
from coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionStatus,
)
from coordinator.transactions.timers import TransactionTimer
from coordinator.transactions.transaction import LAST_EPOCH
from protocol.errors import ErrorCode
from tests.transactions.driver import NOTHING_GIVEN, TID, Driver

UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
WRONG = ErrorCode.INVALID_TXN_STATE
NONE = ErrorCode.NONE

CLASSIC = {
    EMPTY: (WRONG, WRONG),
    ONGOING: (NONE, NONE),
    PREPARE_COMMIT: (CONCURRENT, CONCURRENT),
    PREPARE_ABORT: (CONCURRENT, CONCURRENT),
    COMPLETE_COMMIT: (NONE, WRONG),
    COMPLETE_ABORT: (WRONG, NONE),
}
"""What a commit and what an abort are answered."""

BUMPING = {
    EMPTY: ((WRONG, NONE), (FENCED, FENCED)),
    ONGOING: ((NONE, NONE), (FENCED, FENCED)),
    PREPARE_COMMIT: ((CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    PREPARE_ABORT: ((CONCURRENT, CONCURRENT), (CONCURRENT, CONCURRENT)),
    COMPLETE_COMMIT: ((WRONG, NONE), (NONE, WRONG)),
    COMPLETE_ABORT: ((WRONG, NONE), (WRONG, NONE)),
}
"""The same with the present epoch, and with the one before."""


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("state", CLASSIC)
@pytest.mark.parametrize("commits", [True, False])
def test_the_classic_protocol_in_every_state(
    driver: Driver, version: int, state: TransactionStatus, commits: bool
) -> None:
    producer = driver.bring_to(state, 4)
    answer = CLASSIC[state][not commits]
    assert driver.end(producer, commits, version) == (answer, *NOTHING_GIVEN)
    if state is ONGOING:
        assert driver.state() is (PREPARE_COMMIT if commits else PREPARE_ABORT)
    else:
        assert driver.state() is state
    assert driver.transaction.producer_epoch == producer[1]


@pytest.mark.parametrize("state", BUMPING)
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("repeats", [True, False])
def test_transactions_v2_in_every_state(
    driver: Driver, state: TransactionStatus, commits: bool, repeats: bool
) -> None:
    """As the table in Kafka's coordinator has it: a retry comes with the epoch before."""
    producer_id, epoch = driver.bring_to(state)
    answer = BUMPING[state][repeats][not commits]
    error, *given = driver.end((producer_id, epoch - repeats), commits, 5)
    assert error == answer
    if answer:
        assert tuple(given) == NOTHING_GIVEN
    else:
        assert given == [producer_id, epoch + (not repeats)]
    if not answer and not repeats:
        assert driver.state() is (PREPARE_COMMIT if commits else PREPARE_ABORT)
        assert driver.transaction.client_version == 2


@pytest.mark.parametrize("version", range(6))
def test_producers_that_are_not_who_they_say_are_refused(driver: Driver, version: int) -> None:
    assert driver.end((7, 0), True, version)[0] == UNMAPPED
    producer_id, epoch = driver.bring_to(ONGOING)
    assert driver.end((producer_id, epoch), True, version, tid="")[0] == ErrorCode.INVALID_REQUEST
    assert driver.end((producer_id + 1, epoch), True, version)[0] == UNMAPPED
    fenced = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    for other in (epoch - 1, epoch + 1, LAST_EPOCH - 1):
        assert driver.end((producer_id, other), True, version)[0] == fenced
    assert driver.state() is ONGOING


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("commits", [True, False])
def test_markers_are_wanted_with_the_outcome_and_complete_it(
    driver: Driver, version: int, commits: bool
) -> None:
    producer_id, epoch = driver.bring_to(ONGOING, version)
    driver.add((producer_id, epoch), ("clicks", 1), ("orders", 3))
    driver.end((producer_id, epoch), commits, version)
    assert TransactionTimer(TID) not in driver.timers
    (wanted,) = driver.markers
    assert wanted.partitions == (("clicks", 1), ("orders", 0), ("orders", 3))
    marker = wanted.marker
    assert (marker.producer_id, marker.is_commit) == (producer_id, commits)
    assert marker.producer_epoch == epoch + (version == 5)
    assert marker.transaction_version == (2 if version == 5 else 0)
    driver.write_markers()
    after = driver.transaction
    assert after.state is (COMPLETE_COMMIT if commits else COMPLETE_ABORT)
    assert after.partitions == frozenset()
    assert driver.markers == []


def test_markers_that_come_late_or_twice_change_nothing(driver: Driver) -> None:
    driver.bring_to(PREPARE_COMMIT)
    (wanted,) = driver.write_markers()
    length = len(driver.log)
    driver.handle(MarkersWritten(wanted.then, driver.wall_ms))
    assert driver.add(driver.producer()) == [0]
    driver.init()
    driver.handle(MarkersWritten(wanted.then, driver.wall_ms))
    assert driver.state() is PREPARE_ABORT
    assert len(driver.log) > length


def test_what_never_began_may_be_aborted_by_a_client_that_is_not_sure(driver: Driver) -> None:
    producer_id, epoch = driver.producer()
    assert driver.end((producer_id, epoch), False, 5) == (NONE, producer_id, epoch + 1)
    assert driver.transaction.start_wall_ms == driver.wall_ms
    (wanted,) = driver.write_markers()
    assert wanted.partitions == ()
    assert driver.state() is COMPLETE_ABORT


def test_a_worn_out_producer_goes_on_under_another_id(driver: Driver) -> None:
    old_id, last = driver.wear_out()
    driver.add((old_id, last), version=5)
    assert driver.end((old_id, last), True, 5) == (NONE, old_id + 1, 0)
    (wanted,) = driver.write_markers()
    assert (wanted.marker.producer_id, wanted.marker.producer_epoch) == (old_id, LAST_EPOCH)
    assert driver.end((old_id, last), True, 5) == (NONE, old_id + 1, 0)
    assert driver.end((old_id, last), False, 5)[0] == WRONG
    after = driver.transaction
    assert (after.producer_id, after.producer_epoch, after.next_producer_id) == (old_id + 1, 0, -1)
    assert driver.add((old_id + 1, 0), version=5) == [0]


def test_a_worn_out_producer_comes_again_while_there_is_no_other_id(driver: Driver) -> None:
    producer = driver.wear_out()
    driver.add(producer, version=5)
    driver.has_ids = False
    assert driver.end(producer, True, 5) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *NOTHING_GIVEN)
    assert driver.state() is ONGOING


def test_a_worn_out_classic_producer_keeps_its_id(driver: Driver) -> None:
    producer = driver.wear_out()
    driver.add(producer)
    assert driver.end(producer, True, 4)[0] == NONE
    driver.write_markers()
    assert (driver.transaction.producer_id, driver.transaction.producer_epoch) == producer
