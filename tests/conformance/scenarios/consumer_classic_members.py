"""Classic members of consumer groups: what is refused, how they come to their targets, when they are removed."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.conformance.actors import COMMIT, HEARTBEAT, JOIN, LEAVE, OTHER_TOPIC, SYNC, TOPIC, subscription
from tests.conformance.classic_members import classic, subscribed
from tests.conformance.consumer_scenes import shown, target_at_once, until_shown
from tests.conformance.new_members import NewMember, describe_consumers
from tests.conformance.registry import BOTH, scenario
from tests.conformance.run import Run
from tests.conformance.scenes import cast
from tests.conformance.topic_scenes import make_topic

UNFIT: Final = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
FENCED: Final = ErrorCode.FENCED_INSTANCE_ID
SENT_BACK: Final = ErrorCode.REBALANCE_IN_PROGRESS


@scenario("9 classic members: in a consumer group", versions=JOIN)
async def a_classic_member_joins_a_consumer_group(run: Run, version: int) -> None:
    """It brings an id that nobody gave it, which is taken here."""
    alice = NewMember(run, "alice")
    (carol,) = cast(run, "carol")
    await target_at_once(run)
    await alice.beat()
    carol.member_id = "carol-id"
    await carol.join(version)
    await carol.sync(note="nothing is free yet")
    await carol.heartbeat(note="it waits")
    await alice.beat(note="is to give up some")
    await carol.heartbeat(note="it waits still")
    await alice.own("gave it up")
    await carol.heartbeat(error=ErrorCode.REBALANCE_IN_PROGRESS)
    await carol.join(version)
    await carol.sync(note="has its part")
    await carol.heartbeat()
    await carol.commit(errors=None)
    await describe_consumers(run)
    await carol.heartbeat(error=ErrorCode.ILLEGAL_GENERATION, generation_id=carol.generation_id + 1)
    await carol.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=alice.member_id)
    await carol.leave()
    await carol.heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    await describe_consumers(run)


@scenario("9 classic members: refused", versions=JOIN)
async def a_classic_join_that_does_not_fit_a_consumer_group(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    (carol,) = cast(run, "carol")
    await target_at_once(run)
    await alice.beat()
    carol.member_id = "carol-id"
    unfit = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await carol.join(version, unfit, "another type", protocol_type="connect")
    await carol.join(version, unfit, "no protocol", protocols=[])
    await carol.join(version, ErrorCode.INVALID_SESSION_TIMEOUT, "too short", session_timeout_ms=1)
    await carol.join(version)
    (dave,) = cast(run, "dave")
    dave.member_id = "dave-id"
    dave.protocols = [("roundrobin", subscription(TOPIC))]
    await dave.join(version, unfit, "none in common")
    await describe_consumers(run)


@scenario("A5", on="small")
async def a_classic_member_does_not_fit_into_a_full_group(run: Run) -> None:
    """That is looked at before its protocols, and before its instance, which nobody has."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    carol = classic(run, "carol", instance_id="none")
    await target_at_once(run)
    await alice.beat()
    await bob.beat()
    await carol.join(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    await carol.join(error=ErrorCode.GROUP_MAX_SIZE_REACHED, protocol_type="connect")
    await bob.leave()
    await carol.join(error=UNFIT, protocol_type="connect")
    await carol.join(error=UNKNOWN)
    await carol.join(member_id="")
    await bob.beat(member_epoch=0, error=ErrorCode.GROUP_MAX_SIZE_REACHED)


@scenario("9 classic members: static", versions=JOIN[5:])
async def a_static_classic_member_of_a_consumer_group(run: Run, version: int) -> None:
    """Its instance decides on it, unless it comes without a member id: then it is another's successor."""
    alice, carol = NewMember(run, "alice", instance_id="one"), classic(run, "carol", instance_id="two")
    await target_at_once(run)
    await alice.beat()
    await carol.join(version, UNKNOWN, "nobody has that instance")
    await carol.join(version, FENCED, "another has it", group_instance_id="one")
    carol.member_id = ""
    await carol.join(version)
    await carol.sync()
    old_id = carol.member_id
    await shown(run)
    await carol.join(version, member_id="", note="comes back")
    run.expect(carol.member_id != old_id, "it has a new id")
    await carol.join(version, FENCED, "the one before", member_id=old_id)
    await carol.heartbeat(error=FENCED, member_id=old_id)
    await carol.sync(error=FENCED, member_id=old_id)
    await carol.leave_with(FENCED, members=[MemberIdentity(member_id=old_id, group_instance_id="two")])
    await shown(run)


@scenario("9 classic members: SyncGroup and Heartbeat refused", versions=SYNC)
async def what_does_not_fit_a_classic_member_of_a_consumer_group(run: Run, version: int) -> None:
    """Each request is wrong in all that is looked at later, too."""
    beats = min(version, HEARTBEAT[-1])
    alice, carol = NewMember(run, "alice"), classic(run, "carol")
    await target_at_once(run)
    await carol.sync(version, error=UNKNOWN, note="no group")
    await alice.beat()
    await carol.join()
    bad: dict[str, Any] = {"generation_id": 9}
    if version >= 5:
        bad["protocol_name"] = "other"
    await carol.sync(version, error=UNKNOWN, note="not a member", member_id="nobody", **bad)
    await carol.heartbeat(beats, error=UNKNOWN, note="not a member", member_id="nobody", generation_id=9)
    if version >= 3:
        await carol.sync(version, error=UNKNOWN, note="not an instance", group_instance_id="none", **bad)
        await carol.heartbeat(beats, UNKNOWN, "not an instance", group_instance_id="none", generation_id=9)
    await carol.sync(version, error=UNKNOWN, note="of the new protocol", member_id=alice.member_id, **bad)
    await carol.heartbeat(beats, UNKNOWN, "of the new protocol", member_id=alice.member_id, generation_id=9)
    await carol.sync(version, error=ErrorCode.ILLEGAL_GENERATION, **bad)
    await carol.heartbeat(beats, ErrorCode.ILLEGAL_GENERATION, generation_id=9)
    await alice.beat(subscribed_topic_names=[TOPIC, OTHER_TOPIC], note="there is a new target")
    if version >= 5:
        await carol.sync(version, error=UNFIT, note="another type", protocol_type="connect")
        await carol.sync(version, error=UNFIT, note="another protocol", protocol_name="other")
        await carol.sync(version, error=UNFIT, note="neither named", protocol_type=None, protocol_name=None)
    await carol.sync(version, error=SENT_BACK)
    await carol.heartbeat(beats, SENT_BACK)


@scenario("9 classic members: LeaveGroup", versions=LEAVE)
async def classic_members_leave_a_consumer_group(run: Run, version: int) -> None:
    """All of one request in one epoch, and members of the new protocol as well."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob", instance_id="one")
    carol, dave = classic(run, "carol"), classic(run, "dave")
    await target_at_once(run)
    await alice.beat()
    await bob.beat()
    await carol.join()
    await dave.join()
    await carol.leave_with(UNKNOWN, version, "not a member", **_leaving(version, "nobody"))
    if version >= 3:
        several = [
            MemberIdentity(member_id="nobody", group_instance_id="one"),
            MemberIdentity(member_id="", group_instance_id="none"),
            MemberIdentity(member_id="", group_instance_id="one"),
            MemberIdentity(member_id=dave.member_id),
            MemberIdentity(member_id=dave.member_id),
        ]
        errors = [FENCED, UNKNOWN, 0, 0, 0]
        await carol.leave(version, members=several, errors=errors)
    await shown(run)
    await carol.leave(version)
    await shown(run)


def _leaving(version: int, member_id: str) -> dict[str, object]:
    return {"member_id": member_id} if version < 3 else {"members": [MemberIdentity(member_id=member_id)]}


@scenario("A58", versions=JOIN)
async def a_classic_join_is_a_step_like_a_heartbeat(run: Run, version: int) -> None:
    """What its first protocol says is what it subscribes to and has; the answer has its epoch, and no leader."""
    await target_at_once(run)
    topic = await make_topic(run, partitions=6)
    alice, carol = NewMember(run, "alice", (topic,)), classic(run, "carol")
    first = subscribed(topic, version=3, rack_id="r")
    carol.protocols = [("cooperative-sticky", first), ("range", subscribed(OTHER_TOPIC))]
    await carol.join(version, UNKNOWN if version == 0 else None, "no group")
    await alice.beat()
    reply = await carol.join(version)
    run.expect((reply.leader, reply.members) == ("", []), "there is no leader")
    await carol.sync(note="nothing is free yet")
    await shown(run)
    await alice.beat(note="is to give up some")
    await alice.own("has given it up")
    await carol.join(version)
    await carol.sync(note="has its part")
    await shown(run)
    bob = NewMember(run, "bob", (topic,))
    await bob.beat(note="joins")
    has = {topic: [3, 4, 5]}
    carol.protocols[0] = ("cooperative-sticky", subscribed(topic, owned=has))
    await carol.join(version, note="has all of it still")
    await carol.sync(note="is to give up one")
    await shown(run)
    carol.protocols[0] = ("cooperative-sticky", subscribed(topic, owned=has, version=0))
    await carol.join(version, note="cannot say what it has")
    await carol.sync(note="in the version of the subscription")
    await shown(run)
    carol.protocols[0] = ("cooperative-sticky", subscribed(OTHER_TOPIC))
    await carol.join(version, note="other topics")
    await shown(run)


@scenario("A60")
async def a_classic_member_is_told_when_to_join_again(run: Run) -> None:
    await target_at_once(run)
    topic = await make_topic(run, partitions=6)
    alice, bob, carol = (
        NewMember(run, "alice", (topic,)),
        NewMember(run, "bob", (topic,)),
        classic(run, "carol"),
    )
    carol.protocols = [("range", subscribed(topic, version=0))]
    await alice.beat()
    await carol.join()
    await carol.sync()
    await carol.heartbeat(note="what it waits for is not free")
    await alice.beat(note="is to give up some")
    await carol.heartbeat(note="nor now")
    await alice.own("has given it up")
    await carol.heartbeat(error=SENT_BACK, note="it is free")
    await carol.join()
    await carol.sync()
    await carol.heartbeat(note="it has all")
    await bob.beat(note="joins")
    await carol.heartbeat(error=SENT_BACK, note="there is a newer target")
    carol.protocols = [("range", subscribed(topic, owned={topic: [3, 4, 5]}))]
    await carol.join(note="has it still")
    await carol.heartbeat(error=SENT_BACK, note="it has something to give up")
    await carol.sync(note="what it keeps")
    await carol.heartbeat(error=SENT_BACK, note="it has something to give up")
    await shown(run)
    carol.protocols = [("range", subscribed(topic, owned={topic: [3, 4]}))]
    await carol.join(note="has given it up")
    await carol.sync()
    await carol.heartbeat()
    await shown(run)


@scenario("A59")
async def a_classic_member_that_does_not_sync_is_removed(run: Run) -> None:
    """Its rebalance timeout is 3 s, in which heartbeats do not help; the others go on at once."""
    alice, carol = NewMember(run, "alice"), classic(run, "carol", rebalance_timeout_ms=3_000)
    await target_at_once(run)
    await alice.beat()
    async with run.taking(2.5, 10.0):
        await carol.join(note="waits for nobody")
        await asyncio.sleep(1.0)
        await carol.heartbeat(note="has not synced")
        await until_shown(run, lambda group: len(group.members) == 1)
    await carol.heartbeat(error=UNKNOWN)


@scenario("A59")
async def a_classic_member_that_does_not_join_again_is_removed(run: Run) -> None:
    """From the first 27 on it has its rebalance timeout of 4 s, which a second does not begin anew."""
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    carol = classic(run, "carol", rebalance_timeout_ms=4_000)
    await target_at_once(run)
    await alice.beat()
    await carol.join()
    await carol.sync()
    await bob.beat(note="joins")
    await asyncio.sleep(4.5)
    await carol.heartbeat(error=SENT_BACK, note="it does not run before")
    begun = time.monotonic()
    await asyncio.sleep(2.2)
    await carol.heartbeat(error=SENT_BACK)
    await until_shown(run, lambda group: len(group.members) == 2)
    run.expect(3.5 <= time.monotonic() - begun <= 6.0, "it has run once")
    await carol.heartbeat(error=UNKNOWN)


@scenario("A59")
async def a_classic_session_in_a_consumer_group_ends(run: Run) -> None:
    """It begins with the answers to JoinGroup, SyncGroup and Heartbeat."""
    alice, carol = NewMember(run, "alice"), classic(run, "carol", session_timeout_ms=4_000)
    await target_at_once(run)
    await alice.beat()
    await carol.join()
    for verb in (carol.sync, carol.heartbeat):
        await asyncio.sleep(2.3)
        await verb()
    async with run.taking(3.0, 10.0):
        await until_shown(run, lambda group: len(group.members) == 1)
    await carol.heartbeat(error=UNKNOWN)


@scenario("A61", "A66", versions=COMMIT)
async def a_classic_member_of_a_consumer_group_commits(run: Run, version: int) -> None:
    await target_at_once(run)
    alice, carol = NewMember(run, "alice"), classic(run, "carol")
    await alice.beat()
    await carol.join()
    await carol.sync()
    await carol.commit(version, note="what it does not have, too")
    await carol.commit(
        version, errors=ErrorCode.ILLEGAL_GENERATION, note="newer", generation_id_or_member_epoch=9
    )
    await carol.commit(
        version, errors=ErrorCode.ILLEGAL_GENERATION, note="older", generation_id_or_member_epoch=1
    )
    await carol.commit(version, errors=UNKNOWN, member_id="nobody")
    await carol.fetch()


@scenario("A58", "A50", on="restarted", restarts=BOTH)
async def classic_members_of_a_consumer_group_are_kept(run: Run) -> None:
    """What they offer stands in record 5, and what they have to give up or wait for in record 8."""
    await target_at_once(run)
    alice, carol = NewMember(run, "alice"), classic(run, "carol", instance_id="two")
    carol.member_id = ""
    await alice.beat()
    await carol.join()
    await carol.sync()
    await alice.beat(note="is to give up some")
    await shown(run)
    await run.restarted()
    await shown(run)
    dave = classic(run, "dave")
    dave.protocols = [("roundrobin", subscribed(TOPIC))]
    await dave.join(error=UNFIT, note="none in common")
    await carol.sync()
    await carol.heartbeat(error=None)
    await alice.own("has given it up")
    await carol.heartbeat(error=SENT_BACK)
    await carol.join()
    await carol.sync()
    await shown(run)
