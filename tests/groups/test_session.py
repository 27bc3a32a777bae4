"""Heartbeats and sessions (docs/kafka.md 3.53 to 3.59): deadlines are moved, timers are not."""

from __future__ import annotations

import pytest

from coordinator.effects import (
    Effects,
    Moment,
    Reply,
    RequestContext,
    RequestReceived,
    Result,
    SetTimer,
    TimerFired,
)
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.heartbeat import prepare_heartbeat
from coordinator.groups.classic.member import Member
from coordinator.groups.classic.session import on_session_timer
from coordinator.groups.classic.states import (
    COMPLETING_REBALANCE,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
)
from coordinator.groups.classic.timers import SessionTimer
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.groups.consumer import SESSION_MS, Consumer, form_group
from tests.groups.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def beat(member_id: str = "m", generation_id: int = 3, instance_id: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id="g", generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
    )


def group_in(state: GroupState) -> Group:
    group = Group("g", state=state, generation_id=3)
    group.add(Member("m", None, "client", "/h", 60_000, SESSION_MS, ()), "consumer")
    group.add(Member("s", "i", "client", "/h", 60_000, SESSION_MS, ()), "consumer")
    return group


@pytest.mark.parametrize("state", list(GroupState))
def test_3_53_a_valid_heartbeat_is_answered_by_the_state_and_refreshes(state: GroupState) -> None:
    group = group_in(state)
    assert prepare_heartbeat({"g": group}, beat())(1_000) is HEARTBEAT_ANSWER[state]
    assert group.members["m"].session_deadline_ms == 1_000 + SESSION_MS


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (beat("unknown"), ErrorCode.UNKNOWN_MEMBER_ID),
        (beat("m", 2), ErrorCode.ILLEGAL_GENERATION),
        (beat("m", 3, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (beat("m", 3, "unknown"), ErrorCode.UNKNOWN_MEMBER_ID),
        (beat("unknown", 3, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (beat("s", 3, "i"), ErrorCode.NONE),
        (beat("s", 3, None), ErrorCode.NONE),  # A static member need not say so.
        (beat("s", 2, "i"), ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_heartbeat_is_fenced_then_unknown_then_of_the_wrong_generation(
    request_: HeartbeatRequest, error: ErrorCode
) -> None:
    assert prepare_heartbeat({"g": group_in(STABLE)}, request_)(0) is error


def test_a_group_that_is_not_there_has_no_members_and_no_id_is_no_group() -> None:
    assert prepare_heartbeat({}, beat())(0) is ErrorCode.UNKNOWN_MEMBER_ID
    nameless = HeartbeatRequest(group_id="", generation_id=0, member_id="m")
    assert prepare_heartbeat({}, nameless)(0) is ErrorCode.INVALID_GROUP_ID
    assert prepare_heartbeat({"": group_in(STABLE)}, nameless)(0) is ErrorCode.INVALID_GROUP_ID, (
        "it may hold offsets"
    )


def test_a_heartbeat_asks_for_nothing_but_its_reply_and_does_not_wait_for_the_disk(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=consumer.member_id)
    context = RequestContext(999, 4, "client", "/h")
    result = driver.shard.handle(RequestReceived(request, context, driver.wall_ms), driver.now_ms)
    answer = HeartbeatResponse(error_code=ErrorCode.NONE)
    assert result == Result(replies=(Reply(999, answer, reveals_stored=False),))
    assert driver.shard.prepare_heartbeat(request)(driver.now_ms) is ErrorCode.NONE


def test_a_timer_that_fires_early_is_armed_again_and_no_member_expires() -> None:
    group = group_in(STABLE)
    group.members["m"].session_deadline_ms = 9_000
    key = SessionTimer("g", "m")
    effects = Effects()
    on_session_timer(group, "m", Moment(8_999, 0), effects)
    assert effects.result() == Result(timers=(SetTimer(key, 9_000),))
    assert "m" in group.members


class Watching(Driver):
    """Keeps the keys of all timers that are set."""

    def set_timer(self, timer: SetTimer) -> None:
        self.keys = [*getattr(self, "keys", []), timer.key]
        super().set_timer(timer)


@pytest.mark.parametrize("version", [9, 3])
def test_a_generation_begins_sessions_and_sets_no_timers_of_its_own(version: int) -> None:
    """Those of the joins are due early enough: a group of thousands would set as many in one turn.

    Since version 4 a timer is there from the id on that was handed out; before it is that of the join.
    """
    driver = Watching()
    form_group(driver, *(Consumer(driver, each, version=version) for each in "abc"))
    sessions = [key for key in driver.keys if isinstance(key, SessionTimer)]
    assert len(sessions) == len(set(sessions)) == 3


def test_a_timer_of_a_member_that_is_gone_does_nothing(driver: Driver) -> None:
    effects = Effects()
    on_session_timer(group_in(STABLE), "gone", Moment(0, 0), effects)
    assert effects.result() == Result()
    assert driver.shard.handle(TimerFired(SessionTimer("gone", "m"), 0), 0) == Result()


@pytest.mark.parametrize("completing", [True, False])
def test_3_54_a_silent_member_is_out_and_the_others_rebalance(driver: Driver, completing: bool) -> None:
    alive, silent = Consumer(driver, "a"), Consumer(driver, "b")
    alive.join(), silent.join()
    driver.advance(6_000)
    alive.collect_join(), silent.collect_join()
    if not completing:
        alive.sync(), silent.sync()
    driver.advance(SESSION_MS - 1)
    alive.heartbeat()
    assert driver.group().state is (COMPLETING_REBALANCE if completing else STABLE)
    driver.advance(1)
    assert driver.group().state is PREPARING_REBALANCE
    event = driver.last_event()
    assert (event.reason, event.member_id) == ("session expired", silent.member_id)
    assert silent.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_3_54_in_preparing_a_silent_member_is_removed_and_completes_the_phase(driver: Driver) -> None:
    silent, alive = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, silent, alive)
    alive.protocols = (("range", b"\x00\x01new"),)
    alive.join()
    driver.advance(SESSION_MS)
    assert alive.collect_join().generation_id == 2
    assert alive.members == [alive.member_id]


def test_3_55_a_member_parked_in_join_does_not_expire(driver: Driver) -> None:
    waiting, slow = Consumer(driver, "a"), Consumer(driver, "b", session_ms=60_000)
    form_group(driver, waiting, slow)
    waiting.protocols = (("range", b"\x00\x01new"),)
    waiting.join()
    driver.advance(SESSION_MS * 4)
    assert waiting.member_id in driver.group().members
    assert slow.join().generation_id == 2
    assert waiting.collect_join().generation_id == 2


def test_3_55_a_member_parked_in_sync_does_not_expire(driver: Driver) -> None:
    leader, waiting = Consumer(driver, "a", session_ms=60_000), Consumer(driver, "b")
    leader.join(), waiting.join()
    driver.advance(6_000)
    leader.collect_join(), waiting.collect_join()
    token = waiting.send_sync()
    driver.advance(SESSION_MS * 4)
    leader.sync()
    assert driver.replies.pop(token).error_code == ErrorCode.NONE


def test_3_56_the_session_starts_in_full_after_join_and_after_sync(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    driver.advance(SESSION_MS - 1)
    assert len(driver.group().members) == 2
    token = follower.send_sync()
    leader.sync()
    assert driver.answered(token)
    driver.advance(SESSION_MS - 1)
    assert len(driver.group().members) == 2
    driver.advance(1)
    assert len(driver.group().members) == 0


def test_3_56_an_assignment_begins_no_session_of_a_member_that_did_not_ask_for_it(driver: Driver) -> None:
    leader, silent = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), silent.join()
    driver.advance(6_000)
    leader.collect_join(), silent.collect_join()
    driver.advance(SESSION_MS - 1)
    leader.sync()
    assert silent.member_id in driver.group().members
    driver.advance(1)
    assert list(driver.group().members) == [leader.member_id]


def test_3_57_a_commit_refreshes_the_session_in_stable_and_preparing(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first, second)
    for _ in range(4):
        driver.advance(SESSION_MS - 1)
        assert first.commit(1) is ErrorCode.NONE
    assert driver.group().state is PREPARING_REBALANCE  # Called back when `second` expired.
    assert list(driver.group().members) == [first.member_id]


def test_3_58_each_member_has_the_session_it_asked_for_last(driver: Driver) -> None:
    quick, slow = Consumer(driver, "a", session_ms=6_000), Consumer(driver, "b", session_ms=30_000)
    form_group(driver, quick, slow)
    driver.advance(6_000)
    assert list(driver.group().members) == [slow.member_id]
    slow.session_ms = 6_000
    slow.join()
    driver.advance(6_000)
    assert driver.group().state is EMPTY


def test_3_59_the_last_member_to_expire_leaves_an_empty_group_and_a_record(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    driver.advance(SESSION_MS)
    assert (driver.group().state, driver.group().generation_id) == (EMPTY, 2)
    stored = driver.shard.stored["g"]
    assert (stored.generation_id, stored.members, stored.protocol_type) == (2, (), "consumer")
    assert [event.to_state for event in driver.history[-2:]] == ["PreparingRebalance", "Empty"]


def test_3_90_a_member_may_change_its_connection(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=consumer.member_id)
    elsewhere = driver.send(request, 4, "another client", "/10.9.9.9")
    assert driver.replies.pop(elsewhere).error_code == ErrorCode.NONE
