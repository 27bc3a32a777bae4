"""What must not change while a target is computed, and what time may do to it."""

from __future__ import annotations

import pytest

from coordinator.effects import Event, Result, WorkFinished
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.record_schemas import GroupMetadataKey
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer import SESSION_MS, Consumer
from tests.groups.consumer_groups.new_member import ORDERS, NewMember
from tests.groups.driver import Driver

HOUR_MS = 3_600_000


@pytest.fixture
def slow() -> Driver:
    """Every target is too large to be computed at once."""
    return Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0, most_weight=0))


def test_what_an_expression_matches_waits_for_a_target(slow: Driver) -> None:
    """Else the group's epoch would rise once for both, and what matches would be in no target."""
    by_expression, by_name = (
        NewMember(slow, "e", topics=(), subscribed_topic_regex="ord.*"),
        NewMember(slow, "n"),
    )
    by_expression.beat()
    token = by_name.send()
    resolving, computing = slow.works
    slow.works = []
    slow.handle(WorkFinished(resolving.run(), slow.wall_ms))
    assert not slow.shard.consumer_groups["g"].subscriptions.resolved
    slow.handle(WorkFinished(computing.run(), slow.wall_ms))
    assert slow.answered(token)
    group = slow.shard.consumer_groups["g"]
    assert group.subscriptions.resolved["ord.*"].topics == ("orders",)
    assert (group.assignment_epoch, group.epoch) == (2, 3)
    slow.assert_replay_agrees()


def test_the_assignment_of_a_classic_leader_waits_for_a_target(slow: Driver) -> None:
    """Else its members would have what the group that it is upgraded to does not know of."""
    leader = Consumer(slow, "c1")
    leader.join()
    slow.advance(3_000)
    leader.collect_join()
    slow.hold_disk()
    syncing = leader.send_sync({leader.member_id: b""})
    joining = NewMember(slow, "n").send()
    slow.flush()
    assert not slow.answered(syncing)
    slow.finish_work()
    assert not slow.answered(syncing), "what the group becomes is known, and its target is not"
    slow.finish_work()
    assert slow.answered(joining)
    assert slow.replies[syncing].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_is_upgraded_does_not_expire_meanwhile(slow: Driver) -> None:
    classic = Consumer(slow, "c1")
    classic.join()
    classic.leave()
    slow.advance(599_000)
    member = NewMember(slow, "n")
    token = member.send()
    slow.advance(2_000)
    slow.finish_work()
    member.take(slow.replies.pop(token))
    assert member.assigned == {ORDERS: [0, 1, 2, 3]}
    slow.assert_replay_agrees()


def test_a_deletion_waits_for_all_groups_that_it_names(slow: Driver) -> None:
    """Behind one after the other."""
    first, second = NewMember(slow, "a"), NewMember(slow, "b")
    asking = [first.send(), second.send(group_id="h")]
    deleting = slow.send(DeleteGroupsRequest(groups_names=["g", "h"]), 2)
    of_g, of_h = slow.works
    slow.works = []
    slow.handle(WorkFinished(of_g.run(), slow.wall_ms))
    assert slow.answered(asking[0])
    assert not slow.answered(deleting)
    slow.handle(WorkFinished(of_h.run(), slow.wall_ms))
    results = slow.replies[deleting].results
    assert [each.error_code for each in results] == [ErrorCode.NON_EMPTY_GROUP] * 2


def test_a_clock_that_was_set_back_keeps_no_target_waiting() -> None:
    driver = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=5_000))
    first, second = NewMember(driver, "a"), NewMember(driver, "b")
    first.beat()
    driver.now_ms -= HOUR_MS  # Of which its wall clock is made.
    second.beat()
    first.own()
    assert first.assigned[ORDERS] == [0, 1], "it has half of them by a new target"


def test_a_clock_that_was_set_back_keeps_no_expression_waiting() -> None:
    driver = Driver()
    NewMember(driver, "a", topics=(), subscribed_topic_regex="ord.*").beat()
    driver.finish_work()
    driver.now_ms -= HOUR_MS  # Of which its wall clock is made.
    NewMember(driver, "b", topics=(), subscribed_topic_regex="ord.+").beat()
    assert len(driver.works) == 1


