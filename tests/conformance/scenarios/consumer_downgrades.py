"""Consumer groups that become classic ones as the last member of the new protocol goes, and those that do not."""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import TOPIC, Actor
from tests.conformance.classic_members import assigned, classic, subscribed
from tests.conformance.consumer_scenes import keep_target, shown, target_at_once
from tests.conformance.group_log import GroupLog
from tests.conformance.new_members import REBALANCE_MS, NewMember, describe_consumers
from tests.conformance.registry import BOTH, Ending, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast, stable
from tests.conformance.topic_scenes import make_topic

SENT_BACK: Final = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID

GOES: Final = (
    "leaves",
    "by-LeaveGroup",
    "by-LeaveGroup-with-another",
    "static-for-good",
    "too-slow",
    "static-for-now",
)
"""How the last member of the new protocol goes; the last of these ways is none."""


async def _goes(run: Run, how: str, new: NewMember, carol: Actor, dave: Actor) -> None:
    if how == "by-LeaveGroup":
        await dave.leave(members=[MemberIdentity(member_id=new.member_id)])
    elif how == "by-LeaveGroup-with-another":
        both = [MemberIdentity(member_id=each) for each in (dave.member_id, "nobody", new.member_id)]
        await dave.leave(members=both)
    elif how == "static-for-now":
        await new.leave(member_epoch=-2)
    elif how == "too-slow":
        await carol.heartbeat(error=None, note="meanwhile")
        await run.until("PreparingRebalance", 2)
    else:
        await new.leave()


@scenario("A62", "A63", choices=GOES)
async def the_last_member_of_the_new_protocol_goes(run: Run, how: str) -> None:
    """It has 2 s to give up what it is to, after which it is removed. Its group is a classic one at once."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=3)
    new = NewMember(run, "new", (topic,), instance_id="one" if "static" in how else None)
    await new.beat(rebalance_timeout_ms=2_000 if how == "too-slow" else REBALANCE_MS)
    carol, dave = (classic(run, name, subscribed(topic)) for name in ("carol", "dave"))
    await carol.join()
    await carol.sync()
    await dave.join()
    await dave.sync()
    await new.beat(note="is to give up some")
    await shown(run)
    await _goes(run, how, new, carol, dave)
    await run.describe("Dead" if how == "static-for-now" else "PreparingRebalance")
    await shown(run)
    await carol.heartbeat(error=None)
    await carol.heartbeat(error=None, generation_id=3, note="of the epoch")
    await carol.heartbeat(error=None, generation_id=4, note="of the epoch")


@scenario("A63")
async def a_downgraded_group_waits_for_the_longest_rebalance_timeout(run: Run) -> None:
    """Its members stand as in the group's table: the first of them leads, if it joins again."""
    await target_at_once(run)
    new = NewMember(run, "new")
    await new.beat()
    carol = classic(run, "carol", rebalance_timeout_ms=3_000)
    dave = classic(run, "dave", rebalance_timeout_ms=5_000)
    for member in (carol, dave):
        await member.join()
    await new.leave()
    async with run.taking(4.0, 10.0):
        await carol.join()
    await run.describe("CompletingRebalance")
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0)})
    await dave.heartbeat(error=UNKNOWN)


@scenario("A63")
async def sessions_begin_with_a_downgrade(run: Run) -> None:
    await target_at_once(run)
    new = NewMember(run, "new")
    await new.beat()
    carol, dave = classic(run, "carol"), classic(run, "dave", session_timeout_ms=1_500)
    for member in (carol, dave):
        await member.join()
    await new.leave()
    await run.describe("PreparingRebalance")
    async with run.taking(0.8, 4.0):
        await run.until("PreparingRebalance", 1)
    await carol.heartbeat(error=None, generation_id=4)


@scenario("A62", "A63", choices=("settled", "not-settled", "other-topics"))
async def a_static_member_comes_back_as_a_classic_one(run: Run, how: str) -> None:
    """It takes over what the last member of the new protocol had; where that is settled nothing is rebalanced."""
    await (keep_target if how == "not-settled" else target_at_once)(run)
    topic, other = [await make_topic(run, letter, 4) for letter in "ab"]
    new = NewMember(run, "new", (topic,), instance_id="one")
    await new.beat()
    carol = classic(run, "carol", subscribed(topic))
    await carol.join()
    await carol.sync(error=None)
    await new.beat(note="is to give up some")
    await new.own("has given it up")
    await shown(run)
    back = classic(run, "back", subscribed(other if how == "other-topics" else topic), instance_id="one")
    back.member_id = ""
    await back.join()
    await run.describe("Stable" if how == "settled" else "PreparingRebalance")
    if how == "settled":
        await back.sync(note="its target")
        await back.heartbeat()
    await carol.heartbeat(error=None)
    await new.beat(error=ErrorCode.GROUP_ID_NOT_FOUND, note="too late")


