"""Two members of one group share a topic of two partitions. Knows no client library."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from harness.reporting import eventually


def share_with_a_second_member(
    consumer: Any, topic: str, new_consumer: Callable[[], Any], poll: Callable[[Any], object]
) -> None:
    """A second consumer joins from another thread until both have one partition, and leaves again."""
    has_joined, may_leave = threading.Event(), threading.Event()

    def second() -> None:
        member = new_consumer()
        member.subscribe([topic])
        while not may_leave.is_set():
            poll(member)
            if len(member.assignment()) == 1:
                has_joined.set()
        member.close()

    def is_shared() -> bool:
        poll(consumer)
        return has_joined.is_set() and len(consumer.assignment()) == 1

    def has_left() -> bool:
        poll(consumer)
        return not thread.is_alive()

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    eventually(is_shared, "both members have one partition")
    may_leave.set()
    eventually(has_left, "the second member left")
