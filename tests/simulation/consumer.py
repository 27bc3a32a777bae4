"""A classic consumer, as stock clients behave: it joins, syncs, beats, commits, and does what errors ask of it.

A main task and a heartbeat task, like the threads of a real one: either may be stuck while the other goes on. The
partitions are assigned by aiokafka's own assignors. What the handlers of the Java client do with each
error is what is done here (KAFKA.md 2.3, last paragraph).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from protocol.consumer import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.groups.driver import Topics
from tests.simulation.network import LOST, Network
from tests.simulation.timeline import Task

ASSIGNORS: Final = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
REQUEST_TIMEOUT_MS: Final = 3_000
BACKOFF_MS: Final = 100
BROKEN_CLIENT: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
"""Errors that end a consumer: it tells whoever uses it, and does no more."""


@dataclass(frozen=True, slots=True)
class Era:
    """The versions that clients of one time speak."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int


ANCIENT: Final = Era(0, 0, 0, 0, 2, 1)
OLD: Final = Era(3, 2, 2, 2, 6, 5)
MIDDLE: Final = Era(5, 3, 3, 3, 7, 7)
MODERN: Final = Era(9, 5, 4, 5, 9, 7)
ERAS: Final = (ANCIENT, OLD, MIDDLE, MODERN)
INSTANCE_IDS_SINCE: Final = 5  # JoinGroup.


@dataclass(frozen=True, slots=True)
class Profile:
    """What a consumer is started with."""

    client_id: str
    group_id: str
    instance_id: str | None
    era: Era
    assignors: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    patience_ms: (
        int  # How long it waits in JoinGroup and SyncGroup: longer than any member of its group may take.
    )


