"""How members of a consumer group come to their targets, and the time that they have for it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from protocol.errors import ErrorCode
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.consumer_scenes import (
    alone,
    commit_at,
    has_member,
    keep_target,
    know_topics,
    look,
    member_of,
    owes,
    owning,
    partitions_of,
    quiet_beat,
    shown,
    target_at_once,
    told,
)
from tests.conformance.new_members import BEAT, REBALANCE_MS, NewMember
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import EVENTUALLY_S, POLL_S

ALL: Final = {TOPIC: [0, 1, 2]}
FENCED: Final = ErrorCode.FENCED_MEMBER_EPOCH
STALE: Final = ErrorCode.STALE_MEMBER_EPOCH
REVOCATION_MS: Final = 2_500
"""Longer than any slow moment of the machine."""


@scenario("A24", "A25", versions=BEAT)
async def a_member_stays_until_it_says_that_it_owns_nothing_of_what_it_gives_up(
    run: Run, version: int
) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    reply = await alice.beat(version, topic_partitions=owning(run, ALL), note="owns all")
    run.expect(told(run, reply) == keeps and alice.epoch == 2, "it is shown what it keeps, in its epoch")
    group = await shown(run, "Reconciling", 3)
    run.expect(partitions_of(member_of(group, alice).assignment) == ALL, "what it gives up is its own yet")
    for note, owned in (("says nothing", None), ("owns all, still", ALL), ("owns one of them", {TOPIC: [2]})):
        some = None if owned is None else owning(run, owned)
        reply = await alice.beat(version, topic_partitions=some, note=note)
        run.expect(reply.assignment is None and alice.epoch == 2, "it stays as it is")
    reply = await bob.beat(version, note="has to wait")
    run.expect(reply.assignment is None, "it is not free")
    await shown(run, "Reconciling", 3)
    reply = await alice.beat(version, topic_partitions=owning(run, keeps), note="gave it up")
    run.expect(alice.epoch == 3, "it is at the target's epoch")
    await bob.beat(version, note="gets it")
    await shown(run, "Stable", 3)


@scenario("A24", "A25")
async def a_target_without_topics_that_a_member_has_dropped(run: Run) -> None:
    """In the request that drops a topic, though there is no other target for so long."""
    know_topics(run)
    alice, bob = NewMember(run, "alice", topics=(TOPIC, OTHER_TOPIC)), NewMember(run, "bob")
    await alone(run, alice)
    await bob.beat(note="joins")
    await keep_target(run)
    group = await shown(run, epoch=3)
    target = partitions_of(member_of(group, alice).target_assignment)
    run.expect(target == {OTHER_TOPIC: [0, 1, 2]}, "the other topic is to be its own")
    reply = await alice.beat(subscribed_topic_names=["nope"], note="drops all, with a target to come to")
    run.expect(told(run, reply) == {}, "nothing of the target is wanted")
    await shown(run, "Assigning", 4)
    await alice.beat(topic_partitions=[], note="gave up all")
    await shown(run, "Assigning", 4)
    await bob.beat(note="gets what is free")
    await shown(run, "Assigning", 4)


@scenario("A24", "A25")
async def a_topic_is_taken_from_a_member_that_drops_it_before_there_is_a_target(run: Run) -> None:
    """Of what it has come to, and of what it keeps while it gives something up."""
    know_topics(run)
    alice = NewMember(run, "alice", topics=(TOPIC, OTHER_TOPIC))
    await alone(run, alice)
    await keep_target(run)
    reply = await alice.beat(subscribed_topic_names=[TOPIC], note="drops one")
    run.expect(told(run, reply) == ALL and alice.epoch == 2, "it is shown the rest, in its epoch")
    await shown(run, "Assigning", 3)
    reply = await alice.beat(subscribed_topic_names=["nope"], note="drops the other, too")
    run.expect(told(run, reply) == {}, "it is shown nothing")
    await shown(run, "Assigning", 4)
    await alice.beat(subscribed_topic_names=[TOPIC], note="wants it again")
    await shown(run, "Assigning", 5)
    reply = await alice.beat(topic_partitions=[], note="gave up all")
    await shown(run, "Assigning", 5)


@scenario("A24")
async def what_was_given_up_just_now_comes_back_if_it_is_wanted_again(run: Run) -> None:
    """The other member for whom it was has left meanwhile."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    await alice.beat(note="is to give up some")
    await bob.leave()
    await alice.beat(note="says nothing")
    await shown(run, "Reconciling", 4)
    reply = await alice.beat(topic_partitions=owning(run, keeps), note="gave it up")
    run.expect(told(run, reply) == ALL and alice.epoch == 4, "it has all again")
    (kept, *_), (new,) = keeps[TOPIC], set(ALL[TOPIC]) - set(keeps[TOPIC])
    await commit_at(alice, 2, kept, ErrorCode.NONE)
    await commit_at(alice, 3, new, STALE)
    await shown(run, "Stable", 4)


