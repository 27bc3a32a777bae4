"""How a group of either type is described, whatever the broker knows of such groups: by a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from rich.console import Console

from muster.cluster import Cluster, ClusterError, RefusedError, UnspokenError
from muster.groups import tables
from muster.groups.descriptions import GroupDescription, MemberDescription, describe_group, require_no_members
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.topic_partition import TopicPartition

PARTITIONS = 4
ORDERS = [TopicPartition("orders", number) for number in range(PARTITIONS)]
Answer = Callable[[], Any]


def no_api() -> Any:
    raise UnspokenError("the broker offers no version of ConsumerGroupDescribeRequest that we speak")


def answered(group: ConsumerGroupDescribeGroup) -> Answer:
    return lambda: ConsumerGroupDescribeResponse(groups=[group])


def refused(error: ErrorCode) -> Answer:
    return answered(ConsumerGroupDescribeGroup(group_id="g", error_code=error))


def partitions(*numbers: int) -> ConsumerGroupDescribeAssignment:
    topic = ConsumerGroupDescribeTopicPartitions(
        topic_id=b"T" * 16, topic_name="orders", partitions=list(numbers)
    )
    return ConsumerGroupDescribeAssignment(topic_partitions=[topic] if numbers else [])


def member(
    member_id: str, has: tuple[int, ...], is_to_have: tuple[int, ...], kind: int
) -> ConsumerGroupDescribeMember:
    return ConsumerGroupDescribeMember(
        member_id=member_id,
        member_epoch=3,
        client_id="app",
        client_host="/10.0.0.1",
        subscribed_topic_names=["orders"],
        assignment=partitions(*has),
        target_assignment=partitions(*is_to_have),
        member_type=kind,
    )


GROUP = ConsumerGroupDescribeGroup(
    group_id="g",
    group_state="Reconciling",
    group_epoch=5,
    assignment_epoch=4,
    assignor_name="uniform",
    members=[member("new", (3, 2, 0), (3, 2), 1), member("old", (), (1, 0), 0), member("any", (), (), -1)],
)


class ClusterInMemory:
    """Answers as one broker that has the topic `orders`, whose logs end at 10, and no committed offset."""

    node_ids = (1,)
    patience_s = 15.0

    def __init__(
        self, consumer_groups: Answer, classic_state: str = "Dead", listed: tuple[ListedGroup, ...] = ()
    ) -> None:
        self._answers: dict[type, Answer] = {
            ConsumerGroupDescribeRequest: consumer_groups,
            DescribeGroupsRequest: lambda: DescribeGroupsResponse(groups=[classic(classic_state)]),
            ListGroupsRequest: lambda: ListGroupsResponse(groups=list(listed)),
            OffsetFetchRequest: lambda: OffsetFetchResponse(topics=[]),
            MetadataRequest: lambda: MetadataResponse(topics=[metadata()]),
            ListOffsetsRequest: lambda: ListOffsetsResponse(topics=[ends()]),
        }

    async def coordinator(self, group_id: str) -> int:
        return 1

    def address(self, node_id: int) -> str:
        return "localhost:9092"

    async def send(self, node_id: int, message: Any, max_version: int | None = None) -> Any:
        return self._answers[type(message)]()

    async def send_to_any(self, message: Any, max_version: int | None = None) -> Any:
        return self._answers[type(message)]()


def classic(state: str) -> DescribedGroup:
    error = ErrorCode.GROUP_ID_NOT_FOUND if state == "Dead" else ErrorCode.NONE
    return DescribedGroup(
        error_code=error,
        group_id="g",
        group_state=state,
        protocol_type="consumer",
        protocol_data="range",
        members=[],
    )


def metadata() -> MetadataResponseTopic:
    found = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1], error_code=0
        )
        for number in range(PARTITIONS)
    ]
    return MetadataResponseTopic(error_code=0, name="orders", partitions=found)


def ends() -> ListOffsetsTopicResponse:
    found = [
        ListOffsetsPartitionResponse(partition_index=number, error_code=0, offset=10)
        for number in range(PARTITIONS)
    ]
    return ListOffsetsTopicResponse(name="orders", partitions=found)


def cluster_of(consumer_groups: Answer, classic_state: str = "Dead") -> Cluster:
    return cast(Cluster, ClusterInMemory(consumer_groups, classic_state))


async def described(consumer_groups: Answer, classic_state: str = "Dead") -> GroupDescription:
    return await describe_group(cluster_of(consumer_groups, classic_state), "g")


async def test_a_consumer_group_has_epochs_and_each_member_what_it_has_and_is_to_have() -> None:
    found = await described(answered(GROUP))
    assert (found.group_type, found.state, found.protocol_type, found.protocol) == (
        "consumer",
        "Reconciling",
        "consumer",
        "uniform",
    )
    assert (found.group_epoch, found.target_assignment_epoch) == (5, 4)
    who = (None, "app", "/10.0.0.1")
    assert found.members == (
        MemberDescription("new", *who, (ORDERS[0], *ORDERS[2:]), 3, tuple(ORDERS[2:]), True),
        MemberDescription("old", *who, (), 3, tuple(ORDERS[:2]), False),
        MemberDescription("any", *who, (), 3, (), None),
    )
    assert [(row.partition, row.member_id, row.log_end_offset) for row in found.progress] == [
        (number, "new", 10) for number in (0, 2, 3)
    ]


@pytest.mark.parametrize(
    "consumer_groups",
    [no_api, refused(ErrorCode.GROUP_ID_NOT_FOUND), refused(ErrorCode.UNSUPPORTED_VERSION)],
    ids=["a broker before KIP-848", "a classic group", "the protocol is switched off"],
)
async def test_any_other_group_is_described_as_a_classic_one(consumer_groups: Answer) -> None:
    found = await described(consumer_groups, "Stable")
    assert (found.group_type, found.state, found.protocol) == ("classic", "Stable", "range")
    assert (found.group_epoch, found.target_assignment_epoch) == (None, None)
    with pytest.raises(ClusterError, match=r"^there is no group g$"):
        await described(consumer_groups, "Dead")


NOT_ANSWERED = [no_api, refused(ErrorCode.UNSUPPORTED_VERSION)]


@pytest.mark.parametrize("consumer_groups", NOT_ANSWERED, ids=["not offered", "switched off"])
async def test_a_consumer_group_that_is_not_described_is_not_taken_for_one_that_is_gone(
    consumer_groups: Answer,
) -> None:
    """Nor are its offsets reset: DescribeGroups calls a consumer group Dead, members or not."""
    listed = (ListedGroup(group_id="g", protocol_type="consumer", group_type="Consumer"),)
    cluster = cast(Cluster, ClusterInMemory(consumer_groups, "Dead", listed))
    sentence = "^g is a consumer group, and the cluster does not answer ConsumerGroupDescribe"
    with pytest.raises(ClusterError, match=sentence):
        await describe_group(cluster, "g")
    with pytest.raises(ClusterError, match=sentence):
        await require_no_members(cluster, "g")


@pytest.mark.parametrize("consumer_groups", NOT_ANSWERED, ids=["not offered", "switched off"])
async def test_a_group_that_is_not_there_may_be_reset_whatever_else_is_listed(
    consumer_groups: Answer,
) -> None:
    others = (
        ListedGroup(group_id="g", protocol_type="consumer"),
        ListedGroup(group_id="other", protocol_type="consumer", group_type="consumer"),
    )
    await require_no_members(cast(Cluster, ClusterInMemory(consumer_groups, "Dead", others)), "g")


async def test_a_refusal_is_reported_and_not_taken_for_a_classic_group() -> None:
    with pytest.raises(RefusedError, match="GROUP_AUTHORIZATION_FAILED"):
        await described(refused(ErrorCode.GROUP_AUTHORIZATION_FAILED), "Stable")


async def test_a_consumer_group_with_members_may_not_be_reset() -> None:
    """DescribeGroups says of such a group that it is Dead, which a group that may be reset is as well."""
    with pytest.raises(ClusterError, match=r"group g has 3 live members \(state Reconciling\)"):
        await require_no_members(cluster_of(answered(GROUP)), "g")
    empty = ConsumerGroupDescribeGroup(group_id="g", group_state="Empty", group_epoch=7)
    await require_no_members(cluster_of(answered(empty)), "g")


def static_member(instance_id: str, epoch: int) -> ConsumerGroupDescribeMember:
    return replace(member(instance_id, (), (), 1), instance_id=instance_id, member_epoch=epoch)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("a", 3)], "group g has 1 live member (state Reconciling); stop it first"),
        ([("a", 3), ("b", -2)], "group g has 1 live member (state Reconciling); stop it first"),
        ([("a", 3), ("b", 0)], "group g has 2 live members (state Reconciling); stop them first"),
        (
            [("inst-1", -2)],
            "group g keeps the place of 1 static member that has left for now (inst-1): wait until its session is "
            "over (45 s unless changed), or remove it",
        ),
        (
            [("a", -2), ("b", -2)],
            "group g keeps the places of 2 static members that have left for now (a, b): wait until their "
            "sessions are over (45 s unless changed), or remove them",
        ),
    ],
)
async def test_who_keeps_a_group_from_being_reset_is_said(
    members: list[tuple[str, int]], sentence: str
) -> None:
    group = replace(GROUP, members=[static_member(name, epoch) for name, epoch in members])
    with pytest.raises(ClusterError) as refusal:
        await require_no_members(cluster_of(answered(group)), "g")
    assert str(refusal.value) == sentence


@pytest.fixture
async def reconciling() -> GroupDescription:
    return await described(answered(GROUP))


async def test_people_see_it_under_the_names_of_kafkas_own_tool(reconciling: GroupDescription) -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(tables.description(reconciling), highlight=False)
    heading, *lines = capture.get().splitlines()
    assert heading == (
        "group g: Reconciling, 3 members, type consumer, assignment strategy uniform, group epoch 5, "
        "target assignment epoch 4, coordinator 1 at localhost:9092"
    )
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]
    epochs = ["current epoch", "current assignment", "target epoch", "target assignment"]
    assert rows[0][-5:] == [*epochs, "upgraded"]
    assert rows[1][-5:] == ["3", "orders-0 orders-2 orders-3", "4", "orders-2 orders-3", "true"]
    assert rows[2][-5:] == ["3", "-", "4", "orders-0 orders-1", "false"]
    assert rows[3][-5:] == ["3", "-", "4", "-", "-"]


@pytest.mark.parametrize("kinds", [(1,), (0,), (1, -1), (-1,)])
async def test_who_is_upgraded_is_shown_only_where_some_members_are_and_some_are_not(
    kinds: tuple[int, ...],
) -> None:
    """As kafka-consumer-groups has it."""
    group = replace(GROUP, members=[member(f"m{kind}", (0,), (0,), kind) for kind in kinds])
    console = Console(width=200)
    with console.capture() as capture:
        console.print(tables.description(await described(answered(group))), highlight=False)
    heading, columns, *_ = capture.get().splitlines()
    assert f", {len(kinds)} member{'s' if len(kinds) > 1 else ''}, " in heading
    assert columns.rstrip().endswith("target assignment")


async def test_programs_read_it_beside_what_classic_groups_have(reconciling: GroupDescription) -> None:
    value = tables.description_json(reconciling)
    assert (value["group_type"], value["group_epoch"], value["target_assignment_epoch"]) == ("consumer", 5, 4)
    member = value["members"][1]
    assert (member["member_epoch"], member["upgraded"]) == (3, False)
    assert (member["partitions"], member["target_partitions"]) == ([], ["orders-0", "orders-1"])
    plain = tables.description_json(await described(no_api, "Stable"))
    assert (plain["group_type"], plain["group_epoch"], plain["members"]) == ("classic", None, [])
