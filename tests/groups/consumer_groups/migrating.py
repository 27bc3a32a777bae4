"""A group that changes its kind: handlers are called, records replayed, and answers kept, as a shard does it."""

from __future__ import annotations

from typing import Any

from coordinator.effects import CoordinatorRecord, Effects, Moment, RequestContext
from coordinator.groups.classic.group import Group
from coordinator.groups.classic.member import Member, OfferedProtocol
from coordinator.groups.classic.states import STABLE, GroupState
from coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from coordinator.groups.consumer.replay import replay_record
from coordinator.groups.consumer.shard_groups import ConsumerGroups, ConsumerGroupSettings
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.topic_catalog import TopicImage
from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.shared import TopicPartitions
from tests.oracle.heartbeat_histories import TYPES, Topics

TOPIC, TOPIC_ID = "t", b"T" * 16
NOW = Moment(1_000, 500_000)
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]), 1)


def assignment(*partitions: int, topic: str = TOPIC, user_data: bytes | None = None) -> bytes:
    """What a classic leader gives to a member."""
    topics = [TopicPartitions(topic=topic, partitions=list(partitions))]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data), 1)


def classic_member(member_id: str, assigned: bytes = b"", **fields: Any) -> Member:
    """A classic member with a session of 20 s, as a broker keeps it."""
    protocols = fields.pop("protocols", (OfferedProtocol("range", SUBSCRIPTION),))
    return Member(member_id, None, "c", "/h", 8_000, 20_000, protocols, assigned, **fields)


def classic_group(*members: Member, state: GroupState = STABLE, protocol: str | None = "range") -> Group:
    """A classic group in generation 4."""
    group = Group("g", state=state, generation_id=4, protocol_name=protocol, join_deadline_ms=7_000)
    for member in members:
        group.add(member, "consumer")
    return group


def joining(member_id: str = "new", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member of the new protocol."""
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        topic_partitions=[],
        **({"subscribed_topic_names": [TOPIC]} | fields),
    )


def leaving(member_id: str = "new") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=-1)


class World:
    """One shard whose topic has four partitions; `effects` are those of the last call."""

    def __init__(self, classic: Group | None = None, **settings: Any) -> None:
        self.topics = Topics()
        self.topics.by_name[TOPIC] = TopicImage(TOPIC, TOPIC_ID, [(), (), (), ()])
        groups = {} if classic is None else {"g": classic}
        self.shard = ConsumerGroups(ConsumerGroupSettings(**settings), self.topics, groups)
        self.effects = Effects()

    def beat(
        self, request: ConsumerGroupHeartbeatRequest, at: Moment = NOW, *, is_stored: bool = True
    ) -> ConsumerGroupHeartbeatResponse:
        """Answer a heartbeat, and replay what it wrote if that is stored."""
        self.effects = Effects()
        consumer_group_heartbeat(self.shard, request, RequestContext("me", 1, "c", "/h"), at, self.effects)
        if is_stored:
            self.replay()
        reply = self.effects.replies[-1]
        assert reply.reply_to == "me"
        response: ConsumerGroupHeartbeatResponse = reply.response
        return response

    def replay(self) -> None:
        for record in self.effects.records:
            assert isinstance(record, CoordinatorRecord)
            if not isinstance(record.key, GroupMetadataKey):
                replay_record(self.shard.groups, record.key, record.value)

    @property
    def written(self) -> list[str]:
        """The records by type and member: "8 m", "-8 m" for a tombstone."""
        return [
            f"{'-' if record.value is None else ''}{TYPES[type(record.key)]} "
            f"{getattr(record.key, 'member_id', '')}".strip()
            for record in self.effects.records
            if isinstance(record, CoordinatorRecord)
        ]

    @property
    def refused(self) -> list[tuple[Any, int]]:
        """What was answered beside the heartbeat: to which request, and which error."""
        return [(each.reply_to, each.response.error_code) for each in self.effects.replies[:-1]]
