"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.transactions import patterns
from coordinator.transactions.states import COMPLETE_COMMIT, ONGOING
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    TransactionTopic,
)
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.transactions.driver import FIRST_ID, TID, TIMEOUT_MS, Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def listed(driver: Driver, version: int = 2, **filters: Any) -> list[str]:
    reply = driver.call(ListTransactionsRequest(**filters), version)
    assert reply.error_code == ErrorCode.NONE
    return [each.transactional_id for each in reply.transaction_states]


def test_a_transaction_is_described(driver: Driver) -> None:
    producer = driver.bring_to(ONGOING)
    driver.add(producer, ("clicks", 1), ("orders", 2))
    request = DescribeTransactionsRequest(transactional_ids=[TID, "unknown", ""])
    found, unknown, empty = driver.call(request, 0).transaction_states
    assert found == DescribedTransaction(
        transactional_id=TID,
        transaction_state="Ongoing",
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_start_time_ms=driver.wall_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TransactionTopic(topic="clicks", partitions=[1]),
            TransactionTopic(topic="orders", partitions=[0, 2]),
        ],
    )
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


def test_every_filter_must_be_passed(driver: Driver) -> None:
    driver.bring_to(COMPLETE_COMMIT)
    other = driver.producer(transactional_id="other")
    assert sorted(listed(driver)) == ["other", TID]
    assert listed(driver, state_filters=["Empty"]) == ["other"]
    assert listed(driver, producer_id_filters=[other[0]]) == ["other"]
    assert listed(driver, producer_id_filters=[FIRST_ID], state_filters=["Empty"]) == []
    assert listed(driver, transactional_id_pattern="o.*") == ["other"]
    assert listed(driver, transactional_id_pattern="o") == []
    assert sorted(listed(driver, transactional_id_pattern="")) == ["other", TID]


def test_a_duration_is_counted_from_the_start_of_the_latest_transaction(driver: Driver) -> None:
    driver.bring_to(ONGOING)
    driver.now_ms += 1_000
    assert listed(driver, duration_filter=999) == [TID]
    assert listed(driver, duration_filter=1_000) == []
    assert listed(driver, duration_filter=-1) == [TID]


def test_unknown_states_are_named_and_match_nothing(driver: Driver) -> None:
    driver.producer()
    request = ListTransactionsRequest(state_filters=["empty", "Nonsense", "empty"])
    reply = driver.call(request, 0)
    assert reply.unknown_state_filters == ["empty", "Nonsense"]
    assert reply.transaction_states == []


def test_a_pattern_that_costs_too_much_is_refused(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.producer(transactional_id="ab" * 100)
    monkeypatch.setattr(patterns, "MAX_WORK", 2_000)
    reply = driver.call(ListTransactionsRequest(transactional_id_pattern="(a|b)*a(a|b){200}"), 2)
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_wrong_pattern_is_refused(driver: Driver) -> None:
    reply = driver.call(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