@scenario("A23", "A24", "A10")
async def what_a_member_has_is_free_when_it_goes(run: Run) -> None:
    """Whether or not it has confirmed what it was to give up."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await owes(run, alice, bob)
    await alice.beat(note="is to give up some")
    reply = await bob.beat(note="nothing is free")
    run.expect(reply.assignment is None, "it has to wait")
    await shown(run, "Reconciling", 3)
    await alice.leave()
    reply = await bob.beat(note="gets all")
    run.expect(told(run, reply) == ALL, "all is free")
    await shown(run, "Stable", 4)


@scenario("A23", "A26")
async def what_is_free_comes_first_and_the_rest_later(run: Run) -> None:
    """A member waits at the target's epoch; what is new has that epoch, what was kept the one that it had."""
    know_topics(run)
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob", topics=(TOPIC, OTHER_TOPIC))
    await target_at_once(run)
    await alice.beat(server_assignor="range", note="joins")
    reply = await bob.beat(server_assignor="range", note="joins")
    run.expect(told(run, reply) == {OTHER_TOPIC: [0, 1, 2]} and bob.epoch == 3, "it has what is free")
    await shown(run, "Reconciling", 3)
    await alice.beat(topic_partitions=owning(run, {TOPIC: [0, 1]}), note="gave it up")
    run.expect(alice.epoch == 3, "it is at the target's epoch")
    await shown(run, "Reconciling", 3)
    reply = await bob.beat(note="gets the rest")
    run.expect(told(run, reply) == {OTHER_TOPIC: [0, 1, 2], TOPIC: [2]}, "it has all of its target")
    await shown(run, "Stable", 3)
    await commit_at(alice, 2, 0, ErrorCode.NONE)
    await commit_at(alice, 1, 0, STALE)
    await commit_at(bob, 2, 2, STALE)
    await commit_at(bob, 3, 2, ErrorCode.NONE)
    await bob.leave()
    reply = await alice.beat(note="gets what has become free")
    run.expect(told(run, reply) == ALL and alice.epoch == 4, "it has all")
    await commit_at(alice, 2, 1, ErrorCode.NONE)
    await commit_at(alice, 3, 2, STALE)
    await commit_at(alice, 4, 2, ErrorCode.NONE)


@scenario("A27", versions=BEAT)
async def a_member_for_which_there_is_nothing_new_goes_to_the_targets_epoch(run: Run, version: int) -> None:
    know_topics(run)
    alice, bob, carol = (
        NewMember(run, "alice"),
        NewMember(run, "bob", topics=(OTHER_TOPIC,)),
        NewMember(run, "carol"),
    )
    await alone(run, alice)
    await bob.beat(version, note="joins for another topic")
    await shown(run, "Reconciling", 3)
    reply = await alice.beat(version, note="nothing new")
    run.expect(reply.assignment is None and alice.epoch == 3, "it is at the target's epoch")
    await shown(run, "Stable", 3)
    reply = await carol.beat(version, note="nothing is free")
    run.expect(told(run, reply) == {} and carol.epoch == 4, "it waits at the target's epoch")
    await bob.beat(version, note="nothing new")
    group = await shown(run, "Reconciling", 4)
    run.expect(member_of(group, bob).member_epoch == 4, "it is at the target's epoch")


