"""A member of the consumer protocol (KIP-848) that speaks it by hand and remembers what it was answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tests.conformance.actors import TOPIC
from tests.conformance.run import Run

BEAT: Final = range(2)
DESCRIBE_CONSUMERS: Final = range(2)
NEWEST: Final = BEAT[-1]
REBALANCE_MS: Final = 300_000
"""What a member has to give partitions up: longer than a slow machine has it wait for a restart."""
GROUP_VERSION: Final = "group.version"
"""The feature; also the word of those that are played in turn where a scenario switches it off."""


@dataclass
class NewMember:
    """One member; its id is its own, so that nothing of it has to be renamed."""

    run: Run
    name: str
    topics: tuple[str, ...] = (TOPIC,)
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.member_id = self.member_id or f"{self.name}-id"

    async def beat(
        self, version: int = NEWEST, error: int | None = ErrorCode.NONE, note: str = "", **changed: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, which says all of the member where it joins; keep epoch and partitions."""
        given: dict[str, Any] = {
            "group_id": self.run.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if changed.get("member_epoch", self.epoch) == 0:
            given |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": list(self.topics),
                "topic_partitions": [],
            }
        asked = await self.run.send(
            self.name, ConsumerGroupHeartbeatRequest(**(given | changed)), version, note
        )
        reply: ConsumerGroupHeartbeatResponse = await self.run.answer(asked, error)
        if isinstance(reply, ConsumerGroupHeartbeatResponse) and reply.error_code == ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = {each.topic_id: each.partitions for each in reply.assignment.topic_partitions}
        return reply

    async def own(self, note: str = "") -> ConsumerGroupHeartbeatResponse:
        """Say that it has what it was told to have, and no more."""
        topics = [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        ]
        return await self.beat(note=note, topic_partitions=topics)

    async def leave(
        self, version: int = NEWEST, error: int = ErrorCode.NONE, **changed: Any
    ) -> ConsumerGroupHeartbeatResponse:
        return await self.beat(version, error, **({"member_epoch": -1} | changed))


async def describe_consumers(run: Run, version: int = DESCRIBE_CONSUMERS[-1], *group_ids: str) -> Any:
    """Describe the run's group, or others, as consumer groups."""
    request = ConsumerGroupDescribeRequest(group_ids=list(group_ids or (run.group,)))
    asked = await run.send("observer", request, version)
    return await run.answer(asked)
