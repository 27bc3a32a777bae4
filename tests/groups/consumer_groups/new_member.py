"""A member of the new protocol as tests need it: it remembers its id, epoch and partitions."""

from __future__ import annotations

from typing import Any

from harness.doubles.topics import topic_id_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.groups.driver import Driver

ORDERS = topic_id_of(1)
"""The id of the driver's topic "orders", of four partitions."""


class NewMember:
    """A member of group "g" with an id of its own, as from version 1 on."""

    def __init__(
        self, driver: Driver, member_id: str, *, topics: tuple[str, ...] = ("orders",), **joins: Any
    ) -> None:
        self.driver = driver
        self.member_id = member_id
        self.epoch = 0
        self.assigned: dict[bytes, list[int]] = {}
        self._joins: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
        } | joins

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and return its answer, which must be there; what is not given is left out."""
        reply = self.driver.replies.pop(self.send(**fields))
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        self.take(reply)
        return reply

    def send(self, **fields: Any) -> int:
        joins = {"topic_partitions": [], **self._joins} if self.epoch == 0 else {}
        own: dict[str, Any] = {"group_id": "g", "member_id": self.member_id, "member_epoch": self.epoch}
        request = ConsumerGroupHeartbeatRequest(**(own | joins | fields))
        return self.driver.send(request, 1, self.member_id)

    def take(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        if reply.error_code == ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.assigned = {
                    each.topic_id: sorted(each.partitions) for each in reply.assignment.topic_partitions
                }

    def own(self) -> ConsumerGroupHeartbeatResponse:
        """Say that it has what it was told, and nothing else."""
        owned = [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.assigned.items()
        ]
        return self.beat(topic_partitions=owned)

    def leave(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch = -1
        return self.beat()

    def commit(
        self, offset: int, *, partition: int = 0, epoch: int | None = None, version: int = 9
    ) -> ErrorCode:
        topic = OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
        )
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            topics=[topic],
        )
        reply = self.driver.call(request, version)
        return ErrorCode(reply.topics[0].partitions[0].error_code)


def settle(*members: NewMember) -> None:
    """Let members beat until each has what it is to have."""
    for _ in range(10):
        before = [(each.epoch, dict(each.assigned)) for each in members]
        for each in members:
            each.own() if each.epoch else each.beat()
        if before == [(each.epoch, each.assigned) for each in members]:
            return
    raise AssertionError("not settled after ten rounds")
