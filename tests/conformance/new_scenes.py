"""Consumer groups as scenarios need them: at once with their targets, and described once they have come so far."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.shared import TopicPartitions
from tests.conformance.actors import TOPIC, Actor
from tests.conformance.new_members import DESCRIBE_CONSUMERS, NEWEST, NewMember, describe_consumers
from tests.conformance.run import Run
from tests.conformance.scenarios.configs import GROUP, SET, incremental, until_shown
from tests.conformance.scenes import completing
from tests.conformance.topic_scenes import EVENTUALLY_S, POLL_S, eventually, quietly

INTERVAL = "consumer.assignment.interval.ms"


async def target_at_once(run: Run, group: str | None = None) -> None:
    """Let the run's group, or another, have a new target with each new epoch. To be called before topics are made.

    A topic that shows up says that the setting is in force.
    """
    await _set_interval(run, run.group if group is None else group, "0")


async def target_once(run: Run) -> None:
    """Let the run's group keep its first target for longer than any script takes. To be called as the other."""
    await _set_interval(run, run.group, "15000")


async def _set_interval(run: Run, group: str, interval_ms: str) -> None:
    made = await quietly(run, incremental(GROUP, group, (INTERVAL, SET, interval_ms)), 1)
    assert made.responses[0].error_code == 0, made.responses[0].error_message
    await until_shown(run, group, INTERVAL, interval_ms, GROUP)


async def until_consumers(run: Run, holds: Callable[[Any], bool]) -> Any:
    """Describe the run's group once `holds` is true of it: what happens aside takes its time."""
    request = ConsumerGroupDescribeRequest(group_ids=[run.group])
    await eventually(run, request, DESCRIBE_CONSUMERS[-1], lambda reply: holds(reply.groups[0]))
    return await described(run)


async def until_epoch(run: Run, group_epoch: int) -> Any:
    """Describe the run's group once it is at this epoch."""
    return await until_consumers(run, lambda group: group.group_epoch >= group_epoch)


async def described(run: Run) -> Any:
    """The run's group as ConsumerGroupDescribe has it, which goes into the transcript."""
    return (await describe_consumers(run)).groups[0]


async def beat_until(run: Run, member: NewMember, group_epoch: int) -> Any:
    """Describe the run's group once heartbeats of `member` have brought it to this epoch, with a target.

    For changes of topics: of these the coordinator learns a moment after clients do.
    """
    beat = ConsumerGroupHeartbeatRequest(
        group_id=run.group,
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
    )
    request = ConsumerGroupDescribeRequest(group_ids=[run.group])
    deadline = time.monotonic() + EVENTUALLY_S
    while time.monotonic() < deadline:
        beat.member_epoch = (await quietly(run, beat, NEWEST)).member_epoch
        (group,) = (await quietly(run, request, DESCRIBE_CONSUMERS[-1])).groups
        if min(group.group_epoch, group.assignment_epoch) >= group_epoch:
            member.epoch = beat.member_epoch
            return await described(run)
        await asyncio.sleep(POLL_S)
    raise TimeoutError(f"{run.group} did not come to epoch {group_epoch}")


async def settle(*members: NewMember) -> None:
    """Let members beat, in turn, until each has its target, and say so."""
    for _ in range(8):
        before = [(each.epoch, dict(each.owned)) for each in members]
        for each in members:
            await each.own("settles")
        if before == [(each.epoch, dict(each.owned)) for each in members]:
            return
    raise AssertionError("not settled after eight rounds")


# Classic members, in groups of their own and among others.


def assigned(
    topic: str, *partitions: int, others: dict[str, list[int]] | None = None, user_data: bytes | None = None
) -> bytes:
    """The bytes that a classic leader gives to a member."""
    every = {topic: list(partitions)} | (others or {})
    topics = [TopicPartitions(topic=name, partitions=each) for name, each in every.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data))


def subscribed(
    *topics: str, owned: dict[str, list[int]] | None = None, version: int = 1, **fields: Any
) -> bytes:
    """The metadata of a classic member that reads `topics` and has `owned`."""
    partitions = [TopicPartitions(topic=topic, partitions=each) for topic, each in (owned or {}).items()]
    subscription = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions, **fields)
    return encode_subscription(subscription, version)


async def classic_group(run: Run, assignments: dict[str, bytes], **fields: Any) -> list[Actor]:
    """Members of a classic group, by name, the first of which has led and assigned these bytes; it is Stable."""
    members = [Actor(run, name, **fields) for name in assignments]
    await completing(run, *members)
    syncs = [await member.send_sync() for member in members[1:]]
    by_id = {member.member_id: assignments[member.name] for member in members}
    await members[0].sync(assignments=by_id)
    for asked in syncs:
        await run.answer(asked, ErrorCode.NONE)
    return members


def classic(run: Run, name: str, metadata: bytes | None = None, **fields: Any) -> Actor:
    """A classic client that comes to a consumer group with an id of its own, which is taken there."""
    protocols = [("range", subscribed(TOPIC) if metadata is None else metadata)]
    return Actor(run, name, **({"member_id": f"{name}-id", "protocols": protocols} | fields))
