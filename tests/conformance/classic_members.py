"""Classic members, in groups of their own and in consumer groups: what their leaders and they themselves send."""

from __future__ import annotations

from typing import Any

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.shared import TopicPartitions
from tests.conformance.actors import TOPIC, Actor
from tests.conformance.run import Run
from tests.conformance.scenes import completing


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
