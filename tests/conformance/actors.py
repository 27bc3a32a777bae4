"""An actor: a client that speaks the group APIs by hand and remembers what it was answered.

Every verb sends one request as this client would, with any field changed that a script names; verbs that
begin with `send_` leave the answer to `Run.answer`, the others await it and expect `error` (default: none).
Memory is the id, generation and protocol of the last JoinGroup that went well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.consumer import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.conformance.run import Asked, Run

JOIN: Final = range(10)
SYNC: Final = range(6)
HEARTBEAT: Final = range(5)
LEAVE: Final = range(6)
COMMIT: Final = range(2, 11)
FETCH: Final = range(1, 11)
DESCRIBE: Final = range(7)
LIST: Final = range(6)
DELETE: Final = range(3)
OFFSET_DELETE: Final = range(1)
FIND: Final = range(7)
PLAYED: Final = {
    8: COMMIT,
    9: FETCH,
    10: FIND,
    11: JOIN,
    12: HEARTBEAT,
    13: LEAVE,
    14: SYNC,
    15: DESCRIBE,
    16: LIST,
    42: DELETE,
    47: OFFSET_DELETE,
}
"""The classic group APIs by key, in all the versions that there are."""

MEMBER_ID_REQUIRED_SINCE: Final = 4
STATIC_JOIN_SINCE: Final = 5
STATIC_SINCE: Final = 3  # SyncGroup, Heartbeat, LeaveGroup.
STATIC_COMMIT_SINCE: Final = 7
LONG_MS: Final = 600_000
"""Sessions and rebalances that no scenario waits for."""

TOPIC: Final = "orders"
OTHER_TOPIC: Final = "returns"
PARTITIONS: Final = 3

Offsets = dict[tuple[str, int], int]


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer that reads `topics`."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))


@dataclass
class Actor:
    """One client. Its connections are named after it, and so is its client id."""

    run: Run
    name: str
    instance_id: str | None = None
    protocols: list[tuple[str, bytes]] = field(default_factory=lambda: [("range", subscription(TOPIC))])
    protocol_type: str = "consumer"
    session_timeout_ms: int = LONG_MS
    rebalance_timeout_ms: int = LONG_MS
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str | None = None
    leads: bool = False

    async def _send(self, request: Any, version: int, note: str = "") -> Asked:
        return await self.run.send(self.name, request, version, note)

    # JoinGroup

    def join_request(self, version: int, **changed: Any) -> JoinGroupRequest:
        given: dict[str, Any] = {
            "group_id": self.run.group,
            "session_timeout_ms": self.session_timeout_ms,
            "member_id": self.member_id,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
        }
        if version >= 1:
            given["rebalance_timeout_ms"] = self.rebalance_timeout_ms
        if self.instance_id is not None and version >= STATIC_JOIN_SINCE:
            given["group_instance_id"] = self.instance_id
        return JoinGroupRequest(**(given | changed))

    async def send_join(self, version: int = 9, note: str = "", **changed: Any) -> Asked:
        return await self._send(self.join_request(version, **changed), version, note)

    async def joined(
        self, asked: Asked, error: int | None = ErrorCode.NONE, **expected: Any
    ) -> JoinGroupResponse:
        """Return the answer to a JoinGroup, and keep the id, generation and protocol in it."""
        reply: JoinGroupResponse = await self.run.answer(asked, error, **expected)
        if isinstance(reply, JoinGroupResponse) and reply.error_code == ErrorCode.NONE:
            self.member_id = reply.member_id
            self.generation_id = reply.generation_id
            self.protocol_name = reply.protocol_name
            self.leads = reply.leader == reply.member_id
        return reply

    async def join(
        self, version: int = 9, error: int | None = ErrorCode.NONE, note: str = "", **changed: Any
    ) -> JoinGroupResponse:
        return await self.joined(await self.send_join(version, note, **changed), error)

    async def get_id(self, version: int = 9) -> str:
        """Be handed a member id where this version wants that; keep and return it."""
        if version >= MEMBER_ID_REQUIRED_SINCE and self.instance_id is None and not self.member_id:
            reply = await self.join(version, ErrorCode.MEMBER_ID_REQUIRED)
            self.member_id = reply.member_id
        return self.member_id

    async def send_enter(self, version: int = 9) -> Asked:
        """Join, with the id that today's clients must ask for first."""
        await self.get_id(version)
        return await self.send_join(version)

    async def enter(self, version: int = 9) -> JoinGroupResponse:
        return await self.joined(await self.send_enter(version))

    # SyncGroup

    def sync_request(
        self, version: int, assignments: dict[str, bytes] | None = None, **changed: Any
    ) -> SyncGroupRequest:
        given: dict[str, Any] = {
            "group_id": self.run.group,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "assignments": [
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        }
        if version >= 5:
            given |= {"protocol_type": self.protocol_type, "protocol_name": self.protocol_name or "range"}
        if self.instance_id is not None and version >= STATIC_SINCE:
            given["group_instance_id"] = self.instance_id
        return SyncGroupRequest(**(given | changed))

    async def send_sync(
        self, version: int = 5, assignments: dict[str, bytes] | None = None, note: str = "", **changed: Any
    ) -> Asked:
        return await self._send(self.sync_request(version, assignments, **changed), version, note)

    async def sync(
        self,
        version: int = 5,
        assignments: dict[str, bytes] | None = None,
        error: int | None = ErrorCode.NONE,
        note: str = "",
        **changed: Any,
    ) -> SyncGroupResponse:
        asked = await self.send_sync(version, assignments, note, **changed)
        reply: SyncGroupResponse = await self.run.answer(asked, error)
        return reply

    # Heartbeat

    def heartbeat_request(self, version: int, **changed: Any) -> HeartbeatRequest:
        given: dict[str, Any] = {
            "group_id": self.run.group,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
        }
        if self.instance_id is not None and version >= STATIC_SINCE:
            given["group_instance_id"] = self.instance_id
        return HeartbeatRequest(**(given | changed))

    async def heartbeat(
        self, version: int = 4, error: int | None = ErrorCode.NONE, note: str = "", **changed: Any
    ) -> HeartbeatResponse:
        asked = await self._send(self.heartbeat_request(version, **changed), version, note)
        reply: HeartbeatResponse = await self.run.answer(asked, error)
        return reply

    # LeaveGroup

    def leave_request(
        self, version: int, members: Sequence[MemberIdentity] | None = None, **changed: Any
    ) -> LeaveGroupRequest:
        """A LeaveGroup of this member, or (v3 on) of `members`."""
        given: dict[str, Any] = {"group_id": self.run.group}
        if version < STATIC_SINCE:
            given["member_id"] = self.member_id
        else:
            own = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
            given["members"] = [own] if members is None else list(members)
        return LeaveGroupRequest(**(given | changed))

    async def send_leave(
        self,
        version: int = 5,
        members: Sequence[MemberIdentity] | None = None,
        note: str = "",
        **changed: Any,
    ) -> Asked:
        return await self._send(self.leave_request(version, members, **changed), version, note)

    async def leave(
        self,
        version: int = 5,
        members: Sequence[MemberIdentity] | None = None,
        error: int | None = ErrorCode.NONE,
        errors: Sequence[int] | None = None,
        note: str = "",
        **changed: Any,
    ) -> LeaveGroupResponse:
        """Leave; `error` is the error expected of the request, `errors` are those of its members."""
        asked = await self.send_leave(version, members, note, **changed)
        reply: LeaveGroupResponse = await self.run.answer(asked, error)
        if errors is not None and version >= STATIC_SINCE:
            got = [member.error_code for member in reply.members]
            self.run.expect(got == list(errors), f"{asked.what}: errors should be {errors}, are {got}")
        return reply

    async def leave_with(
        self, error: int, version: int = 5, note: str = "", **changed: Any
    ) -> LeaveGroupResponse:
        """Leave, and expect `error` where this version has it: for the member from v3 on."""
        if version < STATIC_SINCE:
            return await self.leave(version, error=error, note=note, **changed)
        return await self.leave(version, errors=[error], note=note, **changed)

    # OffsetCommit and OffsetFetch

    def commit_request(
        self, version: int, offsets: Offsets, metadata: str | None = "", **changed: Any
    ) -> OffsetCommitRequest:
        """An OffsetCommit of `offsets` by topic and partition; from v10 on topics go by id."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, index), offset in offsets.items():
            if topic not in topics:
                topics[topic] = self._commit_topic(topic, version)
            partition = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            topics[topic].partitions = [*topics[topic].partitions, partition]
        given: dict[str, Any] = {
            "group_id": self.run.group,
            "generation_id_or_member_epoch": self.generation_id,
            "member_id": self.member_id,
            "topics": list(topics.values()),
        }
        if self.instance_id is not None and version >= STATIC_COMMIT_SINCE:
            given["group_instance_id"] = self.instance_id
        return OffsetCommitRequest(**(given | changed))

    def _commit_topic(self, topic: str, version: int) -> OffsetCommitRequestTopic:
        if version < 10:
            return OffsetCommitRequestTopic(name=topic, partitions=[])
        return OffsetCommitRequestTopic(topic_id=self.run.topic_ids[topic], partitions=[])

    async def commit(
        self,
        version: int = 9,
        offsets: Offsets | None = None,
        errors: Sequence[int] | int | None = ErrorCode.NONE,
        note: str = "",
        metadata: str | None = "",
        **changed: Any,
    ) -> OffsetCommitResponse:
        """Commit; `errors` are expected of the partitions in the answer's order, one number of each of them."""
        wanted = {(TOPIC, 0): 42} if offsets is None else offsets
        request = self.commit_request(version, wanted, metadata, **changed)
        asked = await self._send(request, version, note)
        reply: OffsetCommitResponse = await self.run.answer(asked)
        if errors is not None and isinstance(reply, OffsetCommitResponse):
            got = [partition.error_code for topic in reply.topics for partition in topic.partitions]
            right = [errors] * len(got) if isinstance(errors, int) else list(errors)
            self.run.expect(got == right, f"{asked.what}: errors should be {right}, are {got}")
        return reply

    def fetch_request(
        self, version: int, offsets: Sequence[tuple[str, int]] | None, *groups: str, **changed: Any
    ) -> OffsetFetchRequest:
        """An OffsetFetch of `offsets` (None: all there are) of each of `groups` (default: the run's)."""
        group_ids = groups or (self.run.group,)
        if version >= 8:
            wanted = [self._fetch_group(group_id, offsets, version, changed) for group_id in group_ids]
            return OffsetFetchRequest(groups=wanted, **changed)
        topics = None
        if offsets is not None:
            topics = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in _by_topic(offsets).items()
            ]
        return OffsetFetchRequest(**({"group_id": group_ids[0], "topics": topics} | changed))

    def _fetch_group(
        self, group_id: str, offsets: Sequence[tuple[str, int]] | None, version: int, changed: dict[str, Any]
    ) -> OffsetFetchRequestGroup:
        topics = None
        if offsets is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                if version < 10
                else OffsetFetchRequestTopics(
                    topic_id=self.run.topic_ids.get(topic, UNKNOWN_TOPIC_ID), partition_indexes=indexes
                )
                for topic, indexes in _by_topic(offsets).items()
            ]
        own = {name: changed.pop(name) for name in ("member_id", "member_epoch") if name in changed}
        return OffsetFetchRequestGroup(group_id=group_id, topics=topics, **own)

    async def fetch(
        self,
        version: int = 9,
        offsets: Sequence[tuple[str, int]] | None = ((TOPIC, 0),),
        *groups: str,
        note: str = "",
        **changed: Any,
    ) -> OffsetFetchResponse:
        """Fetch; the comparison alone checks a group's error."""
        request = self.fetch_request(version, offsets, *groups, **changed)
        reply: OffsetFetchResponse = await self.run.answer(await self._send(request, version, note))
        return reply


UNKNOWN_TOPIC_ID: Final = bytes(15) + b"\x07"


def _by_topic(offsets: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in offsets:
        topics.setdefault(topic, []).append(index)
    return topics
