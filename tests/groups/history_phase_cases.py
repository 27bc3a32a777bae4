"""The cases of `history_cases` that end a phase, or concern the group as a whole."""

from __future__ import annotations

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.groups.consumer import Consumer, form_group
from tests.groups.driver import Driver
from tests.groups.history_cases import (
    COMPLETING,
    DEAD,
    EMPTY,
    HOST,
    PREPARING,
    STABLE,
    by,
    case,
    gone,
    group_of,
    hand_out_id,
    in_session,
    last,
    step,
)

# The ends of a phase.


@case(CauseKind.ALL_MEMBERS_JOINED)
def all_members_have_joined_again(driver: Driver) -> GroupEvent:
    leader, slow = group_of(driver, "a", "b")
    leader.join()
    driver.advance(700)
    slow.join()
    return step(
        driver, 2, (PREPARING, COMPLETING), "all members joined", cause="all_members_joined", member_count=2,
        phase_ms={PREPARING: 700}, **last(slow, 700),
    )  # fmt: skip


@case(CauseKind.INITIAL_DELAY_OVER)
def the_initial_delay_is_over(driver: Driver) -> GroupEvent:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    first.join()
    driver.advance(1_000)
    second.join()
    driver.advance(5_000)
    second.collect_join()
    return step(
        driver, 1, (PREPARING, COMPLETING), "initial rebalance delay over", cause="initial_delay_over",
        member_count=2, phase_ms={PREPARING: 6_000}, **last(second, 1_000),
    )  # fmt: skip


@case(CauseKind.REBALANCE_TIMEOUT)
def members_did_not_rejoin_in_time(driver: Driver) -> GroupEvent:
    leader, static, second, third = (
        Consumer(driver, name, rebalance_ms=20_000, session_ms=60_000, instance_id=instance_id)
        for name, instance_id in (("a", None), ("s", "i-s"), ("b", None), ("c", None))
    )
    form_group(driver, leader, static, second, third)
    driver.history.clear()
    leader.join()
    driver.advance(20_000)
    return step(
        driver, 2, (PREPARING, COMPLETING),
        "rebalance timeout: 2 members did not rejoin, 1 static member stayed without rejoining",
        cause="rebalance_timeout", member_count=2, phase_ms={PREPARING: 20_000}, **by(static), **last(leader, 0),
        phase_timeout_ms=20_000, **in_session(40_000, 60_000),
        **gone(second.member_id, third.member_id),
    )  # fmt: skip


@case(CauseKind.REBALANCE_TIMEOUT)
def an_id_that_was_never_used_took_the_whole_timeout(driver: Driver) -> GroupEvent:
    leader = Consumer(driver, "a", rebalance_ms=5_000)
    form_group(driver, leader)
    hand_out_id(driver, "b")
    leader.join()
    driver.history.clear()
    driver.advance(5_000)
    return step(
        driver, 2, (PREPARING, COMPLETING), "rebalance timeout: 1 pending id not used yet",
        cause="rebalance_timeout", member_count=1, phase_ms={PREPARING: 5_000}, **last(leader, 0),
        phase_timeout_ms=5_000,
    )  # fmt: skip


@case(CauseKind.JOIN_PHASE_EXTENDED)
def only_silent_static_members_are_left(driver: Driver) -> GroupEvent:
    static = Consumer(driver, "s", rebalance_ms=20_000, session_ms=60_000, instance_id="i-s")
    leaver, silent = (Consumer(driver, name, rebalance_ms=20_000, session_ms=60_000) for name in "bc")
    form_group(driver, static, leaver, silent)
    driver.history.clear()
    leaver.leave()
    driver.advance(20_000)
    return step(
        driver, 1, (PREPARING, PREPARING),
        "no members rejoined, join phase extended: 1 member did not rejoin, "
        "1 static member stayed without rejoining",
        cause="join_phase_extended", member_count=1, **by(static), **gone(silent.member_id),
        phase_timeout_ms=20_000, **in_session(40_000, 60_000),
    )  # fmt: skip


@case(CauseKind.ASSIGNMENT_STORED)
def the_leader_has_assigned(driver: Driver) -> GroupEvent:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(6_000)
    leader.collect_join(), follower.collect_join()
    driver.advance(30)
    follower.send_sync()
    driver.advance(20)
    leader.sync()
    return step(
        driver, 1, (COMPLETING, STABLE), "leader's assignment stored", cause="assignment_stored",
        member_count=2, phase_ms={COMPLETING: 50}, rebalance_cause="member_joined",
        rebalance_ms={PREPARING: 6_000, COMPLETING: 50}, **by(leader), **last(leader, 50),
    )  # fmt: skip


@case(CauseKind.GROUP_EMPTIED)
def the_last_member_leaves(driver: Driver) -> GroupEvent:
    (only,) = group_of(driver, "a")
    only.leave()
    return step(
        driver, 2, (PREPARING, EMPTY), "no members remain", cause="group_emptied", phase_ms={PREPARING: 0},
        rebalance_cause="member_left", rebalance_ms={PREPARING: 0},
    )  # fmt: skip


# The group as a whole.


@case(CauseKind.COORDINATOR_RESTARTED)
def the_coordinator_restarts(driver: Driver) -> GroupEvent:
    group_of(driver, "a", "b")
    driver.restart()
    return step(
        driver, 1, (DEAD, STABLE), "coordinator restarted", cause="coordinator_restarted", member_count=2
    )


@case(CauseKind.GROUP_DELETED)
def an_admin_deletes_the_group(driver: Driver) -> GroupEvent:
    (only,) = group_of(driver, "a")
    only.leave()
    driver.advance(60)
    driver.call(DeleteGroupsRequest(groups_names=["g"]), 2, client_id="admin-1")
    return step(
        driver, 2, (EMPTY, DEAD), "group deleted by admin", cause="group_deleted", client_id="admin-1",
        client_host=HOST, phase_ms={EMPTY: 60},
    )  # fmt: skip


@case(CauseKind.OFFSETS_EXPIRED)
def the_sweep_finds_nothing_left_of_the_group(driver: Driver) -> GroupEvent:
    (only,) = group_of(driver, "a")
    only.leave()
    emptied_ms = driver.now_ms
    driver.advance(1_000 + driver.settings.offsets_retention_check_interval_ms - emptied_ms)
    return step(
        driver, 2, (EMPTY, DEAD), "offsets expired: there were none left", cause="offsets_expired",
        phase_ms={EMPTY: driver.now_ms - emptied_ms},
    )  # fmt: skip


@case(CauseKind.GROUP_NOT_STORED)
def the_log_refuses_a_new_group(driver: Driver) -> GroupEvent:
    first = Consumer(driver, "a", version=3)
    with driver.refusing_records(ErrorCode.MESSAGE_TOO_LARGE):
        first.send_join()
    return step(
        driver, 0, (PREPARING, DEAD), "group not stored: MESSAGE_TOO_LARGE", cause="group_not_stored",
        member_count=1, phase_ms={PREPARING: 0}, rebalance_cause="member_joined", rebalance_ms={PREPARING: 0},
    )  # fmt: skip
