"""Makes groups of every kind on a server, Muster or Kafka, and reads back what the server answers about them.

All of it goes over the wire by our codec, so that both servers are asked the same in the same words. The
sessions of members are long: they outlive the server that is stopped under them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from harness import heartbeats
from harness.heartbeats import send_heartbeat
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.shared import TopicPartitions
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC, PARTITIONS = "orders", 3
SESSION_MS = 1_800_000
DEADLINE_S = 60.0
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
STABLE, STATIC, EMPTY, SIMPLE, UNICODE = "stable", "static", "empty", "simple", "группа-😀"
CLASSIC_GROUPS = (STABLE, STATIC, EMPTY, SIMPLE, UNICODE)
DELETED, TRANSACTIONAL = "deleted", "transactional"
KIP_848, SHARE, STREAMS = "kip-848", "share", "streams"


def make_topic(client: WireClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic]), 5)
    assert answer.topics[0].error_code == ErrorCode.NONE


def await_coordinator(client: WireClient, groups: Iterable[str]) -> None:
    """Wait until the groups' partitions of the offsets topic exist and are loaded."""

    def ready(group: str) -> bool:
        found = client.ask(FindCoordinatorRequest(key=group), 3).error_code
        return found == ErrorCode.NONE and offsets_error(client, group) not in NOT_YET

    for group in groups:
        wait_until(partial(ready, group), f"the coordinator of {group}", DEADLINE_S)


def make_classic_groups(bootstrap: str) -> None:
    """Make Stable groups with dynamic and static members, Empty ones, one by commits alone, and delete one."""
    with WireClient(bootstrap, "maker") as client:
        await_coordinator(client, (*CLASSIC_GROUPS, DELETED))
        members = join(bootstrap, STABLE, [None, None])
        commit(client, STABLE, {0: 10, 1: 11}, members[0])
        commit(client, STABLE, {0: 12}, members[0])
        commit(client, STATIC, {2: 7}, join(bootstrap, STATIC, ["first", "second"])[1])
        (leaver,) = join(bootstrap, EMPTY, [None])
        commit(client, EMPTY, {0: 1, 1: 2, 2: 3}, leaver)
        identity = MemberIdentity(member_id=leaver[0])
        assert client.ask(LeaveGroupRequest(group_id=EMPTY, members=[identity]), 4).error_code == 0
        for group in (SIMPLE, UNICODE, DELETED):
            commit(client, group, {0: 100, 1: 101})
        forget(client, SIMPLE, 1)
        answer = client.ask(DeleteGroupsRequest(groups_names=[DELETED]), 2)
        assert answer.results[0].error_code == ErrorCode.NONE


def make_newer_groups(bootstrap: str) -> None:
    """On Kafka alone: make a group of each newer kind with one member, and commit offsets in the KIP-848 group."""
    make_consumer_groups(bootstrap)
    with WireClient(bootstrap, "maker") as client:
        await_coordinator(client, (SHARE, STREAMS))
        _joined(client, share_join, 1)
        _joined(client, streams_join, 0)


def make_consumer_groups(bootstrap: str) -> None:
    """Make a KIP-848 group of one member with offsets, and one that its member has left."""
    with WireClient(bootstrap, "maker") as client:
        await_coordinator(client, (KIP_848,))
        joined = _joined(client, lambda: consumer_join(KIP_848), 1)
        assert joined.member_id is not None
        commit(client, KIP_848, {0: 5, 1: 6}, (joined.member_id, joined.member_epoch), version=9)
        leaver = consumer_join(f"{KIP_848}-left")
        _joined(client, lambda: leaver, 1)
        _joined(client, lambda: _leave(leaver), 1)


