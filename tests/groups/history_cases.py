"""A way to provoke each cause there is of a group's history, and the one event that it must yield."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from harness.doubles.core_driver import uuid_of
from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer import REBALANCE_MS, SESSION_MS, Consumer, form_group, subscription
from tests.groups.driver import Driver

HOST = "/10.0.0.1"
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead",
)  # fmt: skip
Play = Callable[[Driver], GroupEvent]
CASES: Final[dict[str, tuple[CauseKind, Play]]] = {}


def case(kind: CauseKind) -> Callable[[Play], Play]:
    """A way to provoke `kind`; returns the one event of that kind which it must yield."""

    def add(play: Play) -> Play:
        CASES[play.__name__] = (kind, play)
        return play

    return add


def step(driver: Driver, generation: int, states: tuple[str, str], reason: str, **more: Any) -> GroupEvent:
    """The event; where a phase of a classic group begins it may last for REBALANCE_MS, unless `more` says else."""
    before, after = states
    if after in (PREPARING, COMPLETING) and before not in (EMPTY, after):
        more.setdefault("phase_timeout_ms", REBALANCE_MS)
    return GroupEvent("g", generation, *states, reason, driver.wall_ms, **more)


def in_session(left_ms: int | None, timeout_ms: int = SESSION_MS) -> dict[str, int | None]:
    return {"session_timeout_ms": timeout_ms, "session_left_ms": left_ms}


def by(consumer: Consumer) -> dict[str, Any]:
    return {
        "member_id": consumer.member_id,
        "group_instance_id": consumer.instance_id,
        "client_id": consumer.client_id,
        "client_host": HOST,
        "rebalance_timeout_ms": consumer.rebalance_ms,
    }


def last(consumer: Consumer, arrival_ms: int) -> dict[str, Any]:
    return {
        "last_member_id": consumer.member_id,
        "last_group_instance_id": consumer.instance_id,
        "last_client_id": consumer.client_id,
        "last_client_host": HOST,
        "last_arrival_ms": arrival_ms,
    }


def gone(*member_ids: str) -> dict[str, Any]:
    return {"removed_count": len(member_ids), "removed_member_ids": member_ids}


def group_of(driver: Driver, *names: str, static: bool = False) -> list[Consumer]:
    """A Stable group of these clients, the first leading, five seconds of silence and an empty history."""
    consumers = [Consumer(driver, name, instance_id=f"i-{name}" if static else None) for name in names]
    form_group(driver, *consumers)
    driver.advance(5_000)
    driver.history.clear()
    return consumers


def keep_alive(driver: Driver, ms: int, *consumers: Consumer) -> None:
    for _ in range(ms // 5_000):
        driver.advance(5_000)
        for consumer in consumers:
            consumer.heartbeat()


# A member joined, left, or offers something else.


@case(CauseKind.MEMBER_JOINED)
def the_first_member_joins(driver: Driver) -> GroupEvent:
    first = Consumer(driver, "a")
    first.join("hello")
    return step(
        driver, 0, (EMPTY, PREPARING), "member joined: hello", cause="member_joined", client_reason="hello",
        member_count=1, phase_ms={EMPTY: 0}, **by(first),
    )  # fmt: skip


@case(CauseKind.MEMBER_JOINED)
def another_joins_within_the_phase(driver: Driver) -> GroupEvent:
    Consumer(driver, "a").join()
    driver.history.clear()
    driver.advance(500)
    second = Consumer(driver, "b")
    second.join()
    return step(
        driver,
        0,
        (PREPARING, PREPARING),
        "member joined",
        cause="member_joined",
        member_count=2,
        **by(second),
    )


@case(CauseKind.MEMBER_LEFT)
def a_consumer_unsubscribes(driver: Driver) -> GroupEvent:
    _, leaver = group_of(driver, "a", "b")
    leaver.leave("the consumer unsubscribed from all topics")
    return step(
        driver, 1, (STABLE, PREPARING), "member left: the consumer unsubscribed from all topics",
        cause="member_left", client_reason="the consumer unsubscribed from all topics", member_count=1,
        phase_ms={STABLE: 5_000}, **by(leaver), **in_session(SESSION_MS - 5_000),
        **gone(leaver.member_id),
    )  # fmt: skip


@case(CauseKind.MEMBER_LEFT)
def several_leave_at_once(driver: Driver) -> GroupEvent:
    _, second, third = group_of(driver, "a", "b", "c")
    members = [
        MemberIdentity(member_id=c.member_id, reason=f"{c.client_id} is done") for c in (second, third)
    ]
    driver.call(LeaveGroupRequest(group_id="g", members=members), 5)
    reasons = "b is done (b), c is done (c)"
    return step(
        driver, 1, (STABLE, PREPARING), f"member left: 2 at once: {reasons}", cause="member_left",
        client_reason=reasons, member_count=1, phase_ms={STABLE: 5_000}, **by(second),
        **in_session(SESSION_MS - 5_000), **gone(second.member_id, third.member_id),
    )  # fmt: skip


@case(CauseKind.MEMBER_LEFT)
def a_member_leaves_behind_an_id_that_was_not_used(driver: Driver) -> GroupEvent:
    _, second = group_of(driver, "a", "b")
    pending = hand_out_id(driver, "c")
    members = [MemberIdentity(member_id=one.member_id, reason="scale down") for one in (pending, second)]
    driver.call(LeaveGroupRequest(group_id="g", members=members), 5)
    return step(
        driver, 1, (STABLE, PREPARING), "member left: 2 at once: scale down", cause="member_left",
        client_reason="scale down", member_count=1, phase_ms={STABLE: 5_000}, **by(second),
        **in_session(SESSION_MS - 5_000), **gone(second.member_id),
    )  # fmt: skip


@case(CauseKind.MEMBER_LEFT)
def one_leaves_within_the_phase(driver: Driver) -> GroupEvent:
    leader, second, _ = group_of(driver, "a", "b", "c")
    leader.join()
    driver.history.clear()
    second.leave()
    return step(
        driver, 1, (PREPARING, PREPARING), "member left", cause="member_left", member_count=2, **by(second),
        **in_session(SESSION_MS - 5_000), **gone(second.member_id),
    )  # fmt: skip


@case(CauseKind.REMOVED_BY_ADMIN)
def an_admin_removes_a_static_member(driver: Driver) -> GroupEvent:
    _, removed = group_of(driver, "a", "b", static=True)
    identity = MemberIdentity(member_id="", group_instance_id="i-b", reason="scale down")
    driver.call(LeaveGroupRequest(group_id="g", members=[identity]), 5, client_id="admin-1")
    return step(
        driver, 1, (STABLE, PREPARING), f"removed by admin: admin-1 at {HOST}: scale down",
        cause="removed_by_admin", client_reason="scale down", member_count=1, phase_ms={STABLE: 5_000},
        **by(removed), **in_session(SESSION_MS - 5_000), **gone(removed.member_id),
    )  # fmt: skip


@case(CauseKind.SESSION_EXPIRED)
def a_member_falls_silent(driver: Driver) -> GroupEvent:
    alive, silent = group_of(driver, "a", "b")
    alive.heartbeat()
    keep_alive(driver, SESSION_MS - 5_000, alive)
    return step(
        driver, 1, (STABLE, PREPARING), "session expired", cause="session_expired", member_count=1,
        phase_ms={STABLE: SESSION_MS}, **by(silent), **in_session(0), **gone(silent.member_id),
    )  # fmt: skip


@case(CauseKind.SESSION_EXPIRED)
def a_member_falls_silent_within_the_phase(driver: Driver) -> GroupEvent:
    leader, follower, silent = group_of(driver, "a", "b", "c")
    leader.join(), follower.heartbeat()
    driver.history.clear()
    keep_alive(driver, SESSION_MS - 5_000, follower)
    return step(
        driver, 1, (PREPARING, PREPARING), "session expired", cause="session_expired", member_count=2,
        **by(silent), **in_session(0), **gone(silent.member_id),
    )  # fmt: skip


@case(CauseKind.NEW_MEMBER_JOIN_TIMEOUT)
def a_newcomer_is_kept_waiting_for_too_long(driver: Driver) -> GroupEvent:
    slow = Consumer(driver, "a", rebalance_ms=900_000)
    form_group(driver, slow)
    newcomer = Consumer(driver, "b")
    newcomer.join()
    driver.history.clear()
    keep_alive(driver, 300_000, slow)
    return step(
        driver, 1, (PREPARING, PREPARING), "new member's join timed out (5 min)",
        cause="new_member_join_timeout", member_count=1, **by(newcomer), **gone(newcomer.member_id),
    )  # fmt: skip


def hand_out_id(driver: Driver, client_id: str) -> Consumer:
    pending = Consumer(driver, client_id)
    pending.member_id = driver.replies.pop(pending.send_join()).member_id
    return pending


@case(CauseKind.PENDING_MEMBER_LEFT)
def a_pending_member_leaves_a_stable_group(driver: Driver) -> GroupEvent:
    group_of(driver, "a")
    pending = hand_out_id(driver, "b")
    pending.leave()
    return step(
        driver, 1, (STABLE, PREPARING), "pending member left", cause="pending_member_left", member_count=1,
        member_id=pending.member_id, phase_ms={STABLE: 5_000},
    )  # fmt: skip


@case(CauseKind.PENDING_MEMBER_EXPIRED)
def a_pending_member_held_up_the_phase(driver: Driver) -> GroupEvent:
    (leader,) = group_of(driver, "a")
    pending = hand_out_id(driver, "b")
    leader.join()
    driver.advance(SESSION_MS)
    return step(
        driver, 1, (PREPARING, PREPARING), "pending member id not used in time", cause="pending_member_expired",
        member_count=1, member_id=pending.member_id,
    )  # fmt: skip


@case(CauseKind.GROUP_MAX_SIZE_REACHED)
def the_last_to_rejoin_a_group_over_its_size(driver: Driver) -> GroupEvent:
    first, second, third = group_of(driver, "a", "b", "c")
    driver.settings = replace(driver.settings, group_max_size=2)
    driver.restart()
    first.join(), second.join(), third.join()
    return step(
        driver, 1, (PREPARING, PREPARING), "group max size reached, member rejected",
        cause="group_max_size_reached", member_count=2, **by(third), **gone(third.member_id),
    )  # fmt: skip


@case(CauseKind.MEMBER_METADATA_CHANGED)
def a_follower_subscribes_to_more(driver: Driver) -> GroupEvent:
    _, follower = group_of(driver, "a", "b")
    follower.protocols = (("range", subscription("orders", "clicks")),)
    follower.join()
    return step(
        driver, 1, (STABLE, PREPARING), "member metadata changed", cause="member_metadata_changed", member_count=2,
        phase_ms={STABLE: 5_000}, **by(follower),
    )  # fmt: skip


@case(CauseKind.LEADER_REJOINED)
def the_leader_joins_again(driver: Driver) -> GroupEvent:
    leader, _ = group_of(driver, "a", "b")
    leader.join("rebalance enforced by user")
    return step(
        driver, 1, (STABLE, PREPARING), "leader rejoined: rebalance enforced by user", cause="leader_rejoined",
        client_reason="rebalance enforced by user", member_count=2, phase_ms={STABLE: 5_000}, **by(leader),
    )  # fmt: skip


@case(CauseKind.PARTITION_COUNTS_CHANGED)
def the_leader_joins_again_after_its_topic_has_grown(driver: Driver) -> GroupEvent:
    leader, _ = group_of(driver, "a", "b")
    driver.topics.grow("orders", 6)
    leader.join("cached metadata has changed")
    return step(
        driver, 1, (STABLE, PREPARING),
        "partition counts changed: orders from 4 to 6: cached metadata has changed",
        cause="partition_counts_changed", client_reason="cached metadata has changed", member_count=2,
        phase_ms={STABLE: 5_000}, **by(leader),
    )  # fmt: skip


@case(CauseKind.PARTITION_COUNTS_CHANGED)
def a_leader_that_sends_its_generation_joins_again_after_its_topic_has_grown(driver: Driver) -> GroupEvent:
    """As Java's does, which sends what it owns as well: its metadata is never the same twice."""
    leader, _ = group_of(driver, "a", "b")
    driver.topics.grow("orders", 6)
    offered = ConsumerProtocolSubscription(topics=["orders"], generation_id=1)
    leader.protocols = (("range", encode_subscription(offered)),)
    leader.join()
    return step(
        driver, 1, (STABLE, PREPARING), "partition counts changed: orders from 4 to 6",
        cause="partition_counts_changed", member_count=2, phase_ms={STABLE: 5_000}, **by(leader),
    )  # fmt: skip