class Consumer:
    """One process with one consumer. `topics` are what there is to subscribe to."""

    def __init__(
        self,
        profile: Profile,
        subscription: tuple[str, ...],
        network: Network,
        random: Random,
        topics: Topics,
        offsets: Iterator[int],
    ) -> None:
        """Commits the numbers of `offsets`, which nobody commits twice."""
        self.profile = profile
        self.subscription = subscription
        self.member_id = ""
        self.generation_id = -1
        self.owned: list[tuple[str, int]] = []
        self.is_running = True
        self.is_settled = False  # It has its assignment, and works.
        self.must_rejoin = False
        self.is_joining = True
        self.ended_by: ErrorCode | None = None
        self.stuck_until_ms = 0
        self._protocol_name: str | None = None
        self._network = network
        self._random = random
        self._topics = topics
        self._offsets = offsets
        self._to_assign: list[Any] = []
        self._tasks = [Task(self._work()), Task(self._beat())]

    # What happens to a process.

    def die(self) -> None:
        """It is gone, without a word."""
        self.is_running = self.is_settled = False
        for task in self._tasks:
            task.cancel()

    def pause(self) -> None:
        """SIGSTOP."""
        for task in self._tasks:
            task.pause()

    def go_on(self) -> None:
        for task in self._tasks:
            task.go_on()

    def get_stuck(self, until_ms: int) -> None:
        """Its user does something long between two polls: heartbeats go on, joins and syncs do not."""
        self.stuck_until_ms = until_ms

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.subscription, self.must_rejoin = topics, True

    def rejoin(self) -> None:
        """As a leader does that sees new partitions."""
        self.must_rejoin = True

    async def leave(self) -> None:
        """Say goodbye, and end. Static members do not say it (3.40)."""
        version, member_id = self.profile.era.leave, self.member_id
        if member_id and self.profile.instance_id is None:
            batch = [
                MemberIdentity(member_id=member_id, reason="the consumer is closed" if version >= 5 else None)
            ]
            request = LeaveGroupRequest(
                group_id=self.profile.group_id,
                member_id=member_id if version < 3 else "",
                members=batch if version >= 3 else [],
            )
            self.die()
            await self._call(request, version)
        else:
            self.die()

    # The main thread.

    async def _work(self) -> None:
        while self.is_running:
            if await self._join() and await self._sync():
                await self._fetch()
                await self._consume()
            elif self.is_running:
                await self._network.sleep(BACKOFF_MS)

    async def _join(self) -> bool:
        """One JoinGroup; True if we are in a generation now."""
        self.is_settled, self.is_joining = False, True
        self.owned.clear()
        await self._be_stuck()
        request = self._join_request()
        answer = await self._call(request, self.profile.era.join, self.profile.patience_ms)
        if answer is LOST:
            return False
        match ErrorCode(answer.error_code):
            case ErrorCode.NONE:
                self._enter(answer)
                return True
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                return await self._join()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            case error if error in BROKEN_CLIENT:
                self._end(error)
        return False

    def _join_request(self) -> JoinGroupRequest:
        profile = self.profile
        metadata = encode_subscription(ConsumerProtocolSubscription(topics=list(self.subscription)))
        self.must_rejoin = False
        return JoinGroupRequest(
            group_id=profile.group_id,
            session_timeout_ms=profile.session_timeout_ms,
            rebalance_timeout_ms=profile.rebalance_timeout_ms if profile.era.join >= 1 else -1,
            member_id=self.member_id,
            group_instance_id=profile.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in profile.assignors],
        )

    def _enter(self, answer: Any) -> None:
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._protocol_name = answer.protocol_name
        self.is_joining = False
        leads = answer.leader == answer.member_id and not answer.skip_assignment
        self._to_assign = answer.members if leads else []

    async def _sync(self) -> bool:
        """One SyncGroup; True if we have our assignment."""
        await self._be_stuck()
        named = self.profile.era.sync >= 5
        request = SyncGroupRequest(
            group_id=self.profile.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.profile.instance_id,
            protocol_type=PROTOCOL_TYPE if named else None,
            protocol_name=self._protocol_name if named else None,
            assignments=self._assign(self._to_assign),
        )
        answer = await self._call(request, self.profile.era.sync, self.profile.patience_ms)
        if answer is LOST:
            return False
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if error in BROKEN_CLIENT:
            self._end(error)
        if error is not ErrorCode.NONE:
            return False
        self.owned = list(_partitions_in(bytes(answer.assignment)))
        return True

    def _assign(self, members: list[Any]) -> list[SyncGroupRequestAssignment]:
        """What we decide as the leader."""
        if not members:
            return []
        assignor: Any = ASSIGNORS[self._protocol_name or ""]  # It takes whatever has the attributes it reads.
        known = {
            member.member_id: SimpleNamespace(subscription=decode_subscription(bytes(member.metadata)).topics)
            for member in members
        }
        assigned = assignor.assign(SimpleNamespace(partitions_for_topic=self._partitions_of), known)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment_bytes(decided.assignment))
            for member_id, decided in assigned.items()
        ]

    def _partitions_of(self, topic: str) -> set[int] | None:
        count = self._topics.partition_count(topic)
        return None if count is None else set(range(count))

    async def _fetch(self) -> None:
        """Ask where to go on; what comes back is the witness's business."""
        if not self.owned:
            return
        topics = [
            OffsetFetchRequestTopic(name=topic, partition_indexes=[p for t, p in self.owned if t == topic])
            for topic in sorted({topic for topic, _ in self.owned})
        ]
        await self._call(
            OffsetFetchRequest(group_id=self.profile.group_id, topics=topics), self.profile.era.fetch
        )

    async def _consume(self) -> None:
        """Read, and commit now and then, until something has changed."""
        self.is_settled = True
        while self.is_running and not self.must_rejoin:
            await self._network.sleep(self._random.randint(100, 1_200))
            await self._be_stuck()
            if self.owned and self._random.random() < 0.5:
                await self._commit(self._random.choice(self.owned))
        if self.owned and self.is_running and self._random.random() < 0.5:
            await self._commit(self.owned[0])  # Before it is revoked.

    async def _commit(self, where: tuple[str, int]) -> None:
        topic, partition = where
        committed = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=next(self._offsets)
        )
        request = OffsetCommitRequest(
            group_id=self.profile.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.profile.instance_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        answer = await self._call(request, self.profile.era.commit)
        if answer is not LOST:
            self._heed(ErrorCode(answer.topics[0].partitions[0].error_code))

    async def _be_stuck(self) -> None:
        while (left_ms := self.stuck_until_ms - self._network.now_ms) > 0:
            await self._network.sleep(left_ms)

    # The heartbeat thread.

    async def _beat(self) -> None:
        while self.is_running:
            await self._network.sleep(self.profile.session_timeout_ms // 3)
            if not self.is_joining and self.is_running:
                await self._beat_once()

    async def _beat_once(self) -> None:
        generation_id, member_id = self.generation_id, self.member_id
        request = HeartbeatRequest(
            group_id=self.profile.group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=self.profile.instance_id,
        )
        answer = await self._call(request, self.profile.era.heartbeat, self.profile.session_timeout_ms // 3)
        if answer is not LOST and (generation_id, member_id) == (self.generation_id, self.member_id):
            self._heed(ErrorCode(answer.error_code))

    # Both.

    def _heed(self, error: ErrorCode) -> None:
        """What a heartbeat or a commit is told."""
        if error in BROKEN_CLIENT:
            self._end(error)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.must_rejoin = "", True
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.must_rejoin = True

    def _end(self, error: ErrorCode) -> None:
        self.ended_by = error
        self.die()

    async def _call(self, request: Any, version: int, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Any:
        return await self._network.call(self.profile.client_id, request, version, timeout_ms)


def _partitions_in(assignment: bytes) -> Iterator[tuple[str, int]]:
    for assigned in decode_assignment(assignment).assigned_partitions if assignment else ():
        for partition in assigned.partitions:
            yield assigned.topic, partition


def _assignment_bytes(assigned: list[tuple[str, list[int]]]) -> bytes:
    parts = [
        TopicPartition(topic=topic, partitions=partitions) for topic, partitions in assigned if partitions
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts))
