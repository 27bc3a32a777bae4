"""Members of consumer groups that go, for good or for now, and static ones that come back."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import OTHER_TOPIC, TOPIC, Actor
from tests.conformance.consumer_scenes import (
    EXPRESSION,
    alone,
    commit_at,
    configure,
    has_member,
    know_topics,
    member_of,
    owes,
    partitions_of,
    quiet_beat,
    shown,
    target_at_once,
    told,
    until_shown,
)
from tests.conformance.new_members import BEAT, NewMember
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, stable

UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
FENCED: Final = ErrorCode.FENCED_INSTANCE_ID
NONE: Final = ErrorCode.GROUP_ID_NOT_FOUND
STALE: Final = ErrorCode.STALE_MEMBER_EPOCH
SESSION_MS: Final = 3_000
REVOCATION_MS: Final = 2_500
"""Both are longer than any slow moment of the machine."""


def is_farewell(reply: ConsumerGroupHeartbeatResponse, member: NewMember, epoch: int) -> bool:
    """Whether this is all that a leave is answered with."""
    answered = (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment)
    return answered == (member.member_id, epoch, 0, None)


@scenario("A7", "A11", versions=BEAT)
async def a_static_member_leaves_by_its_member_id_alone(run: Run, version: int) -> None:
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    await alone(run, alice)
    await bob.beat(version)
    await bob.leave(version, UNKNOWN, member_id="carol-id")
    before = await shown(run)
    reply = await alice.leave(version, instance_id=None)
    run.expect(is_farewell(reply, alice, -1), "a leave has no assignment and no interval")
    await shown(run, epoch=before.group_epoch + 1)
    await alice.leave(version, UNKNOWN, instance_id=None)
    await alice.leave(version, UNKNOWN)
    await NewMember(run, "again", instance_id="one").beat(version, note="the instance is free")
    await shown(run)


@scenario("9 ConsumerGroupHeartbeat: of nobody", versions=BEAT)
async def a_consumer_leaves_a_classic_group(run: Run, version: int) -> None:
    (carol,) = cast(run, "carol")
    await stable(run, carol)
    new = NewMember(run, "new")
    for note in ("with members", "empty"):
        for changed in ({}, {"instance_id": "i"}, {"instance_id": "i", "member_epoch": -2}):
            reply = await new.leave(version, NONE, **changed)
            message = f"Group {run.group} is not a consumer group."
            run.expect(reply.error_message == message, f"{note}: {reply.error_message}")
        if note == "with members":
            await carol.leave()


@scenario("A8", "A10", "A11", versions=BEAT)
async def a_static_member_leaves_for_good(run: Run, version: int) -> None:
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    await alone(run, alice)
    await bob.beat(version)
    before = await shown(run)
    await alice.leave(version, UNKNOWN, instance_id="two")
    await bob.leave(version, FENCED, instance_id="one")
    bob.epoch = before.group_epoch
    reply = await alice.leave(version)
    run.expect(is_farewell(reply, alice, -1), "a leave has no assignment and no interval")
    after = await shown(run, epoch=before.group_epoch + 1)
    run.expect(not has_member(after, alice), "nothing of it is left")
    again = NewMember(run, "again", instance_id="one")
    reply = await again.beat(version, note="with its instance")
    await shown(run, epoch=before.group_epoch + 2)


@scenario("A9", "A11", "A23", versions=BEAT)
async def a_static_member_leaves_for_now(run: Run, version: int) -> None:
    """What it was to give up is free, what it keeps is not; and it is assigned in epoch 0."""
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    await alice.beat(version, note="is to give up some")
    await bob.beat(version, note="has to wait")
    before = await shown(run, "Reconciling")
    reply = await alice.leave(version, member_epoch=-2)
    run.expect(is_farewell(reply, alice, -2), "a leave has no assignment and no interval")
    after = await shown(run, "Reconciling", before.group_epoch)
    left = member_of(after, alice)
    run.expect(left.member_epoch == -2 and partitions_of(left.assignment) == keeps, "it keeps what it keeps")
    reply = await bob.beat(version, note="gets what is free")
    run.expect(bool(told(run, reply)), "what was to be given up is free")
    await alice.leave(version, member_epoch=-2)
    await bob.own("has it")
    await shown(run, "Reconciling", before.group_epoch)
    await alice.beat(version, member_epoch=0, note="is back")
    (kept,) = keeps[TOPIC][:1]
    await commit_at(alice, 1, kept, ErrorCode.NONE)
    await commit_at(bob, bob.epoch - 1, 3 - sum(keeps[TOPIC]), STALE)
    await shown(run, "Stable", before.group_epoch)


@scenario("A9", "A30", on="small")
async def the_session_of_a_member_that_left_for_now_runs_on(run: Run) -> None:
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    await alone(run, bob)
    await configure(run, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=100)
    await alice.beat(note="joins with a short session")
    await alice.leave(member_epoch=-2)
    before = await shown(run)
    after = await until_shown(run, lambda group: not has_member(group, alice))
    run.expect(after.group_epoch == before.group_epoch + 1, "its end raises the epoch")
    await alice.beat(error=UNKNOWN, member_epoch=-2)
    await alice.beat(member_epoch=0, note="joins as a new one")
    await shown(run, epoch=before.group_epoch + 2)


@scenario("A10", "A11", "A20")
async def members_leave_one_after_the_other(run: Run) -> None:
    """Those that stay get their new targets as they heartbeat."""
    alice, bob, carol = (NewMember(run, name) for name in ("alice", "bob", "carol"))
    await alone(run, alice)
    await bob.beat(note="joins")
    await carol.beat(note="joins")
    before = await shown(run, epoch=4)
    await bob.leave()
    after = await shown(run, "Assigning", 5)
    kept = [member_of(each, alice).target_assignment for each in (before, after)]
    run.expect(kept[0] == kept[1] and after.assignment_epoch == 4, "no target changes with a leave")
    await alice.beat(note="a new target")
    await shown(run, epoch=5)
    await carol.leave()
    await alice.leave()
    await shown(run, "Empty", 7)
    await alice.leave(error=UNKNOWN)
    await bob.beat(member_epoch=0, note="the group has stayed")
    await shown(run, "Stable", 8)


@scenario("A10")
async def members_that_leave_at_once_raise_the_epoch_once(run: Run) -> None:
    alice, bob, carol = (NewMember(run, name) for name in ("alice", "bob", "carol"))
    await alone(run, alice)
    await bob.beat(note="joins")
    await carol.beat(note="joins")
    gone = [MemberIdentity(member_id=each.member_id, group_instance_id=None) for each in (alice, carol)]
    await Actor(run, "admin").leave(members=gone, errors=[0, 0])
    await shown(run, "Assigning", 5)
    await bob.beat(note="a new target")
    await shown(run, epoch=5)


@scenario("A10", "A15")
async def what_an_expression_matches_goes_with_its_last_member(run: Run) -> None:
    """One that comes with it while it is resolved raises the epoch at once, and one that comes later does not."""
    alice, bob, carol = (NewMember(run, name, topics=()) for name in ("alice", "bob", "carol"))
    await target_at_once(run)
    await alice.beat(subscribed_topic_regex=EXPRESSION, note="joins")
    await until_shown(run, lambda group: group.group_epoch == 2)
    await bob.beat(subscribed_topic_regex=EXPRESSION, note="joins")
    await shown(run, epoch=3)
    await alice.leave()
    await carol.beat(subscribed_topic_regex=EXPRESSION, note="is known still")
    await shown(run, epoch=5)
    await bob.leave()
    await carol.leave()
    await shown(run, "Empty", 7)
    reply = await alice.beat(member_epoch=0, subscribed_topic_regex=EXPRESSION, note="is not known any more")
    run.expect(told(run, reply) == {} and alice.epoch == 7, "it is not known what it matches")
    await until_shown(run, lambda group: group.group_epoch == 8)


# Static members that come back


@scenario("A12", "A21", versions=BEAT)
async def a_static_member_takes_over_from_another_id(run: Run, version: int) -> None:
    know_topics(run)
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    await alice.beat(version, topic_partitions=[], note="gives up all")
    await alice.own("has it")
    await bob.beat(version)
    before = await shown(run, "Stable", 3)
    await alice.leave(version, member_epoch=-2)
    again = NewMember(run, "again", instance_id="one")
    reply = await again.beat(version, rack_id="r", note="takes over")
    run.expect(told(run, reply) == keeps and again.epoch == 3, "it has at once what the other one had")
    after = await shown(run, "Stable", 3)
    targets = (member_of(before, alice).target_assignment, member_of(after, again).target_assignment)
    run.expect(targets[0] == targets[1], "it has the other one's target")
    await commit_at(again, 1, keeps[TOPIC][0], ErrorCode.NONE)
    await alice.beat(version, FENCED, "too late", member_epoch=3)
    await alice.beat(version, UNKNOWN, "too late, without its instance", member_epoch=3, instance_id=None)
    await again.leave(version, member_epoch=-2)
    third = NewMember(run, "third", instance_id="one", topics=(TOPIC, OTHER_TOPIC))
    await third.beat(version, note="with another subscription")
    group = await shown(run, epoch=4)
    target = partitions_of(member_of(group, third).target_assignment)
    run.expect(OTHER_TOPIC in target, "the target is that of its own subscription")


@scenario("A12", "A13", versions=BEAT)
async def a_static_member_comes_back_with_the_id_that_it_had(run: Run, version: int) -> None:
    know_topics(run)
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    await alice.beat(version, note="is to give up some")
    await alice.leave(version, member_epoch=-2)
    reply = await alice.beat(version, member_epoch=0, note="is back")
    run.expect(told(run, reply) == keeps and alice.epoch == 3, "it has what it kept, in the group's epoch")
    await shown(run, epoch=3)
    await commit_at(alice, 1, keeps[TOPIC][0], ErrorCode.NONE)
    await bob.beat(version)
    await shown(run, "Stable", 3)
    await alice.leave(version, member_epoch=-2)
    await alice.beat(version, member_epoch=0, subscribed_topic_names=[OTHER_TOPIC], note="for another topic")
    await shown(run, epoch=4)


@scenario("A14", on="small")
async def nothing_that_ran_for_the_replaced_id_removes_the_new_one(run: Run) -> None:
    """Neither its session nor the time in which it had to give up partitions."""
    know_topics(run)
    alice = NewMember(run, "alice", instance_id="one", topics=(TOPIC, OTHER_TOPIC))
    await alone(run, alice)
    await configure(run, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=100)
    await alice.beat(subscribed_topic_names=[TOPIC], rebalance_timeout_ms=REVOCATION_MS, note="gives up one")
    await shown(run, "Reconciling", 3)
    await alice.leave(member_epoch=-2)
    again = NewMember(run, "again", instance_id="one")
    await again.beat(note="takes over")
    await shown(run, "Stable", 3)
    end = time.monotonic() + (SESSION_MS + 500) / 1000
    while time.monotonic() < end:
        await quiet_beat(again)
        await asyncio.sleep(0.1)
    group = await shown(run, "Stable", 3)
    run.expect(has_member(group, again), "it is there")
    await again.beat(note="as before")


@scenario("A29", "A9")
async def a_member_that_left_for_now_has_nothing_to_give_up_in_time(run: Run) -> None:
    """The time that it had runs out in another epoch of it."""
    alice, bob = NewMember(run, "alice", instance_id="one"), NewMember(run, "bob")
    await owes(run, alice, bob)
    async with run.taking(REVOCATION_MS / 1000, 15.0):
        await alice.beat(rebalance_timeout_ms=REVOCATION_MS, note="is to give up some")
        await alice.leave(member_epoch=-2)
        await shown(run, epoch=3)
        await asyncio.sleep((REVOCATION_MS + 400) / 1000)
    group = await shown(run, epoch=3)
    run.expect(has_member(group, alice), "it is there")


@scenario("A2", "A9", "A10", "A12", "A20", on="restarted", restarts=BOTH)
async def a_consumer_group_is_after_a_restart_what_it_was_before(run: Run) -> None:
    """One member has something to give up, one has left, one has left for now, one has taken over."""
    names = ("alice", "bob", "carol", "dave", "erin", "frank")
    alice, bob, carol, dave, erin, frank = (NewMember(run, name, topics=()) for name in names)
    for each in (alice, bob, carol):
        each.topics = (TOPIC,)
    await alone(run, alice)
    await bob.beat()
    await alice.beat(topic_partitions=[], note="gives up some")
    await alice.own()
    await bob.beat()
    await carol.beat()
    await dave.beat()
    await dave.leave()
    for each in (erin, frank):
        each.instance_id = each.name
        await each.beat()
        await each.leave(member_epoch=-2)
    await NewMember(run, "again", topics=(), instance_id="frank").beat(note="takes over")
    await alice.beat(rack_id="r")
    await bob.beat()
    before = await shown(run, "Reconciling")
    await run.restarted()
    after = await shown(run, "Reconciling")
    before.members.sort(key=lambda each: each.member_id)
    after.members.sort(key=lambda each: each.member_id)
    run.expect(before == after, "it is what it was")
    for each in (alice, bob, carol):
        await each.beat(note="goes on", topic_partitions=[])
    await dave.beat(error=UNKNOWN, member_epoch=1)
    await shown(run)