@case(CauseKind.MEMBER_METADATA_CHANGED)
def the_leader_subscribes_to_more_after_its_topic_has_grown(driver: Driver) -> GroupEvent:
    leader, _ = group_of(driver, "a", "b")
    driver.topics.grow("orders", 6)
    leader.protocols = (("range", subscription("orders", "clicks")),)
    leader.join()
    return step(
        driver, 1, (STABLE, PREPARING), "member metadata changed", cause="member_metadata_changed", member_count=2,
        phase_ms={STABLE: 5_000}, **by(leader),
    )  # fmt: skip


@case(CauseKind.STATIC_MEMBER_REPLACED)
def a_static_member_comes_back_without_a_rebalance(driver: Driver) -> GroupEvent:
    _, old = group_of(driver, "a", "b", static=True)
    new = Consumer(driver, "b-again", instance_id="i-b")
    new.join("first poll")
    assert (new.generation_id, new.member_id != old.member_id) == (1, True)
    return step(
        driver, 1, (STABLE, STABLE), "static member replaced: first poll", cause="static_member_replaced",
        client_reason="first poll", member_count=2, **by(new), **gone(old.member_id),
    )  # fmt: skip


@case(CauseKind.STATIC_MEMBER_REPLACED)
def a_static_member_comes_back_with_another_protocol(driver: Driver) -> GroupEvent:
    both = (("range", subscription("orders")), ("sticky", subscription("orders")))
    old = Consumer(driver, "a", instance_id="i-a", protocols=both)
    form_group(driver, old)
    driver.history.clear()
    driver.advance(5_000)
    new = Consumer(driver, "a", instance_id="i-a", protocols=both[::-1])
    new.join()
    return step(
        driver, 1, (STABLE, PREPARING), "static member replaced", cause="static_member_replaced",
        member_count=1, phase_ms={STABLE: 5_000}, **by(new), **gone(old.member_id),
    )  # fmt: skip


