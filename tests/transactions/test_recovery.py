"""A crash at any point: whatever the log was cut to, the shard goes on from there and decides nothing again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator.transactions.record_schemas import TransactionLogValue
from coordinator.transactions.records import decode_record
from coordinator.transactions.states import (
    AT_REST,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    PREPARING,
    TransactionStatus,
)
from coordinator.transactions.timers import TransactionTimer
from protocol.errors import ErrorCode
from tests.transactions.driver import TID, TIMEOUT_MS, Driver

STORED = [state for state in TransactionStatus if state.value < 6]


def history(version: int) -> Driver:
    """A driver whose log has a commit, an abort, a fence and a timeout."""
    driver = Driver()
    for commits in (True, False):
        producer = driver.bring_to(ONGOING, version)
        driver.add_offsets(producer)
        driver.end(producer, commits, version)
        driver.write_markers()
    driver.bring_to(ONGOING, version)
    driver.init()
    driver.write_markers()
    driver.bring_to(ONGOING, version)
    driver.advance(TIMEOUT_MS)
    driver.write_markers()
    driver.init()
    return driver


HISTORIES = {version: history(version) for version in (4, 5)}
CUTS = [(version, cut) for version, driver in HISTORIES.items() for cut in range(1, len(driver.log) + 1)]


def test_the_history_has_every_state_that_is_stored() -> None:
    for driver in HISTORIES.values():
        records = [decode_record(*entry) for entry in driver.log]
        values = [each.value for each in records if each is not None]
        assert all(isinstance(each, TransactionLogValue) for each in values)
        assert {each.transaction_status for each in values if each is not None} == set(STORED)


@pytest.mark.parametrize(("version", "cut"), CUTS)
def test_a_log_cut_after_any_record_is_gone_on_with(version: int, cut: int) -> None:
    driver = Driver(log=HISTORIES[version].log[:cut], now_ms=500_000)
    before = driver.transaction
    if before.state in PREPARING:
        (wanted,) = driver.markers
        assert (wanted.marker.producer_id, wanted.marker.producer_epoch) == (
            before.producer_id,
            before.producer_epoch,
        )
        assert wanted.marker.is_commit == (before.state is PREPARE_COMMIT)
        assert set(wanted.partitions) == before.partitions
        driver.write_markers()
        assert driver.state().value == before.state.value + 2, "as it was decided"
    elif before.state is ONGOING:
        assert driver.markers == []
        assert driver.timers[TransactionTimer(TID)] <= driver.now_ms + TIMEOUT_MS
        driver.advance(TIMEOUT_MS)
        driver.write_markers()
        assert driver.state() is TransactionStatus.COMPLETE_ABORT
    assert driver.state() in AT_REST
    assert TransactionTimer(TID) not in driver.timers
    producer = driver.producer()
    assert producer > (before.producer_id, before.producer_epoch)
    assert driver.add(producer) == [ErrorCode.NONE]
    assert driver.end(producer, True, version)[0] == ErrorCode.NONE
    driver.write_markers()
    assert driver.state() is COMPLETE_COMMIT


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize("version", [4, 5])
def test_a_restart_changes_nothing_that_is_stored(state: TransactionStatus, version: int) -> None:
    driver = Driver()
    driver.bring_to(state, version)
    before, length = list(driver.shard.transactions), len(driver.log)
    driver.restart()
    (after,) = driver.shard.transactions
    assert after == replace(before[0], last_producer_epoch=-1)
    assert len(driver.log) == length


def test_a_transaction_under_way_has_the_rest_of_its_time() -> None:
    driver = Driver()
    driver.bring_to(ONGOING)
    driver.now_ms += 20_000
    driver.restart()
    assert driver.timers[TransactionTimer(TID)] == driver.now_ms + TIMEOUT_MS - 20_000
    driver.restart(wall_moves_ms=10 * TIMEOUT_MS)
    assert driver.timers[TransactionTimer(TID)] == driver.now_ms
    driver.restart(wall_moves_ms=-10 * TIMEOUT_MS)
    assert driver.timers[TransactionTimer(TID)] == driver.now_ms + TIMEOUT_MS


def test_the_answer_to_a_repeated_end_is_the_same_after_a_restart() -> None:
    driver = Driver()
    producer = driver.bring_to(ONGOING)
    given = driver.end(producer, True, 5)
    driver.restart()
    assert driver.end(producer, True, 5)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.end(producer, True, 5) == given
