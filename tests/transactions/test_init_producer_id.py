"""InitProducerId with a transactional id: epochs, fencing, resuming, and what comes after the last epoch."""

from __future__ import annotations

import pytest

from coordinator.transactions import init_producer_id
from coordinator.transactions.states import (
    COMPLETE_ABORT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionStatus,
)
from coordinator.transactions.timers import TransactionTimer
from coordinator.transactions.transaction import LAST_EPOCH
from coordinator.transactions.transaction_settings import TransactionSettings
from protocol.errors import ErrorCode
from tests.transactions.driver import FIRST_ID, NOTHING_GIVEN, TID, TIMEOUT_MS, Driver

FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_each_time_the_epoch_is_raised(driver: Driver) -> None:
    assert [driver.init() for _ in range(3)] == [(0, FIRST_ID, 0), (0, FIRST_ID, 1), (0, FIRST_ID, 2)]
    stored = driver.transaction
    assert (stored.state, stored.timeout_ms, stored.start_wall_ms) == (EMPTY, TIMEOUT_MS, -1)
    assert (stored.previous_producer_id, stored.update_wall_ms) == (FIRST_ID, driver.wall_ms)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_outside_the_range_is_refused(driver: Driver, timeout_ms: int) -> None:
    refused = (ErrorCode.INVALID_TRANSACTION_TIMEOUT, *NOTHING_GIVEN)
    assert driver.init(transaction_timeout_ms=timeout_ms) == refused
    assert driver.log == []


@pytest.mark.parametrize("changed", [{"transactional_id": ""}, {"producer_id": 5}, {"producer_epoch": 5}])
def test_what_makes_no_sense_is_refused(driver: Driver, changed: dict[str, int]) -> None:
    assert driver.init(**changed) == (ErrorCode.INVALID_REQUEST, *NOTHING_GIVEN)


def test_a_producer_that_names_itself_is_given_the_next_epoch_and_the_same_again(driver: Driver) -> None:
    producer_id, _ = driver.producer()
    for _ in range(2):
        assert driver.init(producer_id=producer_id, producer_epoch=0) == (0, producer_id, 1)
    assert driver.init(producer_id=producer_id, producer_epoch=1) == (0, producer_id, 2)
    assert driver.init(producer_id=producer_id, producer_epoch=0) == (FENCED, *NOTHING_GIVEN)
    assert driver.init(producer_id=producer_id + 1, producer_epoch=2) == (FENCED, *NOTHING_GIVEN)


def test_a_producer_that_names_itself_is_fenced_by_another_that_came_since(driver: Driver) -> None:
    producer_id, epoch = driver.producer()
    driver.producer()
    assert driver.init(producer_id=producer_id, producer_epoch=epoch) == (FENCED, *NOTHING_GIVEN)
    old = (ErrorCode.INVALID_PRODUCER_EPOCH, *NOTHING_GIVEN)
    assert driver.init(version=3, producer_id=producer_id, producer_epoch=epoch) == old


def test_after_a_restart_a_repeated_request_is_no_longer_known(driver: Driver) -> None:
    """As in Kafka after a failover: the log does not have the epoch before."""
    producer_id, _ = driver.producer()
    driver.init(producer_id=producer_id, producer_epoch=0)
    driver.restart()
    assert driver.init(producer_id=producer_id, producer_epoch=0) == (FENCED, *NOTHING_GIVEN)
    assert driver.init(producer_id=producer_id, producer_epoch=1) == (0, producer_id, 2)


@pytest.mark.parametrize("resumes", [True, False])
def test_a_transaction_under_way_is_aborted_first(driver: Driver, resumes: bool) -> None:
    producer_id, epoch = driver.bring_to(ONGOING)
    own = {"producer_id": producer_id, "producer_epoch": epoch} if resumes else {}
    assert driver.init(**own) == (CONCURRENT, *NOTHING_GIVEN)
    assert (driver.state(), driver.transaction.producer_epoch) == (PREPARE_ABORT, 1)
    assert TransactionTimer(TID) not in driver.timers
    assert driver.init(**own) == (CONCURRENT, *NOTHING_GIVEN)
    (wanted,) = driver.write_markers()
    assert (wanted.marker.producer_epoch, wanted.marker.is_commit) == (1, False)
    assert wanted.partitions == (("orders", 0),)
    assert driver.state() is COMPLETE_ABORT
    assert driver.init() == (0, producer_id, 2)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_while_a_transaction_is_being_ended_every_request_waits(
    driver: Driver, state: TransactionStatus
) -> None:
    driver.bring_to(state)
    assert driver.init() == (CONCURRENT, *NOTHING_GIVEN)
    assert driver.init(producer_id=99, producer_epoch=0) == (CONCURRENT, *NOTHING_GIVEN)


def test_after_the_last_epoch_comes_another_id(driver: Driver) -> None:
    producer_id, epoch = driver.wear_out()
    assert epoch == LAST_EPOCH - 1
    assert driver.init() == (0, producer_id + 1, 0)
    assert driver.transaction.previous_producer_id == producer_id


def test_a_worn_out_producer_that_names_itself_is_given_another_id_and_the_same_again(driver: Driver) -> None:
    producer_id, epoch = driver.wear_out()
    assert driver.init(producer_id=producer_id, producer_epoch=epoch) == (0, producer_id + 1, 0)
    assert driver.init(producer_id=producer_id, producer_epoch=epoch) == (0, producer_id + 1, 0)
    assert driver.init(producer_id=producer_id, producer_epoch=3) == (FENCED, *NOTHING_GIVEN)


def test_a_worn_out_producer_that_names_another_epoch_gets_kafkas_error(driver: Driver) -> None:
    producer_id, epoch = driver.wear_out()
    wrong = (ErrorCode.UNKNOWN_SERVER_ERROR, *NOTHING_GIVEN)
    assert driver.init(producer_id=producer_id, producer_epoch=epoch - 1) == wrong


def test_without_a_producer_id_clients_come_again(driver: Driver) -> None:
    driver.has_ids = False
    assert driver.init() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *NOTHING_GIVEN)
    assert driver.log == []


def test_one_transactional_id_too_many_takes_the_place_of_the_one_at_rest_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(init_producer_id, "MAX_TRANSACTIONAL_IDS", 3)
    driver = Driver(TransactionSettings())
    busy = driver.producer(transactional_id="busy")
    driver.add(busy, tid="busy")
    for name in ("a", "b", "a", "c"):
        driver.producer(transactional_id=name)
    assert [each.transactional_id for each in driver.shard.transactions] == ["busy", "a", "c"]
    driver.restart()
    assert [each.transactional_id for each in driver.shard.transactions] == ["busy", "a", "c"]
    for name in ("a", "c"):
        driver.add(
            (driver.transaction_of(name).producer_id, driver.transaction_of(name).producer_epoch), tid=name
        )
    assert driver.init(transactional_id="d")[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