def test_a_classic_member_of_version_0_has_its_session_to_fetch_its_assignment() -> None:
    """Its requests have no rebalance timeout."""
    driver = Driver()
    NewMember(driver, "n").beat()
    classic = Consumer(driver, "c1", version=0)
    token = classic.send_join()
    member_id = driver.replies[token].member_id
    driver.advance(SESSION_MS - 1)
    assert member_id in driver.shard.consumer_groups["g"].members
    driver.advance(1)
    assert member_id not in driver.shard.consumer_groups["g"].members


def test_a_group_that_cannot_be_upgraded_goes_on_as_it_was(slow: Driver) -> None:
    """That is found out aside, as its members' assignments are read there."""
    leader = Consumer(slow, "c1")
    leader.join()
    slow.advance(3_000)
    leader.collect_join()
    syncing = leader.send_sync({leader.member_id: b"no assignment"})
    slow.flush()
    assert slow.answered(syncing)
    joining = NewMember(slow, "n").send()
    beating = slow.send(HeartbeatRequest(group_id="g", generation_id=1, member_id=leader.member_id), 3)
    assert not slow.answered(joining)
    slow.finish_work()
    assert slow.replies[joining].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert slow.replies[beating].error_code == ErrorCode.NONE
    assert not slow.works
    assert slow.group().members.keys() == {leader.member_id}


@pytest.mark.parametrize("aside", [1, 2], ids=["what the group becomes", "that, and its target"])
def test_sessions_begin_when_an_upgrade_that_took_long_is_made(aside: int) -> None:
    """Its classic members could not be heard of meanwhile, and the one that joins neither."""
    slow = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0, most_weight=0))
    leader = Consumer(slow, "c1")
    leader.join()
    slow.advance(3_000)
    leader.collect_join()
    leader.sync({leader.member_id: b""})
    joining = NewMember(slow, "n").send()
    for number in range(2):
        if number < aside:
            slow.advance(SESSION_MS + 5_000)
        slow.finish_work()
    assert slow.answered(joining)
    slow.advance(SESSION_MS - 1)
    assert len(slow.shard.consumer_groups["g"].members) == 2
    slow.assert_replay_agrees()


class WithoutRoomForClassicGroups(Driver):
    """The record of a classic group does not fit into a batch, once this is `full`."""

    full = False

    def accepted(self, event: Event, result: Result) -> Result:
        keys = [getattr(each, "key", None) for each in result.records if getattr(each, "value", None)]
        is_refused = self.full and any(isinstance(key, GroupMetadataKey) for key in keys)
        self.refusal = ErrorCode.RECORD_LIST_TOO_LARGE if is_refused else ErrorCode.NONE
        return super().accepted(event, result)


def test_what_was_refused_is_undone_before_what_waits_finds_it() -> None:
    """A downgrade that is refused while more waits: no group is of both kinds, no member without timers."""
    settings = ConsumerGroupSettings(assignment_interval_ms=0)
    driver = WithoutRoomForClassicGroups(consumer_settings=settings)
    classic = Consumer(driver, "c1", rebalance_ms=60_000)
    classic.join()
    driver.advance(3_000)
    classic.collect_join()
    classic.sync({classic.member_id: b""})
    new = NewMember(driver, "n")
    new.beat()
    driver.full, settings.most_weight = True, 0
    new.send(subscribed_topic_names=["orders", "clicks"])
    driver.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="n")]), 5)
    NewMember(driver, "late").send()
    driver.finish_work()
    assert driver.shard.groups == {}
    driver.finish_work()
    assert {*driver.shard.consumer_groups["g"].members} == {classic.member_id, "n", "late"}
    driver.full = False
    for _ in range(3):
        driver.advance(2 * SESSION_MS)
        driver.finish_work()
    assert "n" not in driver.shard.consumer_groups["g"].members
