"""Groups of the consumer protocol: settings of one group, heartbeats out of the transcript, what is described.

What happens aside takes its time, so a group is described once it has come so far.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from protocol.messages.incremental_alter_configs import IncrementalAlterableConfig as Operation
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.conformance.actors import OTHER_TOPIC, TOPIC, Actor
from tests.conformance.new_members import DESCRIBE_CONSUMERS, NEWEST, NewMember, describe_consumers
from tests.conformance.run import OBSERVER, Run
from tests.conformance.topic_scenes import EVENTUALLY_S, POLL_S, eventually, quietly

EXPRESSION: Final = f"{TOPIC[:-1]}."
"""What matches the one topic, and none that a scenario makes."""
GROUP: Final = 32
INTERVAL_MAX_MS: Final = 15_000
"""The longest interval between two targets that there is: no scenario waits for it."""
PROBE_MS: Final = 5_001

Owned = Mapping[str, Sequence[int]]
"""Partitions by the name of their topic."""


async def target_at_once(run: Run, group: str | None = None) -> None:
    """Let the run's group, or another, have a new target with each new epoch."""
    await configure(run, group, assignment_interval_ms=0)


async def keep_target(run: Run) -> None:
    """Let the run's group keep the target that it has, or its first one, for longer than any script takes."""
    await configure(run, assignment_interval_ms=INTERVAL_MAX_MS)


async def configure(run: Run, group: str | None = None, **settings: int) -> None:
    """Set `consumer.*` of the run's group, or of another, written with '_' for '.'.

    Returns when the coordinator goes by it. It follows a change only after that was answered and is described:
    a group of its own, changed later, shows when.
    """
    group_id = run.group if group is None else group
    probe, told_ms = f"probe of {group_id}", PROBE_MS + run.asked
    await _set(run, group_id, settings)
    await _set(run, probe, {"heartbeat_interval_ms": told_ms})
    join = ConsumerGroupHeartbeatRequest(
        group_id=probe,
        member_id="probe",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[],
        topic_partitions=[],
    )
    await eventually(run, join, NEWEST, lambda reply: bool(reply.heartbeat_interval_ms == told_ms))
    leave = ConsumerGroupHeartbeatRequest(group_id=probe, member_id="probe", member_epoch=-1)
    await quietly(run, leave, NEWEST)


