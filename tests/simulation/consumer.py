"""A classic consumer, as stock clients behave: it joins, syncs, beats, commits, and does what errors ask of it.

A main task and a heartbeat task, like the threads of a real one: either may be stuck while the other goes on. The
partitions are assigned by aiokafka's own assignors. What the handlers of the Java client do with each
error is what is done here (docs/kafka.md 2.3, last paragraph).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
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
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation import sticky
from tests.simulation.catalogue import Catalogue
from tests.simulation.network import Network
from tests.simulation.ownership import partitions_in
from tests.simulation.profile import (
    CONNECT_METADATA,
    CONNECT_TASKS,
    CONNECT_TOPIC,
    COOPERATIVE,
    FETCH_GROUPS_SINCE,
    STABLE_OFFSETS_SINCE,
    TOPIC_IDS_SINCE,
    Profile,
)
from tests.simulation.timeline import Task
from tests.simulation.wire import LOST

ASSIGNORS: Final = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
REQUEST_TIMEOUT_MS: Final = 3_000
BATCHED_LEAVE_SINCE: Final = 3
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 1_000
"""`retry.backoff.ms` and `retry.backoff.max.ms` of the Java client: each failure in a row doubles it."""
BROKEN_CLIENT: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
"""Errors that end a consumer: it reports them to its user, and does no more."""


class Consumer:
    """One process with one consumer. `topics` are what there is to subscribe to."""

    def __init__(
        self,
        profile: Profile,
        subscription: tuple[str, ...],
        network: Network,
        random: Random,
        topics: Catalogue,
        offsets: Iterator[int],
    ) -> None:
        """Commits the numbers of `offsets`, which are never committed twice."""
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
        self._port = network.port(profile.client_id)
        self._random = random
        self._topics = topics
        self._offsets = offsets
        self._to_assign: list[Any] = []
        self._topic_ids: dict[str, bytes] = {}  # As it last looked: a topic may have come again since.
        self.leads = False
        # All that it assigned as the leader, last; None if it never did, as one that came back may not (3.34).
        self.decided: list[tuple[str, int]] | None = None
        self._seen: dict[str, int | None] = {}  # The partition counts that it went by as the leader.
        self._tasks = [Task(self._work()), Task(self._beat())]
        if profile.is_cooperative:
            self._tasks.append(Task(self._go_on_meanwhile()))

    def is_settled_in(self, generation_id: int) -> bool:
        """Whether it works in this generation, and wants nothing else."""
        return self.is_settled and not self.must_rejoin and self.generation_id == generation_id

    # What happens to a process.

    def die(self) -> None:
        """It is gone, without a word."""
        self.is_running = self.is_settled = False
        for task in self._tasks:
            task.cancel()
        self._port.close()

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
        backoff_ms = BACKOFF_MS
        while self.is_running:
            if await self._join() and await self._sync():
                backoff_ms = BACKOFF_MS
                await self._fetch()
                await self._consume()
            elif self.is_running:
                await self._network.sleep(backoff_ms)
                backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)

    async def _join(self) -> bool:
        """One JoinGroup; True if we are in a generation now."""
        self.is_settled, self.is_joining = False, True
        if not self.profile.is_cooperative or not self.member_id:
            self.owned.clear()  # Given up, or lost with its membership.
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
                return await self._join() if self._uses_its_id() else await self._give_back_its_id()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            case error if error in BROKEN_CLIENT:
                self._end(error)
        return False

    def _uses_its_id(self) -> bool:
        """A process that is being closed may have no use for the id that it was just given."""
        return self._network.is_sound or self._random.random() < 0.95

    async def _give_back_its_id(self) -> bool:
        identity = MemberIdentity(member_id=self.member_id)
        version = max(self.profile.era.leave, BATCHED_LEAVE_SINCE)
        self.member_id = ""
        await self._call(LeaveGroupRequest(group_id=self.profile.group_id, members=[identity]), version)
        return False

    def _join_request(self) -> JoinGroupRequest:
        profile = self.profile
        self.must_rejoin = False
        return JoinGroupRequest(
            group_id=profile.group_id,
            session_timeout_ms=profile.session_timeout_ms,
            rebalance_timeout_ms=profile.rebalance_timeout_ms if profile.era.join >= 1 else -1,
            member_id=self.member_id,
            group_instance_id=profile.instance_id,
            protocol_type=profile.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._metadata()) for name in profile.assignors
            ],
        )

    def _metadata(self) -> bytes:
        if self.profile.is_worker:
            return CONNECT_METADATA
        subscription = ConsumerProtocolSubscription(topics=list(self.subscription))
        if self.owned:
            subscription.owned_partitions = _by_topic(self.owned)
            subscription.generation_id = self.generation_id
        return encode_subscription(subscription)

    def _enter(self, answer: Any) -> None:
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._protocol_name = answer.protocol_name
        self.is_joining = False
        self.leads = answer.leader == answer.member_id
        self._to_assign = answer.members if self.leads and not answer.skip_assignment else []

    async def _sync(self) -> bool:
        """One SyncGroup; True if we have our assignment."""
        await self._be_stuck()
        named = self.profile.era.sync >= 5
        request = SyncGroupRequest(
            group_id=self.profile.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.profile.instance_id,
            protocol_type=self.profile.protocol_type if named else None,
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
        given = list(partitions_in(bytes(answer.assignment)))
        gives_up = self.profile.is_cooperative and not set(self.owned) <= set(given)
        self.owned = given
        return not gives_up  # Else it joins again, so that others are given what it gave up.

    def _assign(self, members: list[Any]) -> list[SyncGroupRequestAssignment]:
        """What we decide as the leader."""
        if not members:
            return []
        decided = self._decided(members)
        self.decided = sorted(where for assigned in decided.values() for where in assigned)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_assignment_bytes(_by_topic(assigned)))
            for member_id, assigned in decided.items()
        ]

    def _decided(self, members: list[Any]) -> dict[str, list[tuple[str, int]]]:
        if self.profile.is_worker:
            ids = [member.member_id for member in members]
            return {
                each: [(CONNECT_TOPIC, t) for t in range(i, CONNECT_TASKS, len(ids))]
                for i, each in enumerate(ids)
            }
        known = {member.member_id: decode_subscription(bytes(member.metadata)) for member in members}
        read = {topic for said in known.values() for topic in said.topics}
        self._seen = {topic: self._topics.partition_count(topic) for topic in sorted(read)}
        if self._protocol_name == COOPERATIVE:
            return sticky.assign(known, self._topics.partition_count)
        plain = {
            each: SimpleNamespace(subscription=[t for t in said.topics if self._partitions_of(t)])
            for each, said in known.items()
        }
        assignor: Any = ASSIGNORS[self._protocol_name or ""]  # What it is given has what it reads.
        assigned = assignor.assign(SimpleNamespace(partitions_for_topic=self._partitions_of), plain)
        return {
            member_id: [(topic, p) for topic, partitions in decided.assignment for p in partitions]
            for member_id, decided in assigned.items()
        }

    def _partitions_of(self, topic: str) -> set[int] | None:
        count = self._topics.partition_count(topic)
        return None if count is None else set(range(count))

    async def _fetch(self) -> None:
        """Ask where to go on, until no transaction may change it; what comes back is the witness's business."""
        owned = [] if self.profile.is_worker else self.owned
        while owned and self.is_running and not self.must_rejoin:
            answer = await self._call(self._fetch_request(owned), self.profile.era.fetch)
            if answer is LOST or ErrorCode.UNSTABLE_OFFSET_COMMIT not in errors_in(answer):
                return
            await self._network.sleep(BACKOFF_MS)

    def _fetch_request(self, owned: list[tuple[str, int]]) -> OffsetFetchRequest:
        version, group_id = self.profile.era.fetch, self.profile.group_id
        stable = version >= STABLE_OFFSETS_SINCE
        if version < FETCH_GROUPS_SINCE:
            flat = [
                OffsetFetchRequestTopic(name=each.topic, partition_indexes=each.partitions)
                for each in _by_topic(owned)
            ]
            return OffsetFetchRequest(group_id=group_id, topics=flat, require_stable=stable)
        topics = [
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=each.partitions)
            for each in _by_topic(owned)
            if (topic_id := self._topics.topic_id(each.topic)) is not None
        ]
        group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        return OffsetFetchRequest(groups=[group], require_stable=stable)

    async def _consume(self) -> None:
        """Read, and commit now and then, until something has changed."""
        self.is_settled = True
        while self.is_running and not self.must_rejoin:
            await self._network.sleep(self._random.randint(100, 1_200))
            await self._be_stuck()
            if self.owned and self._random.random() < 0.2:
                for _ in range(self._network.burst()):
                    Task(self._commit(self._random.choice(self.owned)))
                await self._commit(self._random.choice(self.owned))
            if self.leads and self._sees_a_change():
                self.rejoin()
        if self.owned and self.is_running and self._random.random() < 0.5:
            await self._commit(self.owned[0])  # Before it is revoked.

    def _sees_a_change(self) -> bool:
        """Topics that the group reads have come, grown or gone since it last assigned."""
        return any(count != self._topics.partition_count(topic) for topic, count in self._seen.items())

    async def _go_on_meanwhile(self) -> None:
        """While it joins it goes on with what it keeps, and commits that."""
        while self.is_running:
            await self._network.sleep(self._random.randint(300, 3_000))
            if self.is_joining and self.owned and self.is_running:
                await self._commit(self._random.choice(self.owned))

    async def _commit(self, where: tuple[str, int]) -> None:
        topic, partition = ("orders", 0) if self.profile.is_worker else where
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
        if self.profile.era.commit >= TOPIC_IDS_SINCE:
            topic_id = self._topic_ids.get(topic) or self._topics.topic_id(topic)
            if topic_id is None:
                return
            self._topic_ids[topic] = topic_id
            request.topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[committed])]
        sent_in = (self.generation_id, self.member_id)
        answer = await self._call(request, self.profile.era.commit)
        if answer is LOST or answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._topic_ids.pop(topic, None)
        is_late = sent_in != (self.generation_id, self.member_id)  # It waited behind a JoinGroup, say.
        if answer is not LOST and not (is_late or self.is_joining):
            self._heed(ErrorCode(answer.topics[0].partitions[0].error_code))

    async def _be_stuck(self) -> None:
        while (left_ms := self.stuck_until_ms - self._network.now_ms) > 0:
            await self._network.sleep(left_ms)

    # The heartbeat thread.

    async def _beat(self) -> None:
        while self.is_running:
            await self._network.sleep(self.profile.heartbeat_ms)
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
        answer = await self._call(request, self.profile.era.heartbeat, self.profile.heartbeat_ms)
        if answer is not LOST and (generation_id, member_id) == (self.generation_id, self.member_id):
            self._heed(ErrorCode(answer.error_code))

    # Both.

    def _heed(self, error: ErrorCode) -> None:
        """The error that a heartbeat or a commit is answered with."""
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
        return await self._port.call(request, version, timeout_ms)


def _by_topic(owned: list[tuple[str, int]]) -> list[TopicPartitions]:
    topics = sorted({topic for topic, _ in owned})
    return [TopicPartitions(topic=topic, partitions=[p for t, p in owned if t == topic]) for topic in topics]


def _assignment_bytes(assigned: list[TopicPartitions]) -> bytes:
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))


def errors_in(answer: Any) -> set[int]:
    """The errors of an OffsetFetch answer's partitions, in either form."""
    topics = [topic for group in answer.groups for topic in group.topics] if answer.groups else answer.topics
    return {partition.error_code for topic in topics for partition in topic.partitions}