@scenario("A28", versions=BEAT)
async def what_a_member_does_not_own_needs_no_confirmation(run: Run, version: int) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    reply = await alice.beat(version, topic_partitions=owning(run, keeps), note="owns what it keeps")
    run.expect(told(run, reply) == keeps and alice.epoch == 3, "it is at the target's epoch at once")
    await shown(run, "Reconciling", 3)
    reply = await bob.beat(version, note="gets it")
    run.expect(bool(told(run, reply)), "it is free")
    await shown(run, "Stable", 3)


# In time


async def beats_until_removed(member: NewMember) -> None:
    """Heartbeats that change nothing, out of the transcript, until one is refused."""
    async with asyncio.timeout(EVENTUALLY_S):
        reply = await quiet_beat(member)
        while reply.error_code == ErrorCode.NONE:
            await asyncio.sleep(POLL_S)
            reply = await quiet_beat(member)


@scenario("A29", versions=BEAT)
async def a_member_that_does_not_give_up_in_time_is_removed(run: Run, version: int) -> None:
    """Heartbeats that change nothing give it no more time."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await owes(run, alice, bob)
    async with run.taking(0.8 * REVOCATION_MS / 1000, 4 * REVOCATION_MS / 1000):
        await alice.beat(version, rebalance_timeout_ms=REVOCATION_MS, note="is to give up some")
        await beats_until_removed(alice)
    group = await shown(run, "Assigning", 4)
    run.expect(not has_member(group, alice), "it is no member")
    await alice.beat(version, ErrorCode.UNKNOWN_MEMBER_ID, "too late")
    reply = await bob.beat(version, note="gets all")
    run.expect(told(run, reply) == ALL, "all is free")
    await shown(run, "Stable", 4)


@scenario("A29")
async def a_member_that_gave_up_in_time_is_not_removed(run: Run) -> None:
    """And neither is one that is given another reason later: it has its time again."""
    alice, bob, carol = (NewMember(run, name) for name in ("alice", "bob", "carol"))
    keeps = await owes(run, alice, bob)
    await alice.beat(rebalance_timeout_ms=REVOCATION_MS, note="is to give up some")
    began = time.monotonic()
    await alice.beat(topic_partitions=owning(run, keeps), note="gave it up")
    await bob.beat(note="gets it")
    await carol.beat(note="joins")
    await asyncio.sleep(max(0.0, began + (REVOCATION_MS + 400) / 1000 - time.monotonic()))
    await shown(run, "Reconciling", 4)
    await alice.beat(note="is to give up one more")
    await bob.beat(note="nothing new")
    await shown(run, "Reconciling", 4)
    run.expect(has_member(await look(run), alice), "it has its time again")


@scenario("A31", "A1", versions=BEAT)
async def a_heartbeat_of_the_epoch_before(run: Run, version: int) -> None:
    """An answer that told the new epoch may be lost."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    keeps = await owes(run, alice, bob)
    own: dict[str, Any] = {"topic_partitions": owning(run, keeps)}
    whole = own | {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": [TOPIC]}
    for note in ("gave it up", "once more"):
        alice.epoch = 2
        await alice.beat(version, note=note, **own)
        run.expect(alice.epoch == 3, "it is told the new epoch")
    reply = await alice.beat(version, member_epoch=2, note="whole", **whole)
    run.expect(told(run, reply) == keeps, "it is told what it has")
    reply = await alice.beat(version, member_epoch=2, topic_partitions=[], note="owns less")
    run.expect(reply.error_code == 0, "nothing is part of what it has")
    await alice.beat(version, FENCED, "says nothing", member_epoch=2)
    await alice.beat(version, FENCED, "owns more", member_epoch=2, topic_partitions=owning(run, ALL))
    other = owning(run, {OTHER_TOPIC: [0]})
    await alice.beat(version, FENCED, "owns another", member_epoch=2, topic_partitions=other)
    await alice.beat(version, FENCED, "two before", member_epoch=1, **own)
    await alice.beat(version, FENCED, "above", member_epoch=4, **own)
    await shown(run, "Reconciling", 3)
    await bob.beat(version)
    await bob.beat(version, member_epoch=0, note="joins again")
    await shown(run, "Stable", 3)
