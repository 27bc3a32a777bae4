"""Groups whose logs are on a running Apache Kafka: one node dies, or lets go, and another is their coordinator."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

from coordinator.backing.kafka.topic import BackingTopic
from coordinator.backing.states import FOLLOWING, WAITING
from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.shard_states import ACTIVE, ELSEWHERE
from harness.kafka_broker import KafkaBroker
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.backing.groups_node import GroupsNode
from tests.backing.kafka_node import read_again, stop_reading, until

pytestmark = [pytest.mark.xdist_group("backing"), pytest.mark.asyncio]
GROUP = "g"
UNREADABLE_KEY = b"\0\1\0"  # Of an offset, which ends early.
NOTHING = -1


class Member:
    """A member of a classic group, whatever node it asks."""

    def __init__(self) -> None:
        self.member_id = ""
        self.generation_id = -1

    async def join(self, node: GroupsNode) -> None:
        """Join, and take the assignment."""
        for _ in range(2):  # The first time it is handed an id.
            joined = await node.ask(self._joining(), 9)
            self.member_id = joined.member_id
        assert joined.error_code == ErrorCode.NONE
        self.generation_id = joined.generation_id
        mine = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")
        synced = await node.ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation_id,
                member_id=self.member_id,
                assignments=[mine],
            ),
            3,
        )
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")

    def _joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

    async def beat(self, node: GroupsNode) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation_id, member_id=self.member_id)
        return ErrorCode((await node.ask(request, 4)).error_code)

    async def commit(self, node: GroupsNode, offset: int) -> ErrorCode:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        answer = await node.ask(request, 9)
        return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(node: GroupsNode) -> int | ErrorCode:
    """The committed offset of orders-0, or why it is not known."""
    answer = await node.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return int(answer.topics[0].partitions[0].committed_offset) if answer.topics else NOTHING


async def test_a_member_goes_on_at_the_next_coordinator(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """The node dies without a word: generation, assignment and offsets are those that were acknowledged."""
    member = Member()
    async with GroupsNode(kafka.bootstrap, topic, 2) as second:
        async with GroupsNode(kafka.bootstrap, topic, 1) as first:
            await first.own(GROUP)
            assert await member.beat(second) == ErrorCode.NOT_COORDINATOR
            await member.join(first)
            for offset in range(1, 21):
                assert await member.commit(first, offset) == ErrorCode.NONE
        await second.own(GROUP)
        assert await committed(second) == 20
        assert await member.beat(second) == ErrorCode.NONE
        assert await member.commit(second, 21) == ErrorCode.NONE
        await member.join(second)
        assert member.generation_id == 2


def write_by_hand(bootstrap: str, topic: str, partition: int, is_idempotent: bool) -> None:
    """A commit of long ago, and what no reader of group records can read."""
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": is_idempotent})
    for record in (encode_record(CoordinatorRecord(key, value)), (UNREADABLE_KEY, b"some")):
        producer.produce(topic, key=record[0], value=record[1], partition=partition)
        assert producer.flush(30) == 0


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_what_a_tool_writes_into_the_log_changes_nothing(
    kafka: KafkaBroker, topic: BackingTopic, is_idempotent: bool
) -> None:
    """Neither at the owner, nor at the next, nor for a node that reads all of it anew."""
    member, partition = Member(), partition_for(GROUP, topic.partition_count)
    async with GroupsNode(kafka.bootstrap, topic, 2) as second:
        async with GroupsNode(kafka.bootstrap, topic, 1) as first:
            await first.own(GROUP)
            await member.join(first)
            assert await member.commit(first, 20) == ErrorCode.NONE
            await asyncio.to_thread(write_by_hand, kafka.bootstrap, topic.name, partition, is_idempotent)
            driver, log = first.driver_of(GROUP), first.shards[partition].runner.log
            await until(lambda: driver.foreign_batches == 2, "both are found")
            await until(lambda: log.durable_offset == log.next_offset, "they are healed")
            assert await committed(first) == 20
        await second.own(GROUP)
        assert await committed(second) == 20
    async with GroupsNode(kafka.bootstrap, topic, 3) as third:
        await third.own(GROUP)
        assert await committed(third) == 20
        assert await member.beat(third) == ErrorCode.NONE


async def test_while_an_heir_waits_clients_are_told_that_it_loads(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """The node before it may still answer. A heartbeat is answered as if all were well: nobody is expired."""
    member = Member()
    async with GroupsNode(kafka.bootstrap, topic, 2) as second:
        async with GroupsNode(kafka.bootstrap, topic, 1) as first:
            await first.own(GROUP)
            await member.join(first)
            assert await member.commit(first, 1) == ErrorCode.NONE
        driver = second.driver_of(GROUP)
        driver.advise(True)
        await until(lambda: driver.ownership.state is WAITING, "it has claimed the shard")
        assert await member.beat(second) == ErrorCode.NONE
        assert await member.commit(second, 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await committed(second) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        driver.advise(False)
        await until(lambda: driver.ownership.state is FOLLOWING, "it has let go")
        assert await member.beat(second) == ErrorCode.NOT_COORDINATOR
        await second.own(GROUP)
        assert await committed(second) == 1
        assert await member.commit(second, 2) == ErrorCode.NONE


async def test_a_coordinator_that_lets_go_answers_nothing_more(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """What waits is answered NOT_COORDINATOR, and the next need not wait for the lease."""
    member = Member()
    async with (
        GroupsNode(kafka.bootstrap, topic, 1) as first,
        GroupsNode(kafka.bootstrap, topic, 2) as second,
    ):
        await first.own(GROUP)
        await member.join(first)
        assert await member.commit(first, 1) == ErrorCode.NONE
        waiting = asyncio.ensure_future(member.commit(first, 2))
        await asyncio.sleep(0)
        first.driver_of(GROUP).advise(False)
        assert await waiting == ErrorCode.NOT_COORDINATOR
        assert await committed(first) is ErrorCode.NOT_COORDINATOR
        await second.own(GROUP)
        assert await committed(second) in (1, 2), "its client was not told"
        assert await member.beat(second) == ErrorCode.NONE
        first.driver_of(GROUP).advise(True)
        second.driver_of(GROUP).advise(False)
        await first.own(GROUP)
        assert await member.commit(first, 3) == ErrorCode.NONE
        assert await committed(first) == 3


async def test_a_coordinator_of_the_past_says_only_that_it_is_none(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """It hears nothing, and still takes itself for the owner: its lease is over, and its append is refused."""
    member = Member()
    async with (
        GroupsNode(kafka.bootstrap, topic, 1) as zombie,
        GroupsNode(kafka.bootstrap, topic, 2) as owner,
    ):
        await zombie.own(GROUP)
        await member.join(zombie)
        assert await member.commit(zombie, 1) == ErrorCode.NONE
        await stop_reading(zombie.log)
        await owner.own(GROUP)
        assert await member.commit(owner, 2) == ErrorCode.NONE
        assert zombie.runner_of(GROUP).state is ACTIVE, "it does not know"
        assert await member.beat(zombie) == ErrorCode.NOT_COORDINATOR
        assert await committed(zombie) is ErrorCode.NOT_COORDINATOR
        assert await member.commit(zombie, 9) == ErrorCode.NOT_COORDINATOR
        assert await committed(owner) == 2


async def test_a_write_that_is_refused_ends_an_ownership(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """The commit was taken while the lease ran, and comes to the log behind another's claim."""
    member = Member()
    async with (
        GroupsNode(kafka.bootstrap, topic, 1) as zombie,
        GroupsNode(kafka.bootstrap, topic, 2) as owner,
    ):
        await zombie.own(GROUP)
        await member.join(zombie)
        zombie.runner_of(GROUP).may_answer = None  # As if its clock stood still.
        await stop_reading(zombie.log)
        await owner.own(GROUP)
        assert await member.commit(zombie, 9) == ErrorCode.NOT_COORDINATOR
        assert zombie.runner_of(GROUP).state is ELSEWHERE
        assert await member.beat(zombie) == ErrorCode.NOT_COORDINATOR
        assert await committed(owner) == NOTHING
        assert await member.commit(owner, 1) == ErrorCode.NONE
        owner.driver_of(GROUP).advise(False)
        read_again(zombie.log)
        await zombie.own(GROUP)
        assert await committed(zombie) == 1, "it has read the log anew"
        assert await member.beat(zombie) == ErrorCode.NONE


