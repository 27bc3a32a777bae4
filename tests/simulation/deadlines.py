"""How long the daemon may take to answer, by its own doing alone; what a client does meanwhile counts for nothing.

A request that has reached the daemon is answered within a bound that follows from what it may have to wait for:
the disk, the join phase, the SyncGroups of others. The clock of a bound stands still while the process is
stopped; a request that a crash or a newer request took along needs no answer. So an answer that never leaves is
found even if its client hung up long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from tests.simulation.call import Call

COMMIT_TIMEOUT_MS: Final = 5_000
"""`offsets.commit.timeout.ms` of the simulation: nothing waits longer for the disk."""
VERIFICATION_MS: Final = 6_000
"""What the transaction coordinator may take before the offsets of a transaction are looked at, and the disk before
there are producer ids."""
SLACK_MS: Final = 1_100
"""Two pulses of the runtime: it knows no better than that how long the process was stopped."""


@dataclass(slots=True)
class Outstanding:
    """A request that the daemon has, and owes an answer."""

    call: Call
    since_ms: int  # By the clock that stands still with the process.
    phase_ms: int = 0  # What the phase it is parked in may last.


class Deadlines:
    """`violated` hears of each answer that is overdue, once."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.aside_ms: int | None = None  # What the computations may take that an answer waits for, if any.
        self._violated = violated
        self._outstanding: dict[int, Outstanding] = {}  # By call.
        self._due: list[tuple[int, int, Outstanding]] = []
        self._numbers = count()
        self._seen_ms = 0
        self._running_ms = 0
        self._is_stopped = False

    def on_arrival(self, call: Call, now_ms: int) -> None:
        self._pass_time(now_ms)
        each = self._outstanding[id(call)] = Outstanding(call, self._running_ms)
        self._expect(each)

    def on_parked(self, call: Any, phase_ms: int) -> None:
        """It waits for other members: so long may the phase last that it is in."""
        if each := self._outstanding.get(id(call)):
            each.phase_ms = max(each.phase_ms, phase_ms)

    def on_answer(self, call: Call) -> None:
        self._outstanding.pop(id(call), None)

    def excuse(self, call: Any) -> None:
        """A newer request took the place of this one, or its connection was lost on the daemon's side."""
        self._outstanding.pop(id(call), None)

    def is_owed(self, call: Call) -> bool:
        """Whether the daemon still owes an answer to the request, also to a client that waits no longer."""
        return id(call) in self._outstanding

    def is_parked(self, call: Call) -> bool:
        """Whether the request waits for other members."""
        each = self._outstanding.get(id(call))
        return each is not None and each.phase_ms > 0

    def has_parked(self, kind: type) -> bool:
        """Whether any request of this kind waits for other members."""
        return any(
            each.phase_ms and isinstance(each.call.request, kind) for each in self._outstanding.values()
        )

    def on_crash(self) -> None:
        """What a dead process was asked it need not answer."""
        self._outstanding.clear()
        self._due.clear()

    def look(self, now_ms: int, is_stopped: bool) -> None:
        """Time has passed; from now on it does not for the process if it `is_stopped`."""
        self._pass_time(now_ms)
        self._is_stopped = is_stopped
        while self._due and self._due[0][0] < self._running_ms:
            each = heappop(self._due)[2]
            if self._outstanding.get(id(each.call)) is not each:
                continue
            if each.since_ms + self._bound_ms(each) >= self._running_ms:
                self._expect(each)
                continue
            waited_ms = self._running_ms - each.since_ms
            self._violated(f"no answer within {waited_ms} ms to {each.call.request}")
            del self._outstanding[id(each.call)]

    def unanswered(self, before_ms: int) -> list[Any]:
        """Requests that are without an answer for longer than `before_ms`."""
        latest_ms = self._running_ms - before_ms
        return [each.call.request for each in self._outstanding.values() if each.since_ms < latest_ms]

    def _pass_time(self, now_ms: int) -> None:
        if not self._is_stopped:
            self._running_ms += now_ms - self._seen_ms
        self._seen_ms = now_ms

    def _expect(self, each: Outstanding) -> None:
        heappush(self._due, (each.since_ms + self._bound_ms(each), next(self._numbers), each))

    def _bound_ms(self, each: Outstanding) -> int:
        if self.aside_ms is None:
            return bound_ms(each)
        return max(bound_ms(each), COMMIT_TIMEOUT_MS + SLACK_MS) + self.aside_ms


def bound_ms(each: Outstanding) -> int:
    """What this request may take.

    A heartbeat waits for nothing, but for commits before it on its connection. All else may wait for the disk; a
    join and a sync for other members first.
    """
    match each.call.request:
        case HeartbeatRequest() if not each.call.is_ordered:
            return 0
        case JoinGroupRequest() | SyncGroupRequest():
            return each.phase_ms + COMMIT_TIMEOUT_MS + SLACK_MS
        case TxnOffsetCommitRequest() | InitProducerIdRequest():
            return VERIFICATION_MS + COMMIT_TIMEOUT_MS + SLACK_MS
    return COMMIT_TIMEOUT_MS + SLACK_MS
