"""JoinGroup: who gets in, with which id, and what a rejoin costs (docs/kafka.md 3.1 to 3.10, 3.22 to 3.29)."""

from __future__ import annotations

from typing import Protocol

import pytest

from coordinator.groups.classic.group import PENDING_MEMBERS_MAX, PendingMember
from coordinator.groups.classic.states import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from coordinator.groups.classic.timers import SessionTimer
from coordinator.groups.group_settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from harness.doubles.core_driver import uuid_of
from protocol.errors import ErrorCode
from tests.groups.consumer import SESSION_MS, Consumer, finish_rebalance, form_group, subscription
from tests.groups.driver import Driver

ROUND_ROBIN = (("roundrobin", subscription("orders")),)
CHANGED = (("range", subscription("orders", "clicks")),)


@pytest.fixture
def driver() -> Driver:
    return Driver(GroupSettings(group_initial_rebalance_delay_ms=1_000))


class HasErrorCode(Protocol):
    error_code: int


def error_of(reply: HasErrorCode) -> ErrorCode:
    return ErrorCode(reply.error_code)


def test_3_1_the_first_join_creates_the_group_and_the_first_generation_is_1(driver: Driver) -> None:
    consumer = Consumer(driver)
    assert consumer.join() is None
    assert driver.group().generation_id == 0
    driver.advance(1_000)
    assert consumer.collect_join().generation_id == 1


def test_3_2_an_old_client_parks_at_once_under_a_readable_id(driver: Driver) -> None:
    consumer = Consumer(driver, "billing", version=3)
    token = consumer.send_join()
    assert not driver.answered(token)
    driver.advance(1_000)
    reply = consumer.collect_join()
    assert (reply.generation_id, reply.member_id) == (1, f"billing-{uuid_of(token)}")


def test_3_3_a_dynamic_member_must_come_back_with_the_id_it_is_handed(driver: Driver) -> None:
    consumer = Consumer(driver, "billing", version=4)
    reply = driver.replies.pop(consumer.send_join())
    assert error_of(reply) is ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("billing-")
    assert (reply.generation_id, reply.leader, reply.protocol_name, reply.members) == (-1, "", "", [])
    consumer.member_id = reply.member_id
    assert not driver.answered(consumer.send_join())


