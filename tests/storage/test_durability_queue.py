"""What waits for the disk: in order, and not longer than it may, whatever its end leads to."""

from __future__ import annotations

from protocol.errors import ErrorCode
from storage.log.durability_queue import DurabilityQueue

TIMEOUT_MS = 5_000
OVERDUE, DURABLE = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE


def test_each_is_given_up_at_its_own_time() -> None:
    timers: list[int] = []
    first: list[ErrorCode] = []
    second: list[ErrorCode] = []
    queue = DurabilityQueue(TIMEOUT_MS, timers.append)
    queue.add(1, 0, first.append)
    queue.add(1, 10, second.append)
    assert timers == [TIMEOUT_MS]
    queue.give_up_overdue(TIMEOUT_MS)
    assert (first, second, timers) == ([OVERDUE], [], [TIMEOUT_MS, TIMEOUT_MS + 10])
    queue.release(1)
    assert (first, second) == ([OVERDUE], [DURABLE])


def test_one_that_waits_again_does_not_make_the_others_wait() -> None:
    """As markers do, which are not given up: the next timer is that of the next in line."""
    timers: list[int] = []
    queue = DurabilityQueue(TIMEOUT_MS, timers.append)

    def wait_again(error: ErrorCode) -> None:
        assert error is OVERDUE
        queue.add(1, TIMEOUT_MS, lambda _: None)

    queue.add(1, 0, wait_again)
    queue.add(1, 10, lambda _: None)
    queue.give_up_overdue(TIMEOUT_MS)
    assert timers == [TIMEOUT_MS, TIMEOUT_MS + 10]
