"""The delay of logins that fail again and again, by plain calls (F3)."""

from __future__ import annotations

from coordinator.security.failed_logins import (
    LONGEST_DELAY_MS,
    MOST_REMEMBERED,
    REMEMBERED_MS,
    FailedLogins,
    delay_ms,
)


def test_the_delay_is_doubled_up_to_its_bound_and_never_cut() -> None:
    assert [delay_ms(100, number) for number in range(8)] == [100, 200, 400, 800, 1600, 3200, 5000, 5000]
    assert delay_ms(100, 10**9) == LONGEST_DELAY_MS
    assert delay_ms(7_000, 3) == 7_000, "what the settings ask for is the least"
    assert delay_ms(0, 5) == 0, "and if they ask for none there is none"


def test_each_user_of_each_address_has_failures_of_its_own() -> None:
    failed = FailedLogins()
    assert [failed.count("10.0.0.1", "alice", 0) for _ in range(3)] == [0, 1, 2]
    assert failed.count("10.0.0.1", "bob", 0) == 0
    assert failed.count("10.0.0.2", "alice", 0) == 0
    assert failed.count("10.0.0.1", "alice", 1) == 3


def test_a_failure_is_forgotten_in_a_minute() -> None:
    failed = FailedLogins()
    assert failed.count("10.0.0.1", "alice", 0) == 0
    assert failed.count("10.0.0.1", "alice", REMEMBERED_MS - 1) == 1
    assert failed.count("10.0.0.1", "alice", 2 * REMEMBERED_MS - 1) == 0
    assert failed.count("10.0.0.1", "bob", 4 * REMEMBERED_MS) == 0
    assert len(failed) == 1, "nothing is kept of those before"


def test_the_table_is_bounded_and_the_longest_silent_goes_first() -> None:
    failed = FailedLogins()
    failed.count("10.0.0.1", "first", 0)
    failed.count("10.0.0.1", "second", 1)
    failed.count("10.0.0.1", "first", 2)
    for number in range(MOST_REMEMBERED - 1):
        failed.count("10.0.0.9", f"user {number}", 3)
    assert len(failed) == MOST_REMEMBERED
    assert failed.count("10.0.0.1", "first", 4) == 2
    assert failed.count("10.0.0.1", "second", 4) == 0, "it was the oldest"


def test_a_name_takes_no_more_memory_than_another_and_may_be_of_any_letters() -> None:
    failed = FailedLogins()
    assert failed.count("10.0.0.1", "x" * 500_000 + "\ud800", 0) == 0
    assert failed.count("10.0.0.1", "x" * 500_000 + "\ud800", 0) == 1
    assert all(len(key) == 16 for key in failed._failures)
