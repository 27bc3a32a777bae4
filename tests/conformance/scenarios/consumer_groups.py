"""Groups of the consumer protocol: the checks of their heartbeat, how they move on, how they are described."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatTopicPartitions
from tests.conformance.actors import OTHER_TOPIC, TOPIC
from tests.conformance.new_members import BEAT, DESCRIBE_CONSUMERS, NewMember, describe_consumers
from tests.conformance.registry import scenario
from tests.conformance.run import Run

INVALID: Final = ErrorCode.INVALID_REQUEST
BLANKS: Final = ("", " \t")


@scenario("9 ConsumerGroupHeartbeat: blank names", versions=BEAT)
async def a_consumer_heartbeat_with_blank_names(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    for blank in BLANKS:
        for epoch in (0, 1, -1, -2):
            error = None if version == 0 and epoch in (0, -2) else INVALID
            where = {"group_id": f"{run.group}{epoch}", "instance_id": "i" if epoch == -2 else None}
            await alice.beat(version, error, f"at {epoch}", member_id=blank, member_epoch=epoch, **where)
            alice.epoch = 0
        await alice.beat(version, INVALID, "no group id", group_id=blank)
        await alice.beat(version, INVALID, "no instance id", instance_id=blank)
        await alice.beat(version, INVALID, "no rack", rack_id=blank)


@scenario("9 ConsumerGroupHeartbeat: what does not fit its epoch", versions=BEAT)
async def a_consumer_heartbeat_that_does_not_fit_its_epoch(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    some = [ConsumerGroupHeartbeatTopicPartitions(topic_id=run.topic_ids[TOPIC], partitions=[0])]
    await alice.beat(version, INVALID, "no timeout", rebalance_timeout_ms=-1)
    await alice.beat(version, INVALID, "partitions null", topic_partitions=None)
    await alice.beat(version, INVALID, "partitions owned", topic_partitions=some)
    await alice.beat(version, INVALID, "no topics", subscribed_topic_names=None)
    await alice.beat(version, INVALID, "no instance", member_epoch=-2)
    await alice.beat(version, INVALID, "an epoch below", member_epoch=-3)
    await alice.beat(version, ErrorCode.UNSUPPORTED_ASSIGNOR, "an assignor", server_assignor="cooperative")
    await alice.beat(version, INVALID, "both wrong", server_assignor="other", rebalance_timeout_ms=-1)
    await run.describe("Dead")


@scenario("9 ConsumerGroupHeartbeat: of nobody", versions=BEAT)
async def a_consumer_heartbeat_of_nobody(run: Run, version: int) -> None:
    alice = NewMember(run, "alice")
    for epoch in (1, -1):
        await alice.beat(version, ErrorCode.GROUP_ID_NOT_FOUND, "no group", member_epoch=epoch)
    await alice.beat(version, ErrorCode.GROUP_ID_NOT_FOUND, "no group", member_epoch=-2, instance_id="i")
    await alice.beat(version)
    bob = NewMember(run, "bob")
    for epoch in (1, -1):
        await bob.beat(version, ErrorCode.UNKNOWN_MEMBER_ID, "not a member", member_epoch=epoch)
    for epoch in (1, -1, -2):
        await bob.beat(version, ErrorCode.UNKNOWN_MEMBER_ID, "unknown", member_epoch=epoch, instance_id="i")
    await alice.beat(version, ErrorCode.FENCED_MEMBER_EPOCH, "above", member_epoch=alice.epoch + 1)
    await alice.beat(version, ErrorCode.FENCED_MEMBER_EPOCH, "below", member_epoch=alice.epoch - 1)
    await alice.beat(version, note="as before")


@scenario("9 ConsumerGroupHeartbeat: static members", "A8", "A12", versions=BEAT)
async def static_members_of_a_consumer_group(run: Run, version: int) -> None:
    alice = NewMember(run, "alice", instance_id="one")
    bob = NewMember(run, "bob", instance_id="one")
    await alice.beat(version)
    await bob.beat(version, ErrorCode.UNRELEASED_INSTANCE_ID, "while alice is there")
    await alice.beat(version, ErrorCode.UNRELEASED_INSTANCE_ID, "itself", member_epoch=0)
    for epoch in (1, -1, -2):
        await bob.beat(version, ErrorCode.FENCED_INSTANCE_ID, "another's", member_epoch=epoch)
    await alice.beat(version, note="for now", member_epoch=-2)
    await describe_consumers(run)
    await bob.beat(version, member_epoch=0, note="in its place")
    await describe_consumers(run)
    await alice.beat(version, ErrorCode.FENCED_INSTANCE_ID, "too late", member_epoch=2)
    await bob.leave(version)
    await describe_consumers(run)


@scenario("9 ConsumerGroupHeartbeat: a full group", "A5", versions=BEAT, on="small")
async def a_full_consumer_group(run: Run, version: int) -> None:
    alice, bob, carol = (NewMember(run, name, instance_id=name) for name in ("alice", "bob", "carol"))
    await alice.beat(version)
    await bob.beat(version)
    await carol.beat(version, ErrorCode.GROUP_MAX_SIZE_REACHED)
    await alice.beat(version, note="for now", member_epoch=-2)
    again = NewMember(run, "again", instance_id="alice")
    await again.beat(version, ErrorCode.GROUP_MAX_SIZE_REACHED, "with another id")
    await alice.beat(version, member_epoch=0, note="with its id")


@scenario("9 ConsumerGroupHeartbeat: from epoch to epoch", "A15", "A19", "A25", "A26", versions=BEAT)
async def a_consumer_group_goes_from_one_epoch_to_the_next(run: Run, version: int) -> None:
    alice, bob = NewMember(run, "alice"), NewMember(run, "bob")
    await alice.beat(version, note="joins")
    await alice.beat(version, note="nothing new")
    await alice.own("has it")
    await bob.beat(version, note="joins")
    await describe_consumers(run)
    await asyncio.sleep(1.1)  # The interval between two targets.
    await alice.beat(version, note="is to give up some")
    await bob.beat(version, note="has to wait")
    await describe_consumers(run)
    await alice.own("gave it up")
    await bob.beat(version, note="gets it")
    await bob.own("has it")
    await describe_consumers(run)
    await alice.beat(version, subscribed_topic_names=[TOPIC, OTHER_TOPIC], note="another topic")
    await describe_consumers(run)
    await bob.leave(version)
    await describe_consumers(run)
    await alice.leave(version)
    await describe_consumers(run)


@scenario("9 ConsumerGroupDescribe: both kinds", versions=DESCRIBE_CONSUMERS)
async def groups_of_both_kinds_are_described(run: Run, version: int) -> None:
    alice = NewMember(run, "alice", instance_id="one")
    await alice.beat(rack_id="r", server_assignor="range")
    await describe_consumers(run, version)
    await describe_consumers(run, version, f"{run.group}-absent", "", run.group)
    await run.describe("Dead")