async def _set(run: Run, group_id: str, settings: Mapping[str, int]) -> None:
    configs = [
        Operation(name=f"consumer.{name.replace('_', '.')}", config_operation=0, value=str(value))
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsResource(resource_type=GROUP, resource_name=group_id, configs=configs)
    reply = await quietly(run, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert not reply.responses[0].error_code, reply.responses[0].error_message


def know_topics(run: Run) -> None:
    """Let the comparison name both topics before it sees them in a list of which it does not know the order."""
    both = [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=run.topic_ids[name]) for name in (TOPIC, OTHER_TOPIC)
    ]
    run.saw("the topics", both)


def owning(run: Run, owned: Owned) -> list[ConsumerGroupHeartbeatTopicPartitions]:
    """What a member reports to own."""
    return [
        ConsumerGroupHeartbeatTopicPartitions(topic_id=run.topic_ids[topic], partitions=list(partitions))
        for topic, partitions in owned.items()
    ]


def told(run: Run, reply: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in an answer, if there is one."""
    if reply.assignment is None:
        return None
    names = {topic_id: name for name, topic_id in run.topic_ids.items()}
    topics = {names[each.topic_id]: sorted(each.partitions) for each in reply.assignment.topic_partitions}
    return dict(sorted(topics.items()))


async def quiet_beat(member: NewMember, **changed: Any) -> ConsumerGroupHeartbeatResponse:
    """A heartbeat with nothing new, out of the transcript: how many of them there are depends on the clock."""
    given: dict[str, Any] = {
        "group_id": member.run.group,
        "member_id": member.member_id,
        "member_epoch": member.epoch,
        "instance_id": member.instance_id,
    }
    connection = await member.run.free_connection(member.name)
    reply: ConsumerGroupHeartbeatResponse = await connection.send(
        ConsumerGroupHeartbeatRequest(**(given | changed)), NEWEST
    )
    if reply.error_code == ErrorCode.NONE:
        member.epoch = reply.member_epoch
    return reply


async def shown(run: Run, state: str | None = None, epoch: int | None = None) -> ConsumerGroupDescribeGroup:
    """Enter the group into the transcript; state and epoch are checked where they are given."""
    (group,) = (await describe_consumers(run)).groups
    assert isinstance(group, ConsumerGroupDescribeGroup)
    run.expect(state in (None, group.group_state), f"the group should be {state}, is {group.group_state}")
    run.expect(epoch in (None, group.group_epoch), f"its epoch should be {epoch}, is {group.group_epoch}")
    return group


async def look(run: Run) -> ConsumerGroupDescribeGroup:
    """The group as described, kept out of the transcript."""
    connection = await run.free_connection(OBSERVER)
    request = ConsumerGroupDescribeRequest(group_ids=[run.group])
    (group,) = (await connection.send(request, DESCRIBE_CONSUMERS[-1])).groups
    assert isinstance(group, ConsumerGroupDescribeGroup)
    return group


async def until(run: Run, holds: Callable[[ConsumerGroupDescribeGroup], bool], *beating: NewMember) -> None:
    """Wait until the group is as it should be, with heartbeats of `beating` meanwhile."""
    deadline = time.monotonic() + EVENTUALLY_S
    while not holds(group := await look(run)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the group never was so: {group}")
        for member in beating:
            await quiet_beat(member)
        await asyncio.sleep(POLL_S)


async def until_shown(
    run: Run, holds: Callable[[ConsumerGroupDescribeGroup], bool], *beating: NewMember
) -> ConsumerGroupDescribeGroup:
    """Wait until the group is as it should be, as `until` does, and enter it into the transcript then."""
    await until(run, holds, *beating)
    return await shown(run)


async def until_epoch(run: Run, group_epoch: int) -> ConsumerGroupDescribeGroup:
    """Enter the group into the transcript once it is at this epoch."""
    return await until_shown(run, lambda group: group.group_epoch >= group_epoch)


async def beat_until(run: Run, member: NewMember, group_epoch: int) -> ConsumerGroupDescribeGroup:
    """Enter the group into the transcript once heartbeats of `member` brought it to this epoch, with a target.

    For changes of topics: of these the coordinator learns a moment after clients do.
    """
    await quiet_beat(member)
    return await until_shown(
        run, lambda group: min(group.group_epoch, group.assignment_epoch) >= group_epoch, member
    )


async def settle(*members: NewMember) -> None:
    """Let members beat, in turn, until each has its target, and say so."""
    for _ in range(8):
        before = [(each.epoch, dict(each.owned)) for each in members]
        for each in members:
            await each.own("settles")
        if before == [(each.epoch, dict(each.owned)) for each in members]:
            return
    raise AssertionError("not settled after eight rounds")


def member_of(group: ConsumerGroupDescribeGroup, member: NewMember) -> ConsumerGroupDescribeMember:
    """A member as described; KeyError if it is none."""
    return {each.member_id: each for each in group.members}[member.member_id]


def has_member(group: ConsumerGroupDescribeGroup, member: NewMember) -> bool:
    return any(each.member_id == member.member_id for each in group.members)


def partitions_of(assignment: ConsumerGroupDescribeAssignment) -> dict[str, list[int]]:
    """An assignment as described, by the names of topics."""
    topics = {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}
    return dict(sorted(topics.items()))


async def alone(run: Run, alice: NewMember) -> None:
    """Alice has joined, has her partitions and says so; each later target is computed at once."""
    await target_at_once(run)
    await alice.beat(note="joins")
    await alice.own("has it")


async def owes(run: Run, alice: NewMember, bob: NewMember) -> dict[str, list[int]]:
    """Bob joins alice, who has all partitions and is to give up some for him; return what she keeps."""
    await alone(run, alice)
    await bob.beat(note="joins")
    return partitions_of(member_of(await look(run), alice).target_assignment)


async def commit_at(member: NewMember, epoch: int, partition: int, error: int) -> None:
    """Commit as `member` in `epoch`: for a partition that it was assigned in a later one that is too old (113)."""
    await Actor(member.run, member.name).commit(
        9,
        {(TOPIC, partition): 1},
        error,
        f"{partition} in epoch {epoch}",
        member_id=member.member_id,
        generation_id_or_member_epoch=epoch,
    )