def make_transactional_offsets(bootstrap: str) -> None:
    """On Kafka alone: commit offsets in a transaction that is committed, and in one that is aborted."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": TRANSACTIONAL})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "kafka-log"})
    producer.init_transactions(DEADLINE_S)
    for partition, end in ((0, producer.commit_transaction), (1, producer.abort_transaction)):
        producer.begin_transaction()
        where = [KafkaPartition(TOPIC, partition, 50 + partition)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), DEADLINE_S)
        end(DEADLINE_S)
    consumer.close()


def consumer_join(group: str) -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"{group}-member",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[TOPIC],
        subscribed_topic_regex="order.*",
        topic_partitions=[],
    )


def _leave(joined: Any) -> Any:
    return ConsumerGroupHeartbeatRequest(
        group_id=joined.group_id, member_id=joined.member_id, member_epoch=-1
    )


def share_join() -> Any:
    return heartbeats.ShareGroupHeartbeatRequest(
        group_id=SHARE, member_id="share-member", member_epoch=0, subscribed_topic_names=[TOPIC]
    )


def streams_join() -> Any:
    changelog = heartbeats.TopicInfo(name="orders-changelog", partitions=0, replication_factor=1)
    subtopology = heartbeats.Subtopology(
        subtopology_id="0", source_topics=[TOPIC], state_changelog_topics=[changelog]
    )
    return heartbeats.StreamsGroupHeartbeatRequest(
        group_id=STREAMS,
        member_id="streams-member",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        topology=heartbeats.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[heartbeats.KeyValue(key="zone", value="a")],
    )


def _joined(client: WireClient, request: Any, version: int) -> heartbeats.HeartbeatAnswer:
    """Send a heartbeat until the coordinator accepts it; return the response, which must have no error."""

    def sent() -> heartbeats.HeartbeatAnswer | None:
        answer = send_heartbeat(client, request(), version)
        return None if answer.error_code in NOT_YET else answer

    answer = wait_until(sent, "a heartbeat is taken", DEADLINE_S)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def join(bootstrap: str, group: str, instances: list[str | None]) -> list[tuple[str, int]]:
    """Let members join together, the first as leader; return their ids and generations. No member leaves."""
    clients = [WireClient(bootstrap, f"{group}-{number}") for number in range(len(instances))]
    requests = [_join_request(group, instance) for instance in instances]
    for client, request in zip(clients, requests, strict=True):
        if request.group_instance_id is None:
            request.member_id = client.ask(request, 5).member_id
    for client, request in zip(clients, requests, strict=True):
        client.send(request, 5)
    answers = [client.receive() for client in clients]
    assert {answer.error_code for answer in answers} == {0}, answers
    if len({answer.generation_id for answer in answers}) > 1:  # A member missed the first generation.
        raise AssertionError(f"not one generation: {answers}")
    _sync(group, clients, requests, answers)
    for client in clients:
        client.close()
    return [(answer.member_id, answer.generation_id) for answer in answers]


def _join_request(group: str, instance: str | None) -> JoinGroupRequest:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]), 0)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS // 2,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def _sync(
    group: str, clients: list[WireClient], requests: list[JoinGroupRequest], answers: list[Any]
) -> None:
    """Send SyncGroup for every member, with the leader's assignment: partition n to member n."""
    assignments = [
        SyncGroupRequestAssignment(
            member_id=answer.member_id,
            assignment=encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[TopicPartitions(topic=TOPIC, partitions=[number])]
                ),
                0,
            ),
        )
        for number, answer in enumerate(answers)
    ]
    for client, request, answer in zip(clients, requests, answers, strict=True):
        mine = assignments if answer.member_id == answer.leader else []
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=request.group_instance_id,
            assignments=mine,
        )
        client.send(sync, 3)
    assert {client.receive().error_code for client in clients} == {0}


def commit(
    client: WireClient,
    group: str,
    offsets: dict[int, int],
    member: tuple[str, int] = ("", -1),
    version: int = 8,
) -> None:
    """Commit offsets, each with its own leader epoch and metadata."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=partition,
            committed_metadata=f"note {offset}",
        )
        for partition, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member[0],
        generation_id_or_member_epoch=member[1],
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
    )
    answer = client.ask(request, version)
    assert {row.error_code for row in answer.topics[0].partitions} == {0}, answer


def forget(client: WireClient, group: str, partition: int) -> None:
    """Delete one committed offset."""
    doomed = OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
    )
    answer = client.ask(OffsetDeleteRequest(group_id=group, topics=[doomed]), 0)
    assert answer.error_code == 0
    assert answer.topics[0].partitions[0].error_code == 0


# What a server says.


def offsets_error(client: WireClient, group: str) -> int:
    answer = client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8)
    return int(answer.groups[0].error_code)


def offsets_of(client: WireClient, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """The offset, leader epoch and metadata of each committed partition, once the group's shard is loaded."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])

    def fetched() -> Any:
        answer = client.ask(request, 8).groups[0]
        return None if answer.error_code in NOT_YET else answer

    answer = wait_until(fetched, f"offsets of {group}", DEADLINE_S)
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, row.partition_index): (row.committed_offset, row.committed_leader_epoch, row.metadata)
        for topic in answer.topics
        for row in topic.partitions
    }


def report(bootstrap: str, groups: Iterable[str]) -> dict[str, Any]:
    """What is described of each group, its members of either protocol by id, and the offsets that it has."""
    with WireClient(bootstrap, "reporter") as client:
        found: dict[str, Any] = {}
        for group in groups:
            await_coordinator(client, [group])
            described = client.ask(DescribeGroupsRequest(groups=[group]), 6).groups[0]
            members = {member.member_id: member for member in described.members}
            of_consumers = client.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]
            # What it has depends on the ids of topics, and its epoch on when its expression was resolved.
            consumers = {
                each.member_id: (each.member_epoch, each.member_type, each.subscribed_topic_regex)
                for each in of_consumers.members
            }
            found[group] = (
                consumers,
                described.group_state,
                described.protocol_type,
                described.protocol_data,
                members,
                offsets_of(client, group),
            )
        return found


def listed(bootstrap: str) -> dict[str, tuple[str, str]]:
    """The state and protocol type of every group by id, once every shard is loaded."""
    with WireClient(bootstrap, "reporter") as client:

        def asked() -> Any:
            answer = client.ask(ListGroupsRequest(), 5)
            return None if answer.error_code in NOT_YET else answer

        answer = wait_until(asked, "groups are listed", DEADLINE_S)
        return {group.group_id: (group.group_state, group.protocol_type) for group in answer.groups}
