"""AddPartitionsToTxn and AddOffsetsToTxn: who may add what, and what it begins."""

from __future__ import annotations

import pytest

from coordinator.transactions.states import EMPTY, ONGOING, PREPARE_ABORT, PREPARE_COMMIT, TransactionStatus
from coordinator.transactions.timers import TransactionTimer
from coordinator.transactions.transaction_settings import TransactionSettings
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.transactions.driver import OFFSETS_PARTITION, TID, TIMEOUT_MS, Driver, batched

UNMAPPED = ErrorCode.INVALID_PRODUCER_ID_MAPPING
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
VERSIONS = range(6)
ORDERS_0, ORDERS_1, CLICKS_1 = ("orders", 0), ("orders", 1), ("clicks", 1)


@pytest.fixture
def driver() -> Driver:
    return Driver()


def fenced(version: int) -> ErrorCode:
    return ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_partition_begins_the_transaction(driver: Driver, version: int) -> None:
    producer = driver.producer()
    assert driver.add(producer, ORDERS_0, version=version) == [0]
    began_ms = driver.wall_ms
    assert driver.timers[TransactionTimer(TID)] == driver.now_ms + TIMEOUT_MS
    driver.now_ms += 5
    assert driver.add(producer, ORDERS_1, CLICKS_1, version=version) == [0, 0]
    after = driver.transaction
    assert (after.state, after.partitions) == (ONGOING, frozenset({ORDERS_0, ORDERS_1, CLICKS_1}))
    assert (after.start_wall_ms, after.update_wall_ms) == (began_ms, driver.wall_ms)
    assert after.client_version == (2 if version >= 4 else 0)
    assert driver.timers[TransactionTimer(TID)] == driver.now_ms - 5 + TIMEOUT_MS


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_part_of_it_already_is_not_written_again(driver: Driver, version: int) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS_0, ORDERS_1, version=version)
    length = len(driver.log)
    assert driver.add(producer, ORDERS_1, version=version) == [0]
    assert len(driver.log) == length


@pytest.mark.parametrize("version", VERSIONS)
def test_producers_that_are_not_who_they_say_are_refused(driver: Driver, version: int) -> None:
    assert driver.add((7, 0), version=version) == [UNMAPPED]
    producer_id, epoch = driver.producer()
    assert driver.add((producer_id, epoch), version=version, tid="") == [ErrorCode.INVALID_REQUEST]
    assert driver.add((producer_id + 1, epoch), version=version) == [UNMAPPED]
    for other in (epoch - 1, epoch + 1):
        assert driver.add((producer_id, other), version=version) == [fenced(version)]
    assert driver.state() is EMPTY


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong", [("nowhere", 0), ("orders", 4), ("orders", -1)])
def test_one_unknown_partition_keeps_all_out(driver: Driver, version: int, wrong: tuple[str, int]) -> None:
    errors = driver.add(driver.producer(), ORDERS_0, wrong, version=version)
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert driver.state() is EMPTY


@pytest.mark.parametrize("version", VERSIONS)
def test_only_brokers_may_add_the_offsets_topic(driver: Driver, version: int) -> None:
    error = ErrorCode.NONE if version >= 4 else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert driver.add(driver.producer(), ("__consumer_offsets", 0), version=version) == [error]


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_while_a_transaction_is_being_ended_every_request_waits(
    driver: Driver, state: TransactionStatus
) -> None:
    producer = driver.bring_to(state)
    for other in (producer, (producer[0] + 1, 0), (producer[0], 9)):
        assert driver.add(other) == [CONCURRENT]
        assert driver.add_offsets(other) == CONCURRENT


def test_several_transactions_are_answered_each_for_itself(driver: Driver) -> None:
    one, two = driver.producer(transactional_id="one"), driver.producer(transactional_id="two")
    request = AddPartitionsToTxnRequest(
        transactions=[
            batched(one, ORDERS_0, tid="one"),
            batched((two[0], 9), ORDERS_0, tid="two"),
            batched(two, ORDERS_0, tid="three"),
        ]
    )
    results = driver.call(request, 5).results_by_transaction
    errors = {each.transactional_id: each.topic_results[0].results_by_partition[0] for each in results}
    assert {name: each.partition_error_code for name, each in errors.items()} == {
        "one": ErrorCode.NONE,
        "two": ErrorCode.PRODUCER_FENCED,
        "three": UNMAPPED,
    }
    assert (driver.transaction_of("one").state, driver.transaction_of("two").state) == (ONGOING, EMPTY)


def test_of_no_transaction_there_is_nothing_to_say(driver: Driver) -> None:
    """Kafka never answers this one."""
    assert driver.call(AddPartitionsToTxnRequest(), 5).results_by_transaction == []


def test_verification_shows_what_is_part_of_the_transaction_and_changes_nothing(driver: Driver) -> None:
    producer = driver.bring_to(ONGOING)
    length = len(driver.log)
    outside = ErrorCode.TRANSACTION_ABORTABLE
    assert driver.verify(producer, ORDERS_0, ORDERS_1) == [0, outside]
    assert driver.verify((producer[0] + 1, 0), ORDERS_0) == [UNMAPPED]
    assert driver.verify((producer[0], 3), ORDERS_0) == [ErrorCode.PRODUCER_FENCED]
    assert len(driver.log) == length
    driver.end(producer, True, 4)
    assert driver.verify(producer, ORDERS_0) == [CONCURRENT]
    driver.write_markers()
    assert driver.verify(producer, ORDERS_0) == [outside]


@pytest.mark.parametrize("version", range(5))
def test_a_groups_offsets_are_a_partition_like_others(driver: Driver, version: int) -> None:
    assert driver.add_offsets((7, 0), version) == UNMAPPED
    producer = driver.producer()
    assert driver.add_offsets(producer, version, tid="") == ErrorCode.INVALID_REQUEST
    assert driver.add_offsets((producer[0], 5), version) == fenced(version)
    assert driver.add_offsets(producer, version) == ErrorCode.NONE
    assert driver.transaction.partitions == {("__consumer_offsets", OFFSETS_PARTITION)}


def test_a_transaction_that_a_record_cannot_hold_grows_no_further() -> None:
    driver = Driver(TransactionSettings(max_record_bytes=400), topics={"orders": 1_000})
    producer = driver.producer()
    partitions = [("orders", index) for index in range(100)]
    assert set(driver.add(producer, *partitions, version=5)) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert set(driver.add(producer, *partitions[:20], version=5)) == {ErrorCode.NONE}
    driver.end(producer, True, 5)
    largest = max(len(key) + len(value or b"") for key, value in driver.log)
    assert largest < 400 - 256 + 100