async def test_after_a_lease_that_lapsed_members_have_their_whole_sessions(
    kafka: KafkaBroker, topic: BackingTopic
) -> None:
    """While it may not answer its timers stand still; when it may again it goes on, under the same claim."""
    member = Member()
    async with GroupsNode(kafka.bootstrap, topic, 1) as node:
        await node.own(GROUP)
        await member.join(node)
        driver, runner = node.driver_of(GROUP), node.runner_of(GROUP)
        claims = driver.ownership.book.latest
        await stop_reading(node.log)
        await until(lambda: not driver.may_answer, "the lease is over")
        assert await member.beat(node) == ErrorCode.NOT_COORDINATOR
        read_again(node.log)
        await until(lambda: driver.may_answer, "it is proven again")
        assert runner.state is ACTIVE
        assert driver.ownership.book.latest == claims
        assert await member.beat(node) == ErrorCode.NONE
        assert await member.commit(node, 1) == ErrorCode.NONE


async def test_a_shard_that_failed_is_read_anew(kafka: KafkaBroker, topic: BackingTopic) -> None:
    """Its node goes on proving itself, so no other would take it."""
    member = Member()
    async with GroupsNode(kafka.bootstrap, topic, 1) as node:
        await node.own(GROUP)
        await member.join(node)
        assert await member.commit(node, 1) == ErrorCode.NONE
        runner = node.runner_of(GROUP)
        runner.fail_on(KeyError("a bug"), "an event")
        assert runner.state is not ACTIVE
        await until(lambda: runner.state is ACTIVE, "it serves again")
        assert await member.beat(node) == ErrorCode.NONE
        assert await member.commit(node, 2) == ErrorCode.NONE
        assert await committed(node) == 2
