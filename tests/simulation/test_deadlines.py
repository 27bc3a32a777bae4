"""When an answer counts as overdue, by plain calls with the time as an argument."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.simulation.call import Call
from tests.simulation.deadlines import COMMIT_TIMEOUT_MS, SLACK_MS, VERIFICATION_MS, Deadlines
from tests.simulation.witness import Witness

DISK_MS = COMMIT_TIMEOUT_MS + SLACK_MS
PHASE_MS = 60_000


class Watched:
    """Deadlines, the calls under them, and what they found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.deadlines = Deadlines(self.found.append)
        self.now_ms = 0

    def arrive(self, request: Any) -> Call:
        call = Call(request, 0, "client", Witness(), lambda _: None, lambda: None)
        self.deadlines.on_arrival(call, self.now_ms)
        return call

    def wait(self, ms: int, *, stopped: bool = False) -> None:
        self.deadlines.look(self.now_ms, stopped)
        self.now_ms += ms
        self.deadlines.look(self.now_ms, is_stopped=False)


@pytest.fixture
def watched() -> Watched:
    return Watched()


BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[])
JOIN = JoinGroupRequest(
    group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[]
)
TXN_COMMIT = TxnOffsetCommitRequest(
    transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=[]
)
LIST = ListGroupsRequest()
BOUNDS = [
    (BEAT, 0),
    (LIST, DISK_MS),
    (TXN_COMMIT, VERIFICATION_MS + DISK_MS),
    (JOIN, DISK_MS),
    (SYNC, DISK_MS),
]


@pytest.mark.parametrize(("request_", "bound_ms"), BOUNDS, ids=lambda each: type(each).__name__)
def test_an_answer_is_overdue_behind_its_bound_and_reported_once(
    watched: Watched, request_: Any, bound_ms: int
) -> None:
    watched.arrive(request_)
    watched.wait(bound_ms)
    assert watched.found == []
    watched.wait(1)
    assert watched.found == [f"no answer within {bound_ms + 1} ms to {request_}"]
    watched.wait(PHASE_MS)
    assert len(watched.found) == 1


def test_a_join_that_is_parked_may_wait_for_its_phase(watched: Watched) -> None:
    call = watched.arrive(JOIN)
    watched.deadlines.on_parked(call, PHASE_MS)
    watched.wait(PHASE_MS + DISK_MS)
    assert watched.found == []
    watched.wait(1)
    assert len(watched.found) == 1


def test_a_client_that_hangs_up_hides_nothing(watched: Watched) -> None:
    watched.arrive(LIST).hang_up()
    watched.wait(DISK_MS + 1)
    assert len(watched.found) == 1


def test_the_clock_stands_still_with_the_process(watched: Watched) -> None:
    watched.arrive(LIST)
    watched.wait(PHASE_MS, stopped=True)
    assert watched.found == []
    watched.wait(DISK_MS)
    assert watched.found == []
    watched.wait(1)
    assert len(watched.found) == 1


def test_answered_superseded_and_lost_with_their_process_are_not_overdue(watched: Watched) -> None:
    watched.deadlines.on_answer(watched.arrive(LIST))
    watched.deadlines.excuse(watched.arrive(JOIN))
    watched.arrive(BEAT)
    watched.deadlines.on_crash()
    watched.wait(PHASE_MS)
    assert watched.found == []
    assert watched.deadlines.unanswered(before_ms=0) == []


def test_what_is_open_is_listed_by_how_long_it_is(watched: Watched) -> None:
    watched.arrive(LIST)
    watched.wait(1_000)
    watched.arrive(SYNC)
    watched.wait(1)
    assert watched.deadlines.unanswered(before_ms=500) == [LIST]
