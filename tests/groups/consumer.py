"""A classic member as tests need it: it remembers its id and generation, and sends what a test asks of it."""

from __future__ import annotations

from typing import Any

from protocol.consumer import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.groups.driver import Driver

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))


class Consumer:
    """One member of group `group_id`. Protocols are (name, metadata) in order of preference."""

    def __init__(
        self,
        driver: Driver,
        client_id: str = "client",
        *,
        group_id: str = "g",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] | None = None,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self.driver = driver
        self.client_id = client_id
        self.group_id = group_id
        self.instance_id = instance_id
        self.protocols = protocols or (("range", subscription("orders")),)
        self.protocol_type = protocol_type
        self.version = version
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation_id = -1
        self.protocol_name: str | None = None
        self.leads = False
        self.members: list[str] = []
        self.parked: int | None = None

    def send_join(self, reason: str | None = None) -> int:
        """Send one JoinGroup and do no more."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms if self.version >= 1 else -1,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
            reason=reason,
        )
        self.parked = self.driver.send(request, self.version, self.client_id)
        return self.parked

    def join(self, reason: str | None = None) -> Any:
        """Join, with the id handshake if asked for; the reply, or None while it is parked."""
        token = self.send_join(reason)
        if not self.driver.answered(token):
            return None
        reply = self.driver.replies[token]
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return self.join(reason)
        return self.collect_join()

    def collect_join(self) -> Any:
        """Take the reply to the last JoinGroup, which must be there."""
        assert self.parked is not None
        reply = self.driver.replies.pop(self.parked)
        self.parked = None
        if reply.error_code == ErrorCode.NONE:
            self.member_id = reply.member_id
            self.generation_id = reply.generation_id
            self.protocol_name = reply.protocol_name
            self.leads = reply.leader == reply.member_id
            self.members = [member.member_id for member in reply.members]
        return reply

    def send_sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> int:
        """Send SyncGroup; a leader gives every member its own id as assignment unless others are given."""
        if assignments is None:
            assignments = {member_id: member_id.encode() for member_id in self.members} if self.leads else {}
        named = version >= 5
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type if named else None,
            protocol_name=self.protocol_name if named else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in assignments.items()
            ],
        )
        return self.driver.send(request, version)

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> Any:
        """Send SyncGroup and return the reply; it must not be parked."""
        return self.driver.replies.pop(self.send_sync(assignments, version))

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode(self.driver.call(request, 4).error_code)

    def leave(self, reason: str | None = None, version: int = 5) -> Any:
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        else:
            identity = MemberIdentity(
                member_id=self.member_id, group_instance_id=self.instance_id, reason=reason
            )
            request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        return self.driver.call(request, version)

    def send_commit(self, offset: int, topic: str = "orders", partition: int = 0, version: int = 9) -> int:
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                    ],
                )
            ],
        )
        return self.driver.send(request, version)

    def commit(self, offset: int, topic: str = "orders", partition: int = 0, version: int = 9) -> ErrorCode:
        reply = self.driver.replies.pop(self.send_commit(offset, topic, partition, version))
        return ErrorCode(reply.topics[0].partitions[0].error_code)


def form_group(driver: Driver, *consumers: Consumer) -> None:
    """Bring a group of `consumers` from nothing to Stable, the first one leading."""
    for consumer in consumers:
        assert consumer.join() is None
    for _ in range(100):
        if driver.answered(consumers[0].parked):
            break
        driver.advance(driver.settings.group_initial_rebalance_delay_ms)
    finish_rebalance(driver, *consumers)


def finish_rebalance(driver: Driver, *consumers: Consumer) -> None:
    """Collect the answered JoinGroup of each of `consumers`, and sync to Stable."""
    for consumer in consumers:
        assert consumer.collect_join().error_code == ErrorCode.NONE
    tokens = {consumer.member_id: consumer.send_sync() for consumer in consumers}
    for consumer in consumers:
        reply = driver.replies.pop(tokens[consumer.member_id])
        assert reply.error_code == ErrorCode.NONE
        assert reply.assignment == consumer.member_id.encode()
