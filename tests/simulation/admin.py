"""What an administrator asks of the groups, without heed of what they are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.codec.primitives import ZERO_UUID
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
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
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.profile import GROUPS
from tests.simulation.timeline import Task

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


def let_an_admin_work(simulation: Simulation) -> None:
    group_id = simulation.random.choice(GROUPS)
    partition = OffsetDeleteRequestPartition(partition_index=simulation.random.randrange(2))
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[partition])
    identity = MemberIdentity(
        member_id="", group_instance_id=f"i{simulation.random.randrange(4)}", reason="by hand"
    )
    requests = [
        (DeleteGroupsRequest(groups_names=list(GROUPS)), 2),
        (OffsetDeleteRequest(group_id=group_id, topics=[topic]), 0),
        (LeaveGroupRequest(group_id=group_id, members=[identity]), 5),
        (_commit_of_a_stranger(simulation, group_id), 9),
        (DescribeGroupsRequest(groups=list(GROUPS)), 6),
        (ListGroupsRequest(), 5),
        (_fetch_of_everything(simulation), 10),
    ]
    request, version = simulation.random.choice(requests)
    Task(simulation.network.call("admin", request, version, 10_000))


def _commit_of_a_stranger(simulation: Simulation, group_id: str) -> OffsetCommitRequest:
    """Of a consumer that manages its partitions by itself: good only while the group is Empty (O5)."""
    partition = OffsetCommitRequestPartition(partition_index=3, committed_offset=next(simulation.offsets))
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, topics=[topic])


def _fetch_of_everything(simulation: Simulation) -> OffsetFetchRequest:
    """All groups' offsets by the ids of topics, as `kafka-consumer-groups --describe` wants them."""
    topics = [
        OffsetFetchRequestTopics(
            topic_id=simulation.topics.topic_id(name) or ZERO_UUID,
            partition_indexes=list(range(simulation.topics.partition_count(name) or 0)),
        )
        for name in simulation.topics.names()
    ]
    groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics) for group_id in GROUPS]
    return OffsetFetchRequest(groups=groups)
