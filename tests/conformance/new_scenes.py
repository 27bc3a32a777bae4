"""Consumer groups as scenarios need them: at once with their targets, and described once they have come so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.conformance.new_members import DESCRIBE_CONSUMERS, NewMember, describe_consumers
from tests.conformance.run import Run
from tests.conformance.scenarios.configs import GROUP, SET, incremental, until_shown
from tests.conformance.topic_scenes import eventually, quietly

INTERVAL = "consumer.assignment.interval.ms"


async def target_at_once(run: Run) -> None:
    """Let the run's group have a new target with each new epoch. To be called before topics are made.

    A topic that shows up says that the setting is in force.
    """
    made = await quietly(run, incremental(GROUP, run.group, (INTERVAL, SET, "0")), 1)
    assert made.responses[0].error_code == 0, made.responses[0].error_message
    await until_shown(run, run.group, INTERVAL, "0", GROUP)


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


async def settle(*members: NewMember) -> None:
    """Let members beat, in turn, until each has its target, and say so."""
    for _ in range(8):
        before = [(each.epoch, dict(each.owned)) for each in members]
        for each in members:
            await each.own("settles")
        if before == [(each.epoch, dict(each.owned)) for each in members]:
            return
    raise AssertionError("not settled after eight rounds")