@case(CauseKind.STATIC_MEMBER_REPLACED)
def a_static_member_comes_back_within_the_phase(driver: Driver) -> GroupEvent:
    leader, old, _ = group_of(driver, "a", "b", "c", static=True)
    leader.join()
    driver.history.clear()
    new = Consumer(driver, "b", instance_id="i-b")
    new.join()
    new.member_id = driver.group().static_members["i-b"]
    return step(
        driver, 1, (PREPARING, PREPARING), "static member replaced", cause="static_member_replaced",
        member_count=3, **by(new), **gone(old.member_id),
    )  # fmt: skip


@case(CauseKind.STATIC_MEMBER_NOT_STORED)
def the_log_refuses_the_new_id_of_a_static_member(driver: Driver) -> GroupEvent:
    _, old = group_of(driver, "a", "b", static=True)
    new = Consumer(driver, "b-again", instance_id="i-b")
    with driver.refusing_records(ErrorCode.MESSAGE_TOO_LARGE):
        token = new.send_join()
    return step(
        driver, 1, (STABLE, STABLE), "static member's new id not stored: MESSAGE_TOO_LARGE",
        cause="static_member_not_stored", member_count=2, **by(old), **gone(f"i-b-{uuid_of(token)}"),
    )  # fmt: skip


@case(CauseKind.SYNC_TIMEOUT)
def two_members_never_sync(driver: Driver) -> GroupEvent:
    leader, second, third = (Consumer(driver, name, rebalance_ms=20_000) for name in "abc")
    for consumer in (leader, second, third):
        consumer.join()
    driver.advance(6_000)
    for consumer in (leader, second, third):
        consumer.collect_join()
    leader.sync()
    driver.history.clear()
    keep_alive(driver, 20_000, leader, second, third)
    return step(
        driver, 1, (STABLE, PREPARING), "sync timeout: 2 members sent no SyncGroup", cause="sync_timeout",
        member_count=1, phase_ms={STABLE: 20_000}, **by(second), **in_session(SESSION_MS - 5_000),
        phase_timeout_ms=20_000, **gone(second.member_id, third.member_id),
    )  # fmt: skip


@case(CauseKind.ASSIGNMENT_NOT_STORED)
def the_log_refuses_the_assignment(driver: Driver) -> GroupEvent:
    leader = Consumer(driver, "a")
    leader.join()
    driver.advance(3_000)
    leader.collect_join()
    driver.history.clear()
    driver.advance(40)
    with driver.refusing_records(ErrorCode.RECORD_LIST_TOO_LARGE):
        leader.send_sync()
    return step(
        driver, 1, (COMPLETING, PREPARING), "assignment not stored: UNKNOWN_SERVER_ERROR",
        cause="assignment_not_stored", member_count=1, phase_ms={COMPLETING: 40}, **by(leader),
    )  # fmt: skip


@case(CauseKind.GROUP_OVER_MAX_SIZE)
def the_maximum_size_was_lowered(driver: Driver) -> GroupEvent:
    group_of(driver, "a", "b")
    driver.settings = replace(driver.settings, group_max_size=1)
    driver.restart()
    return step(
        driver, 1, (STABLE, PREPARING), "group is over its maximum size", cause="group_over_max_size",
        member_count=2, phase_ms={STABLE: 0},
    )  # fmt: skip