@scenario("A62", on="small")
async def a_group_that_may_not_be_downgraded_stays_what_it_is(run: Run) -> None:
    """The policy is upgrade: a consumer group of classic members goes on."""
    new, carol = NewMember(run, "new"), classic(run, "carol")
    await target_at_once(run)
    await new.beat()
    await carol.join()
    await new.leave()
    await shown(run)
    await carol.heartbeat(error=None)
    await carol.join()
    await carol.sync()
    await shown(run)


@scenario("A62", on="restarted", restarts=(Ending.KILL,))
async def a_group_is_downgraded_once_it_is_small_enough(run: Run) -> None:
    """Three members may a classic group have afterwards: as the fourth goes, which is a classic one, it is one."""
    await target_at_once(run)
    new = NewMember(run, "new")
    await new.beat()
    members = [classic(run, name) for name in ("carol", "dave", "erin", "fred")]
    for member in members:
        await member.join()
    await run.restarted()
    await new.leave()
    await shown(run)
    await members[3].leave()
    await run.describe("PreparingRebalance")
    await shown(run)


@scenario("A63", on="restarted", restarts=BOTH)
async def a_downgraded_group_is_kept(run: Run) -> None:
    """The consumer group is gone with its records; what it had as targets are the classic assignments."""
    await target_at_once(run)
    new = NewMember(run, "new", instance_id="one")
    await new.beat()
    carol = classic(run, "carol", subscribed(TOPIC, version=0))
    await carol.join()
    await carol.sync()
    await new.beat(note="is to give up some")
    await new.own("has given it up")
    back = classic(run, "back", subscribed(TOPIC, version=3), instance_id="one")
    back.member_id = ""
    await back.join()
    await run.describe("Stable")
    await run.restarted()
    await run.describe("Stable")
    await shown(run)
    await back.heartbeat()
    await back.sync()
    await carol.heartbeat(generation_id=back.generation_id)
    await carol.sync(generation_id=back.generation_id)


@scenario("A64")
async def a_classic_join_without_an_id_takes_an_empty_group(run: Run) -> None:
    new, (carol,) = NewMember(run, "new"), cast(run, "carol")
    await new.beat()
    await new.leave()
    await shown(run)
    await carol.join(error=ErrorCode.INVALID_SESSION_TIMEOUT, session_timeout_ms=1, note="refused")
    await shown(run)
    log = await GroupLog.of(run)
    await carol.join(3)
    await run.describe("CompletingRebalance")
    await log.written("the place is taken")
    await shown(run)
    await carol.sync(assignments={carol.member_id: assigned(TOPIC, 0, 1, 2)})
    await new.beat(member_epoch=0, note="upgrades")
    await shown(run)


@scenario("A64")
async def a_classic_join_with_an_id_finds_no_member_in_an_empty_group(run: Run) -> None:
    """The group is there as before; Kafka has forgotten it, without a record, until it reads its log again."""
    new, (carol,) = NewMember(run, "new"), cast(run, "carol")
    await new.beat()
    await new.leave()
    await shown(run)
    log = await GroupLog.of(run)
    await carol.join(error=UNKNOWN, member_id="carol-id")
    await log.written("nothing")  # What Kafka has forgotten it shows until something else is written there.
    await shown(run)


@scenario("A64", on="restarted", restarts=BOTH)
async def what_became_of_empty_groups_is_kept(run: Run) -> None:
    """One gave way to a classic group, the other was asked for a member that it does not have."""
    new, (carol, dave) = NewMember(run, "new"), cast(run, "carol", "dave")
    await new.beat()
    await new.leave()
    await stable(run, carol)
    other = f"{run.group}-other"
    await new.beat(group_id=other, member_epoch=0)
    await new.leave(group_id=other)
    await dave.join(error=UNKNOWN, group_id=other, member_id="dave-id")
    await run.restarted()
    await run.describe("Stable")
    await shown(run)
    await describe_consumers(run, 1, other)
    await carol.heartbeat()
