"""What time alone does: transactions that take too long are aborted, ids that rest too long are forgotten."""

from __future__ import annotations

import pytest

from coordinator.transactions import expiry
from coordinator.transactions.states import COMPLETE_ABORT, EMPTY, ONGOING, PREPARE_ABORT, TransactionStatus
from coordinator.transactions.timers import ExpiryTimer
from coordinator.transactions.transaction import LAST_EPOCH
from coordinator.transactions.transaction_settings import TransactionSettings
from protocol.errors import ErrorCode
from tests.transactions.driver import TIMEOUT_MS, Driver

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def driver() -> Driver:
    return Driver(TransactionSettings(transactional_id_expiration_ms=DAY_MS))


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(driver: Driver) -> None:
    producer_id, epoch = driver.bring_to(ONGOING)
    driver.advance(TIMEOUT_MS - 1)
    assert driver.state() is ONGOING
    driver.advance(1)
    assert driver.state() is PREPARE_ABORT
    driver.write_markers()
    assert (driver.state(), driver.transaction.producer_epoch) == (COMPLETE_ABORT, epoch + 1)
    assert driver.end((producer_id, epoch), True, 4)[0] == ErrorCode.PRODUCER_FENCED
    assert driver.add((producer_id, epoch)) == [ErrorCode.PRODUCER_FENCED]


def test_the_time_of_one_transaction_is_not_that_of_the_next(driver: Driver) -> None:
    producer = driver.bring_to(ONGOING, 4)
    driver.advance(TIMEOUT_MS - 1)
    driver.end(producer, True, 4)
    driver.write_markers()
    driver.add(producer)
    driver.advance(TIMEOUT_MS - 1)
    assert driver.state() is ONGOING
    driver.advance(1)
    assert driver.state() is PREPARE_ABORT


def test_more_partitions_give_no_more_time(driver: Driver) -> None:
    producer = driver.bring_to(ONGOING)
    driver.advance(TIMEOUT_MS - 1)
    driver.add(producer, ("clicks", 0))
    driver.advance(1)
    assert driver.state() is PREPARE_ABORT


def test_a_worn_out_producer_is_aborted_once_there_is_another_id(driver: Driver) -> None:
    producer_id, epoch = driver.wear_out()
    driver.add((producer_id, epoch))
    driver.has_ids = False
    driver.advance(TIMEOUT_MS)
    assert driver.state() is ONGOING
    driver.has_ids = True
    driver.advance(1_000)
    (wanted,) = driver.write_markers()
    assert (wanted.marker.producer_id, wanted.marker.producer_epoch) == (producer_id, LAST_EPOCH)
    assert (driver.transaction.producer_id, driver.transaction.producer_epoch) == (producer_id + 1, 0)


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_ABORT])
def test_a_transactional_id_at_rest_is_forgotten(driver: Driver, state: TransactionStatus) -> None:
    producer = driver.bring_to(state)
    driver.advance(DAY_MS - 3_600_000)
    assert len(driver.shard.transactions) == 1
    driver.advance(2 * 3_600_000)
    assert len(driver.shard.transactions) == 0
    assert driver.add(producer) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    driver.restart()
    assert len(driver.shard.transactions) == 0


def test_one_that_is_being_ended_is_not_forgotten(driver: Driver) -> None:
    driver.bring_to(PREPARE_ABORT)
    driver.advance(3 * DAY_MS)
    assert driver.state() is PREPARE_ABORT


def test_many_are_forgotten_in_slices(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "SLICE", 2)
    for number in range(5):
        driver.producer(transactional_id=str(number))
    driver.now_ms += DAY_MS
    slices = []
    for passing_ms in (0, 1, 1, 1):  # All in one round: the next is an hour away.
        driver.advance(passing_ms)
        slices.append(len(driver.shard.transactions))
    assert slices == [3, 1, 0, 0]
    assert driver.timers[ExpiryTimer(0)] - driver.now_ms > HOUR_MS // 2


# The wall clock, by which ids expire and nothing else does.


def test_a_leap_of_the_clock_ends_no_transaction_before_its_time(driver: Driver) -> None:
    driver.bring_to(ONGOING)
    for leap_ms in (10 * DAY_MS, -10 * DAY_MS):
        driver.wall_moved_ms = leap_ms
        driver.advance(TIMEOUT_MS // 2 - 1)
        assert driver.state() is ONGOING
    driver.advance(2)
    assert driver.state() is PREPARE_ABORT


def test_an_id_that_rests_goes_by_the_clock_as_it_is(driver: Driver) -> None:
    driver.bring_to(EMPTY)
    driver.wall_moved_ms = -10 * DAY_MS
    driver.advance(2 * DAY_MS)
    assert len(driver.shard.transactions) == 1
    driver.wall_moved_ms = 0
    driver.advance(HOUR_MS)
    assert len(driver.shard.transactions) == 0


def test_a_clock_that_was_ahead_has_ids_forgotten_later_and_none_sooner(driver: Driver) -> None:
    driver.wall_moved_ms = DAY_MS
    driver.producer(transactional_id="ahead")
    driver.wall_moved_ms = 0
    driver.producer(transactional_id="right")
    driver.advance(DAY_MS - HOUR_MS)
    assert len(driver.shard.transactions) == 2
    driver.advance(DAY_MS + 2 * HOUR_MS)
    assert len(driver.shard.transactions) == 0
