"""Many groups are described by few requests, and as if each had been asked about alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from muster.cluster import Cluster, RefusedError, UnspokenError
from muster.groups.many import BATCH_GROUPS, committed_of_each, describe_groups
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.topic_partition import TopicPartition
from tests.test_group_descriptions import ends, metadata

HERE = TopicPartition("orders", 0)


@dataclass
class TwoBrokers:
    """A cluster of two, on which groups are by their names: "c..." of consumers, "e..." Empty, "x..." not there.

    All but "x..." have committed 7 of `orders`. A group in `moved` is refused by every request for several.
    """

    node_ids = (1, 2)
    patience_s = 0.0
    takes_several: bool = True
    describes_consumers: bool = True
    moved: frozenset[str] = frozenset()
    asked: Counter[str] = field(default_factory=Counter)

    async def coordinator(self, group_id: str) -> int:
        self.asked["coordinator"] += 1
        return node_of(group_id)

    def address(self, node_id: int) -> str:
        return f"broker-{node_id}:9092"

    async def send_to_any(self, message: Any, max_version: int | None = None, min_version: int = 0) -> Any:
        return await self.send(1, message, max_version, min_version)

    async def send(
        self, node_id: int, message: Any, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        self.asked[type(message).__name__] += 1
        if min_version and not self.takes_several:
            raise UnspokenError("of one group only")
        answers: dict[type, Callable[[Any, int], Any]] = {
            FindCoordinatorRequest: self._coordinators,
            ConsumerGroupDescribeRequest: self._consumer_groups,
            DescribeGroupsRequest: self._classic_groups,
            OffsetFetchRequest: self._offsets,
            ListGroupsRequest: lambda *_: ListGroupsResponse(groups=[listed("c-1")]),
            MetadataRequest: lambda *_: MetadataResponse(topics=[metadata()]),
            ListOffsetsRequest: lambda *_: ListOffsetsResponse(topics=[ends()]),
        }
        return answers[type(message)](message, node_id)

    def _error(self, name: str, names: list[str]) -> ErrorCode:
        return ErrorCode.NOT_COORDINATOR if name in self.moved and len(names) > 1 else ErrorCode.NONE

    def _coordinators(self, request: FindCoordinatorRequest, _: int) -> FindCoordinatorResponse:
        found = [
            Coordinator(key=name, node_id=node_of(name), host="", port=1, error_code=ErrorCode.NONE)
            for name in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _consumer_groups(
        self, request: ConsumerGroupDescribeRequest, node_id: int
    ) -> ConsumerGroupDescribeResponse:
        if not self.describes_consumers:
            raise UnspokenError("before KIP-848")
        groups = []
        for name in request.group_ids:
            assert node_of(name) == node_id
            error = self._error(name, request.group_ids)
            if not name.startswith("c"):
                error = ErrorCode.GROUP_ID_NOT_FOUND
            groups.append(
                ConsumerGroupDescribeGroup(
                    error_code=error, group_id=name, group_state="Stable", group_epoch=3, assignment_epoch=3,
                    assignor_name="uniform", members=[],
                )
            )  # fmt: skip
        return ConsumerGroupDescribeResponse(groups=groups)

    def _classic_groups(self, request: DescribeGroupsRequest, node_id: int) -> DescribeGroupsResponse:
        groups = []
        for name in request.groups:
            assert node_of(name) == node_id
            is_there = name.startswith("e")
            error = self._error(name, request.groups)
            groups.append(
                DescribedGroup(
                    error_code=error, group_id=name, group_state="Empty" if is_there else "Dead",
                    protocol_type="consumer", protocol_data="range", members=[],
                )
            )  # fmt: skip
        return DescribeGroupsResponse(groups=groups)

    def _offsets(self, request: OffsetFetchRequest, node_id: int) -> OffsetFetchResponse:
        if not request.groups:
            is_there = not request.group_id.startswith("x")
            one = OffsetFetchResponsePartition(partition_index=0, committed_offset=7 if is_there else -1)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=[one])])
        groups = []
        for each in request.groups:
            assert node_of(each.group_id) == node_id
            offset = -1 if each.group_id.startswith("x") else 7
            part = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset)
            error = self._error(each.group_id, [group.group_id for group in request.groups])
            groups.append(
                OffsetFetchResponseGroup(
                    group_id=each.group_id, error_code=error,
                    topics=[OffsetFetchResponseTopics(name="orders", partitions=[part])],
                )
            )  # fmt: skip
        return OffsetFetchResponse(groups=groups)


def node_of(group_id: str) -> int:
    return 1 + len(group_id) % 2


def listed(group_id: str) -> ListedGroup:
    return ListedGroup(group_id=group_id, protocol_type="consumer", group_type="Consumer")


def names(count: int) -> list[str]:
    """Groups of all kinds on both brokers."""
    return [f"{kind}-{'n' * (number % 2)}{number:05}" for number in range(count) for kind in "cex"]


async def test_a_thousand_groups_are_described_by_a_few_requests() -> None:
    brokers, wanted = TwoBrokers(), names(500)
    found = await describe_groups(cast(Cluster, brokers), wanted)
    assert list(found) == [name for name in wanted if not name.startswith("x")], "in the order given"
    kinds = {(name[0], group.group_type, group.state) for name, group in found.items()}
    assert kinds == {("c", "consumer", "Stable"), ("e", "classic", "Empty")}
    assert all(group.coordinator == node_of(name) for name, group in found.items())
    rows = [row for group in found.values() for row in group.progress]
    assert len(rows) == len(found)
    assert {(row.committed_offset, row.lag) for row in rows} == {(7, 3)}
    batches = 2 * -(-len(wanted) // 2 // BATCH_GROUPS)
    assert brokers.asked == {
        "FindCoordinatorRequest": -(-len(wanted) // BATCH_GROUPS),
        "ConsumerGroupDescribeRequest": batches,
        "DescribeGroupsRequest": batches,
        "OffsetFetchRequest": batches,
        "MetadataRequest": 1,
        "ListOffsetsRequest": 1,
    }


@pytest.mark.parametrize(
    "brokers",
    [
        TwoBrokers(takes_several=False),
        TwoBrokers(takes_several=False, describes_consumers=False),
        TwoBrokers(moved=frozenset(names(4)[:6])),
    ],
    ids=["one at a time", "before KIP-848", "some have moved"],
)
async def test_what_a_request_for_several_does_not_tell_is_asked_for_alone(brokers: TwoBrokers) -> None:
    wanted = [name for name in names(4) if brokers.describes_consumers or not name.startswith("c")]
    expected = await describe_groups(cast(Cluster, TwoBrokers()), wanted)
    assert await describe_groups(cast(Cluster, brokers), wanted) == expected
    assert list(expected) == [name for name in wanted if not name.startswith("x")]


async def test_a_consumer_group_that_is_not_described_is_not_taken_for_one_that_is_gone() -> None:
    brokers = TwoBrokers(describes_consumers=False)
    with pytest.raises(Exception, match="c-1 is a consumer group, and the cluster does not answer"):
        await describe_groups(cast(Cluster, brokers), ["e-1", "c-1"])


async def test_an_error_that_stays_is_raised() -> None:
    class Moved(TwoBrokers):
        def _error(self, name: str, names: list[str]) -> ErrorCode:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED

    with pytest.raises(
        RefusedError, match="describing group e-1: the cluster answers GROUP_AUTHORIZATION_FAILED"
    ):
        await describe_groups(cast(Cluster, Moved()), ["e-1", "e-2"])


async def test_offsets_of_many_groups_are_fetched_together() -> None:
    brokers, wanted = TwoBrokers(moved=frozenset(["e-00001"])), ["x-00001", "e-00001", "c-00001"]
    found = await committed_of_each(cast(Cluster, brokers), wanted)
    assert list(found) == wanted
    assert [[(at, each.offset) for at, each in of.items()] for of in found.values()] == [
        [],
        [(HERE, 7)],
        [(HERE, 7)],
    ]
    assert brokers.asked["OffsetFetchRequest"] == 2, "of all, and of the one that was refused"