@pytest.mark.parametrize("version", [3, 4, 9])
def test_a_client_whose_id_leaves_no_room_for_a_member_id_is_refused(driver: Driver, version: int) -> None:
    """No answer could name such a member, so with it in the group no member could be answered."""
    consumer = Consumer(driver, "x" * 32_767, version=version)
    reply = driver.replies.pop(consumer.send_join())
    assert (error_of(reply), reply.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert not driver.group().members
    assert not driver.group().pending_members


def test_3_4_an_id_not_used_within_its_session_timeout_is_worth_nothing(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.member_id = driver.replies.pop(consumer.send_join()).member_id
    driver.advance(SESSION_MS)
    reply = driver.replies.pop(consumer.send_join())
    assert (error_of(reply), reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, consumer.member_id)


def test_an_id_of_a_long_session_outlives_the_longest_wait_of_a_newcomer(driver: Driver) -> None:
    """Its timer is armed for that wait, as it becomes the member's; it is armed again if the id is unused then."""
    session_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    one, other = (Consumer(driver, name, session_ms=session_ms) for name in ("a", "b"))
    for each in (one, other):
        each.member_id = driver.replies.pop(each.send_join()).member_id
    driver.advance(session_ms - 1)
    assert not driver.answered(one.send_join())
    driver.advance(1)
    assert error_of(driver.replies.pop(other.send_join())) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_timer_of_an_id_becomes_that_of_its_member(driver: Driver) -> None:
    """One timer for each newcomer: to cancel one and set another would be a tenth of a join."""
    consumer = Consumer(driver)
    consumer.member_id = driver.replies.pop(consumer.send_join()).member_id
    handed_out_ms = driver.timers[SessionTimer("g", consumer.member_id)]
    driver.advance(1_000)
    consumer.send_join()
    assert driver.timers[SessionTimer("g", consumer.member_id)] == handed_out_ms
    assert driver.group().members[consumer.member_id].session_timer_ms == handed_out_ms


@pytest.mark.parametrize("session_ms", [4 * NEW_MEMBER_JOIN_TIMEOUT_MS, SESSION_MS])
def test_a_member_of_an_id_that_was_long_unused_has_a_timer_in_time(driver: Driver, session_ms: int) -> None:
    """The id's timer was armed again after five minutes; the member knows for when."""
    consumer = Consumer(driver, session_ms=4 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    consumer.member_id = driver.replies.pop(consumer.send_join()).member_id
    driver.advance(NEW_MEMBER_JOIN_TIMEOUT_MS + 1_000)
    consumer.session_ms = session_ms
    consumer.send_join()
    member = driver.group().members[consumer.member_id]
    armed_ms = driver.timers[SessionTimer("g", consumer.member_id)]
    assert member.session_timer_ms == armed_ms <= member.session_deadline_ms


def test_3_5_an_id_not_yet_used_holds_up_the_join_phase(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first)
    second.member_id = driver.replies.pop(second.send_join()).member_id
    first.protocols = CHANGED
    assert first.join() is None
    assert driver.group().state is PREPARING_REBALANCE
    assert second.join().generation_id == 2
    assert first.collect_join().generation_id == 2


def test_3_5_the_join_phase_ends_when_the_id_expires(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first)
    driver.replies.pop(second.send_join())
    first.protocols = CHANGED
    assert first.join() is None
    driver.advance(SESSION_MS)
    assert first.collect_join().generation_id == 2


def test_3_6_a_pending_id_can_be_given_back_and_that_completes_the_phase(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first)
    second.member_id = driver.replies.pop(second.send_join()).member_id
    first.protocols = CHANGED
    assert first.join() is None
    assert second.leave().members[0].error_code == ErrorCode.NONE
    assert first.collect_join().generation_id == 2
    assert SessionTimer("g", second.member_id) not in driver.timers


def test_3_7_a_static_member_is_in_at_once_under_its_instances_name(driver: Driver) -> None:
    consumer = Consumer(driver, "client", instance_id="worker-1")
    token = consumer.send_join()
    assert not driver.answered(token)
    driver.advance(1_000)
    assert consumer.collect_join().member_id == f"worker-1-{uuid_of(token)}"


def test_3_8_a_pending_id_cannot_turn_static(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.member_id = driver.replies.pop(consumer.send_join()).member_id
    consumer.instance_id = "worker-1"
    reply = driver.replies.pop(consumer.send_join())
    assert error_of(reply) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_3_10_version_0_takes_the_session_timeout_for_the_rebalance_timeout(driver: Driver) -> None:
    consumer = Consumer(driver, version=0)
    consumer.send_join()
    (member,) = driver.group().members.values()
    assert member.rebalance_timeout_ms == SESSION_MS


def test_3_22_a_newcomer_that_shares_no_protocol_is_refused_and_disturbs_no_member(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    reply = Consumer(driver, protocols=ROUND_ROBIN).join()
    assert (error_of(reply), reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert driver.group().state is STABLE
    assert consumer.heartbeat() is ErrorCode.NONE


def test_3_23_another_protocol_type_is_refused_until_the_group_is_empty(driver: Driver) -> None:
    consumer = Consumer(driver)
    form_group(driver, consumer)
    connect = Consumer(driver, protocol_type="connect")
    assert error_of(connect.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    consumer.leave()
    assert driver.group().state is EMPTY
    form_group(driver, connect)
    assert driver.group().protocol_type == "connect"


@pytest.mark.parametrize("protocols", [(), None])
def test_an_empty_protocol_type_or_list_is_refused_by_an_empty_group(
    driver: Driver, protocols: tuple[tuple[str, bytes], ...] | None
) -> None:
    consumer = Consumer(driver, protocol_type="" if protocols is None else "consumer")
    if protocols is not None:
        consumer.protocols = protocols
    assert error_of(consumer.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group().state is EMPTY  # As in Kafka, the group is there all the same.


def test_3_24_an_unchanged_follower_gets_the_current_generation_at_once(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, leader, follower)
    reply = follower.join()
    assert (reply.generation_id, reply.leader, reply.members) == (1, leader.member_id, [])
    assert driver.group().state is STABLE


def test_3_24_a_leader_that_rejoins_always_causes_a_rebalance(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, leader, follower)
    assert leader.join() is None
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.last_event().reason == "leader rejoined"


@pytest.mark.parametrize(
    "protocols",
    [
        (("range", b"other bytes"), ("roundrobin", b"")),
        (("roundrobin", b""), ("range", b"bytes")),
    ],
)
def test_3_24_new_metadata_or_another_order_counts_as_a_change(
    driver: Driver, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    before = (("range", b"bytes"), ("roundrobin", b""))
    leader = Consumer(driver, "a", protocols=before, protocol_type="connect")
    follower = Consumer(driver, "b", protocols=before, protocol_type="connect")
    form_group(driver, leader, follower)
    follower.protocols = protocols
    assert follower.join() is None
    assert driver.last_event().reason == "member metadata changed"


def test_3_25_a_rejoin_while_completing_repeats_the_generation(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(2_000)
    first, second = leader.collect_join(), follower.collect_join()
    assert leader.join() == first
    assert follower.join() == second
    assert len(first.members) == 2
    assert driver.group().state is COMPLETING_REBALANCE


def test_3_25_changed_metadata_while_completing_costs_another_round(driver: Driver) -> None:
    leader, follower = Consumer(driver, "a"), Consumer(driver, "b")
    leader.join(), follower.join()
    driver.advance(2_000)
    leader.collect_join(), follower.collect_join()
    waiting = follower.send_sync()
    leader.protocols = (("range", subscription("clicks")),)
    assert leader.join() is None
    assert error_of(driver.replies.pop(waiting)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.join().generation_id == 2


def test_3_26_a_second_join_replaces_the_first_which_is_never_answered(driver: Driver) -> None:
    consumer = Consumer(driver)
    assert consumer.join() is None
    first = consumer.parked
    second = consumer.send_join()
    driver.advance(1_000)
    assert driver.superseded == [first]
    assert driver.answered(second)
    assert not driver.answered(first)


def test_3_27_a_new_member_is_parked_for_five_minutes_at_most(driver: Driver) -> None:
    leader, newcomer = Consumer(driver, "a", rebalance_ms=900_000), Consumer(driver, "b")
    form_group(driver, leader)
    assert newcomer.join() is None
    for _ in range(60):
        assert not driver.answered(newcomer.parked), "its session has not begun"
        driver.advance(5_000)
        assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    reply = driver.replies.pop(newcomer.parked)
    assert (error_of(reply), reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert list(driver.group().members) == [leader.member_id]


def test_3_29_the_clients_reason_is_in_the_history(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first)
    second.join("scale up")
    event = driver.last_event()
    assert event.reason == "member joined: scale up"
    assert (event.member_id, event.client_id, event.client_host) == (second.member_id, "b", "/10.0.0.1")


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_outside_the_limits_is_refused(driver: Driver, session_ms: int) -> None:
    consumer = Consumer(driver, session_ms=session_ms)
    consumer.member_id = "m"
    reply = consumer.join()
    assert (error_of(reply), reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "m")
    assert "g" not in driver.shard.groups


def test_an_empty_group_id_is_refused_with_the_id_echoed(driver: Driver) -> None:
    consumer = Consumer(driver, group_id="")
    consumer.member_id = "m"
    reply = consumer.join()
    assert (error_of(reply), reply.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")


def test_an_id_for_a_group_that_is_not_there_is_unknown_and_creates_nothing(driver: Driver) -> None:
    consumer = Consumer(driver)
    consumer.member_id = "m"
    reply = consumer.join()
    assert (error_of(reply), reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "m")
    assert driver.shard.groups == {}
    assert driver.log == []


@pytest.mark.parametrize(("version", "no_protocol"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_a_refusal_has_null_for_no_protocol_since_version_7(
    driver: Driver, version: int, no_protocol: str | None
) -> None:
    reply = Consumer(driver, group_id="", version=version).join()
    assert reply.protocol_name == no_protocol


@pytest.mark.parametrize(("version", "no_protocol"), [(3, ""), (7, None), (9, None)])
def test_a_protocol_whose_name_is_empty_is_shown_as_none(
    driver: Driver, version: int, no_protocol: str | None
) -> None:
    consumer = Consumer(driver, version=version, protocols=(("", b""),))
    assert consumer.join() is None
    driver.advance(driver.settings.group_initial_rebalance_delay_ms)
    consumer.collect_join()
    assert driver.group().protocol_name == ""
    assert consumer.protocol_name == no_protocol


def test_ids_handed_out_and_never_used_are_bounded(driver: Driver) -> None:
    Consumer(driver).send_join()
    driver.group().pending_members.update(
        {str(number): PendingMember(0, 0) for number in range(PENDING_MEMBERS_MAX)}
    )
    reply = Consumer(driver).join()
    assert error_of(reply) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_protocol_named_twice_counts_once(driver: Driver) -> None:
    twice = (("range", subscription("orders")), ("range", subscription("clicks")))
    first, second = Consumer(driver, "a", protocols=twice), Consumer(driver, "b")
    form_group(driver, first, second)
    assert first.protocol_name == "range"


def test_a_group_that_the_log_refuses_is_not_there_and_the_joiner_hears_why(driver: Driver) -> None:
    consumer = Consumer(driver, version=3)
    with driver.refusing_records():
        token = consumer.send_join()
    assert error_of(driver.replies.pop(token)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.shard.groups == {}


def test_a_rebalance_ends_with_all_members_in_the_next_generation(driver: Driver) -> None:
    first, second = Consumer(driver, "a"), Consumer(driver, "b")
    form_group(driver, first)
    assert second.join() is None
    first.send_join()
    finish_rebalance(driver, first, second)
    assert driver.group().state is STABLE
    assert (first.generation_id, second.generation_id) == (2, 2)
    assert driver.reasons()[-3:] == ["member joined", "all members joined", "leader's assignment stored"]
    driver.assert_replay_agrees()


def test_fifty_members_that_come_together_cost_one_rebalance(driver: Driver) -> None:
    consumers = [Consumer(driver, f"c{i}") for i in range(50)]
    form_group(driver, *consumers)
    assert driver.group().generation_id == 1
    assert len(driver.group().members) == 50
