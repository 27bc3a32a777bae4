"""What is left of a request when a part of it is refused, and where the refusals stand in the answer."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.security.acls import Operation, Permission
from harness.doubles.topics import Topics
from protocol.codec.codec import spec
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeAssignment,
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeTopicPartitions,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionTopic,
)
from protocol.messages.find_coordinator import (
    Coordinator,
    CoordinatorType,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.messages.sync_group import SyncGroupRequest
from tests.access.world import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTION,
    KnownFacts,
    World,
    acl,
    answer_rows,
    everything,
    named,
)
from tests.conformance.access_requests import REQUESTS_OF
from tests.topics.world import batch

OP = Operation
NAMES_UNTIL = {0: 12, 3: 11, 8: 9, 9: 7}
"""The last version in which topics are named, and are no ids."""
HIDDEN, NOT_THERE, DENIED_GROUP = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)


def world_of_topic(*operations: Operation, **facts: Any) -> World:
    """The client may do these to topic `one` and everything to groups; `two` is there as well."""
    acls = [acl(OP.ALL, GROUP), *(acl(each, TOPIC, "one") for each in operations)]
    return World(acls, KnownFacts(Topics(one=3, two=3), **facts))


# Groups.


def test_coordinators_are_answered_in_the_order_of_the_keys() -> None:
    world = World([acl(OP.DESCRIBE, GROUP, "b")])
    answer = world.answered(
        FindCoordinatorRequest(coordinator_keys=["a", "b", "a"]),
        4,
        FindCoordinatorResponse(coordinators=[Coordinator(key="b", node_id=1, host="h", port=9)]),
    )
    assert world.seen.coordinator_keys == ["b"]
    found = [(each.key, each.error_code, each.node_id, each.host) for each in answer.coordinators]
    refused = ("a", DENIED_GROUP, -1, "")
    assert found == [refused, ("b", 0, 1, "h"), refused]


def test_one_answer_is_that_of_all_share_coordinators() -> None:
    request = FindCoordinatorRequest(key_type=CoordinatorType.SHARE, coordinator_keys=["a", "b"])
    answer = World().answered(request, 6)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    passed = World()
    passed.asked(FindCoordinatorRequest(key_type=CoordinatorType.SHARE, coordinator_keys=["a"]), 5)
    assert passed.seen is not None, "below the version of share groups it is malformed, whoever asks"


def test_refused_descriptions_come_first_and_deletions_last() -> None:
    world = World([acl(OP.DESCRIBE, GROUP, "b"), acl(OP.DELETE, GROUP, "b")])
    described = world.answered(
        DescribeGroupsRequest(groups=["a", "b", "c"]),
        5,
        DescribeGroupsResponse(groups=[DescribedGroup(group_id="b", group_state="Empty")]),
    )
    assert [(each.group_id, each.error_code, each.group_state) for each in described.groups] == [
        ("a", DENIED_GROUP, ""),
        ("c", DENIED_GROUP, ""),
        ("b", 0, "Empty"),
    ]
    deleted = world.answered(
        DeleteGroupsRequest(groups_names=["a", "b", "a"]),
        2,
        DeleteGroupsResponse(results=[DeletableGroupResult(group_id="b")]),
    )
    assert [(each.group_id, each.error_code) for each in deleted.results] == [("b", 0), ("a", DENIED_GROUP)]


def test_operations_are_the_clients_own_and_of_groups_without_an_error() -> None:
    world = World([acl(OP.READ, GROUP, "b"), acl(OP.DESCRIBE, GROUP, "c")])
    rows = [
        DescribedGroup(group_id="b", authorized_operations=3400),
        DescribedGroup(group_id="c", error_code=69),
    ]
    answer = world.answered(
        DescribeGroupsRequest(groups=["b", "c"], include_authorized_operations=True),
        5,
        DescribeGroupsResponse(groups=rows),
    )
    assert [each.authorized_operations for each in answer.groups] == [
        1 << OP.READ | 1 << OP.DESCRIBE,
        -(2**31),
    ]


def test_groups_are_listed_that_may_be_described() -> None:
    listed = [ListedGroup(group_id=name, protocol_type="") for name in ("a", "b")]
    response = ListGroupsResponse(groups=listed)
    one = World([acl(OP.DESCRIBE, GROUP, "b")]).answered(ListGroupsRequest(), 5, response)
    assert [each.group_id for each in one.groups] == ["b"]
    response = ListGroupsResponse(groups=listed)
    whole = World([acl(OP.DESCRIBE, CLUSTER)]).answered(ListGroupsRequest(), 5, response)
    assert [each.group_id for each in whole.groups] == ["a", "b"]


def test_a_group_with_a_topic_that_may_not_be_seen_is_emptied() -> None:
    world = World([acl(OP.DESCRIBE, GROUP), acl(OP.DESCRIBE, TOPIC, "one")])
    for held, target, error in (("one", "one", 0), ("one", "two", HIDDEN), ("two", "one", HIDDEN)):
        response = ConsumerGroupDescribeResponse(groups=[described_group(held, target)])
        (group,) = world.answered(ConsumerGroupDescribeRequest(group_ids=["g"]), 1, response).groups
        assert (group.error_code, group.group_state, len(group.members)) == (
            error,
            "" if error else "Stable",
            0 if error else 1,
        )


def described_group(held: str, target: str) -> ConsumerGroupDescribeGroup:
    def assignment(name: str) -> ConsumerGroupDescribeAssignment:
        partitions = ConsumerGroupDescribeTopicPartitions(topic_id=ZERO_UUID, topic_name=name, partitions=[0])
        return ConsumerGroupDescribeAssignment(topic_partitions=[partitions])

    member = ConsumerGroupDescribeMember(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        assignment=assignment(held),
        target_assignment=assignment(target),
    )
    return ConsumerGroupDescribeGroup(group_id="g", group_state="Stable", members=[member])


def test_a_sync_without_its_protocol_is_refused_for_that_first() -> None:
    bare = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[])
    assert World().answered(bare, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert World().answered(bare, 4).error_code == DENIED_GROUP


def test_an_empty_group_id_of_a_client_without_rights_is_no_invalid_one() -> None:
    for key in (8, 9, 11, 12, 13, 14):
        world = World()
        everyone = named(world)
        request = REQUESTS_OF[key](type(everyone)(*[*_fields(everyone, groups=("",))]), 4)
        assert str(int(DENIED_GROUP)) in str(world.answered(request, 4)), key


def _fields(named: Any, **changes: Any) -> list[Any]:
    return [changes.get(name, getattr(named, name)) for name in named.__dataclass_fields__]


# Offsets.


def commit(*topics: str) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    asked = [OffsetCommitRequestTopic(name=name, partitions=partitions) for name in topics]
    return OffsetCommitRequest(group_id="g", topics=asked)


def committed(*rows: tuple[str, int]) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name, partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=error)]
            )
            for name, error in rows
        ]
    )


def rows_of(answer: Any) -> list[tuple[str, int]]:
    return [(topic.name, topic.partitions[0].error_code) for topic in answer.topics]


def test_what_is_refused_or_absent_comes_in_the_requests_order_before_what_the_group_decides() -> None:
    world = world_of_topic(OP.READ)
    world.rights.change([acl(OP.READ, TOPIC, "absent")])
    answer = world.answered(commit("one", "absent", "two"), 8, committed(("absent", NOT_THERE), ("one", 0)))
    assert [topic.name for topic in world.seen.topics] == ["one", "absent"]
    assert rows_of(answer) == [("absent", NOT_THERE), ("two", HIDDEN), ("one", 0)]


def test_with_no_topic_left_the_group_is_not_asked() -> None:
    world = world_of_topic()
    assert rows_of(world.answered(commit("two", "one"), 8)) == [("two", HIDDEN), ("one", HIDDEN)]
    assert world.seen is None


def test_a_topic_that_is_there_and_one_that_is_not_are_refused_alike() -> None:
    """Nothing but the name tells them apart, in no API that names topics."""
    for key in (0, 2, 3, 8, 9, 19, 21, 23, 28, 32, 37, 47, 61):
        world = World([acl(OP.ALL, GROUP), acl(OP.ALL, TRANSACTION)], KnownFacts(Topics(there=1)))
        base = named(World())
        shown = []
        for topic in ("there", "other"):
            names = type(base)((topic,), (ZERO_UUID,), "gone", ZERO_UUID, ("g",), ("t",))
            version = NAMES_UNTIL.get(key, spec(REQUESTS[key]).max_version)
            request = REQUESTS_OF[key](names, version)
            shown.append(str(world.answered(request, version, answer_rows)).replace(topic, "?"))
        assert shown[0] == shown[1], key
        assert str(int(HIDDEN)) in shown[0], key


def fetch_of(group_id: str, *topics: str) -> OffsetFetchRequestGroup:
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in topics]
    return OffsetFetchRequestGroup(group_id=group_id, topics=asked)


def fetched(group_id: str, *topics: str, error: int = 0) -> OffsetFetchResponseGroup:
    rows = [
        OffsetFetchResponseTopics(
            name=name, partitions=[OffsetFetchResponsePartitions(partition_index=0, committed_offset=5)]
        )
        for name in topics
    ]
    return OffsetFetchResponseGroup(group_id=group_id, topics=rows, error_code=error)


def test_groups_and_topics_of_a_fetch_are_refused_at_their_places() -> None:
    world = World([acl(OP.DESCRIBE, GROUP, "b"), acl(OP.DESCRIBE, TOPIC, "one")])
    asked = [fetch_of("a", "one"), fetch_of("b", "two", "one"), fetch_of("c", "one")]
    answer = world.answered(
        OffsetFetchRequest(groups=asked), 8, OffsetFetchResponse(groups=[fetched("b", "one")])
    )
    assert [each.group_id for each in world.seen.groups] == ["b"]
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("a", DENIED_GROUP),
        ("b", 0),
        ("c", DENIED_GROUP),
    ]
    of_b = [(each.name, each.partitions[0]) for each in answer.groups[1].topics]
    found = [(name, each.error_code, each.committed_offset) for name, each in of_b]
    assert found == [("one", 0, 5), ("two", HIDDEN, -1)]


def test_an_error_of_the_group_wins() -> None:
    world = world_of_topic(OP.DESCRIBE, OP.READ)
    response = OffsetFetchResponse(groups=[fetched("b", error=16)])
    answer = world.answered(OffsetFetchRequest(groups=[fetch_of("b", "two")]), 8, response)
    assert (answer.groups[0].error_code, answer.groups[0].topics) == (16, [])
    asked = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="two", partitions=asked)]
    )
    deleted = world.answered(request, 0, OffsetDeleteResponse(error_code=69))
    assert (deleted.error_code, deleted.topics, world.seen.topics) == (69, [], [])


def test_of_all_topics_those_that_may_not_be_seen_are_left_out() -> None:
    world = world_of_topic(OP.DESCRIBE)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="b", topics=None)])
    answer = world.answered(request, 8, OffsetFetchResponse(groups=[fetched("b", "one", "two")]))
    assert [each.name for each in answer.groups[0].topics] == ["one"]


# Topics.


def metadata_row(name: str | None, error: int = 0, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id)


def test_metadata_by_name_has_no_id_of_what_is_refused_and_by_id_no_name() -> None:
    world = world_of_topic(OP.DESCRIBE)
    one, two = (world.facts.topics.topic_id(name) or b"" for name in ("one", "two"))
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("two", "one", "x")])
    answer = world.answered(by_name, 12, MetadataResponse(topics=[metadata_row("one", 0, one)]))
    assert [(each.name, each.error_code, bytes(each.topic_id)) for each in answer.topics] == [
        ("one", 0, one),
        ("two", HIDDEN, ZERO_UUID),
        ("x", HIDDEN, ZERO_UUID),
    ]
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=each) for each in (two, one)])
    answer = world.answered(by_id, 12, MetadataResponse(topics=[metadata_row("one", 0, one)]))
    assert [(each.name, each.error_code, bytes(each.topic_id)) for each in answer.topics] == [
        ("one", 0, one),
        (None, HIDDEN, two),
    ]


def test_all_topics_are_those_that_may_be_described_and_none_left_is_not_all() -> None:
    rows = [metadata_row("one"), metadata_row("two")]
    for request, version in ((MetadataRequest(topics=None), 12), (MetadataRequest(topics=[]), 0)):
        answer = world_of_topic(OP.DESCRIBE).answered(request, version, MetadataResponse(topics=rows[:]))
        assert [each.name for each in answer.topics] == ["one"]
    # In version 0 an empty list stands for all topics: that is what is left of this request.
    request = MetadataRequest(topics=[MetadataRequestTopic(name="two")])
    answer = world_of_topic(OP.DESCRIBE).answered(request, 0, MetadataResponse(topics=rows[:]))
    assert [(each.name, each.error_code) for each in answer.topics] == [("two", HIDDEN)]


def test_topics_are_made_in_the_name_of_who_asks_for_them() -> None:
    """A25."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("one", "new")])
    rights = [acl(OP.DESCRIBE, TOPIC)]
    for more, seen in (
        ([], ["one"]),
        ([acl(OP.CREATE, TOPIC, "new")], ["one", "new"]),
        ([acl(OP.CREATE, CLUSTER)], ["one", "new"]),
    ):
        world = World([*rights, *more], KnownFacts(Topics(one=1), creates_topics=True))
        answer = world.answered(request, 9, MetadataResponse())
        assert [topic.name for topic in world.seen.topics] == seen
        refused = [(each.name, each.error_code) for each in answer.topics]
        assert refused == ([("new", HIDDEN)] if seen == ["one"] else [])
    world = World(rights, KnownFacts(Topics(one=1), creates_topics=False))
    world.asked(request, 9)
    assert [topic.name for topic in world.seen.topics] == ["one", "new"]


def test_operations_of_topics_and_cluster_are_the_clients_own() -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="one")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = MetadataResponse(topics=[metadata_row("one")])
    answer = world_of_topic(OP.WRITE).answered(request, 9, response)
    assert answer.topics[0].topic_authorized_operations == 1 << OP.WRITE | 1 << OP.DESCRIBE
    assert answer.cluster_authorized_operations == 0, "without DESCRIBE of the cluster"
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    for acls, bits in (
        ([acl(OP.ALTER_CONFIGS, CLUSTER)], 0),
        ([acl(OP.ALTER, CLUSTER)], 1 << OP.ALTER | 1 << OP.DESCRIBE),
        ([acl(OP.ALL, CLUSTER)], 8096),
    ):
        answer = World(acls).answered(cluster, 2, DescribeClusterResponse())
        assert answer.cluster_authorized_operations == bits
    whole = World(everything()).answered(request, 9, MetadataResponse(topics=[metadata_row("one")]))
    assert (whole.topics[0].topic_authorized_operations, whole.cluster_authorized_operations) == (3576, 8096)


def test_a_new_topics_settings_are_shown_with_the_right_to_see_them() -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("a", "b", "c")]
    world = World(
        [acl(OP.CREATE, TOPIC, "a"), acl(OP.CREATE, TOPIC, "c"), acl(OP.DESCRIBE_CONFIGS, TOPIC, "c")]
    )
    answer = world.answered(
        CreateTopicsRequest(topics=topics),
        7,
        CreateTopicsResponse(topics=[created("a"), created("c")]),
    )
    assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
        ("a", 0, None),
        ("b", HIDDEN, "Authorization failed."),
        ("c", 0, None),
    ]
    hidden, _, shown = answer.topics
    assert (hidden.topic_config_error_code, hidden.num_partitions, hidden.configs) == (HIDDEN, -1, [])
    assert (shown.topic_config_error_code, shown.num_partitions, len(shown.configs)) == (0, 1, 1)


def created(name: str) -> CreatableTopicResult:
    config = CreatableTopicConfigs(name="retention.ms", value="1")
    return CreatableTopicResult(
        name=name, error_message=None, num_partitions=1, replication_factor=1, configs=[config]
    )


def test_a_name_that_is_there_twice_or_never_allowed_is_refused_for_that() -> None:
    names = ["twice", "twice", "__cluster_metadata", "new"]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    world = World()
    world.asked(CreateTopicsRequest(topics=topics), 7, lambda request, pending: None)
    assert [topic.name for topic in world.seen.topics] == names[:-1]


def test_topics_are_deleted_by_name_and_by_id_as_they_may_be_seen() -> None:
    world = World(
        [acl(OP.DESCRIBE, TOPIC, "seen"), acl(OP.DELETE, TOPIC, "mine"), acl(OP.DESCRIBE, TOPIC, "gone")],
        KnownFacts(Topics(seen=1, mine=1, hidden=1)),
    )
    seen, hidden = (world.facts.topics.topic_id(name) or b"" for name in ("seen", "hidden"))
    states = [DeleteTopicState(name=name) for name in ("hidden", "never", "seen", "gone", "mine")]
    states += [DeleteTopicState(topic_id=each) for each in (hidden, seen)]
    done = [DeletableTopicResult(name="gone", error_code=3), DeletableTopicResult(name="mine")]
    answer = world.answered(
        DeleteTopicsRequest(topics=states, timeout_ms=1), 6, DeleteTopicsResponse(responses=done)
    )
    assert [topic.name for topic in world.seen.topics] == ["gone", "mine"]
    assert [(each.name, bytes(each.topic_id), each.error_code) for each in answer.responses] == [
        ("hidden", ZERO_UUID, HIDDEN),
        ("never", ZERO_UUID, HIDDEN),
        ("seen", ZERO_UUID, HIDDEN),
        ("gone", ZERO_UUID, NOT_THERE),
        ("mine", ZERO_UUID, 0),
        (None, hidden, HIDDEN),
        ("seen", seen, HIDDEN),
    ]


# Records and transactions.


def produce_to(*topics: str, acks: int = -1, transactional: str | None = None) -> ProduceRequest:
    options: dict[str, Any] = {}
    if transactional is not None:
        options = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = [PartitionProduceData(index=0, records=batch(b"v", **options))]
    asked = [TopicProduceData(name=name, partition_data=data) for name in topics]
    return ProduceRequest(transactional_id=transactional or None, acks=acks, timeout_ms=1, topic_data=asked)


def test_produced_topics_are_refused_at_their_places() -> None:
    world = world_of_topic(OP.WRITE)
    stored = PartitionProduceResponse(index=0, base_offset=7)
    answer = world.answered(
        produce_to("two", "one", "x"),
        9,
        ProduceResponse(responses=[TopicProduceResponse(name="one", partition_responses=[stored])]),
    )
    rows = [(each.name, each.partition_responses[0].error_code) for each in answer.responses]
    assert rows == [("two", HIDDEN), ("one", 0), ("x", HIDDEN)]


def test_without_an_answer_the_connection_is_closed_for_any_refusal() -> None:
    world = world_of_topic(OP.WRITE)
    for topics in (("two",), ("one", "two")):
        pending = world.asked(produce_to(*topics, acks=0), 9, lambda request, pending: pending.no_reply())
        assert pending.dropped_for is not None
        assert "TOPIC_AUTHORIZATION_FAILED" in pending.dropped_for
    assert [topic.name for topic in world.seen.topic_data] == ["one"], "what may be stored is stored"
    passed = world.asked(produce_to("one", acks=0), 9, lambda request, pending: pending.no_reply())
    assert passed.dropped_for is None


def test_records_of_a_transaction_need_the_right_to_its_id_and_an_id() -> None:
    for rights, transactional, error in (
        ([], "t", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ([], "", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ([acl(OP.WRITE, TRANSACTION, "t")], "t", HIDDEN),
    ):
        answer = World(rights).answered(produce_to("one", "two", transactional=transactional), 9)
        found = {each.partition_responses[0].error_code for each in answer.responses}
        assert found == {error}
        assert {part.error_message for each in answer.responses for part in each.partition_responses} == {
            None
        }


def test_an_idempotent_producer_needs_a_right_to_some_topic_or_to_the_cluster() -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    assert World().answered(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for right in (acl(OP.IDEMPOTENT_WRITE, CLUSTER), acl(OP.WRITE, TOPIC, "any")):
        world = World([right])
        world.asked(request, 4)
        assert world.seen == request
    only_read = World([acl(OP.READ, TOPIC, "any")])
    assert only_read.answered(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_one_partition_that_is_refused_keeps_all_from_being_added() -> None:
    world = World(
        [acl(OP.WRITE, TRANSACTION), acl(OP.WRITE, TOPIC, "one"), acl(OP.WRITE, TOPIC, "gone")],
        KnownFacts(Topics(one=1, two=1)),
    )
    names = ("one", "two", "gone", "__consumer_offsets")
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names],
    )
    answer = world.answered(request, 3)
    assert world.seen is None
    found = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_topic_v3_and_below
    }
    not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert found == dict(zip(names, (not_attempted, HIDDEN, NOT_THERE, HIDDEN), strict=True))


def test_transactions_are_described_without_topics_that_may_not_be_seen() -> None:
    world = World([acl(OP.DESCRIBE, TRANSACTION, "b"), acl(OP.DESCRIBE, TOPIC, "one")])
    topics = [TransactionTopic(topic=name, partitions=[0]) for name in ("one", "two")]
    answer = world.answered(
        DescribeTransactionsRequest(transactional_ids=["a", "b"]),
        0,
        DescribeTransactionsResponse(
            transaction_states=[DescribedTransaction(transactional_id="b", topics=topics)]
        ),
    )
    refused, shown = answer.transaction_states
    assert (refused.transactional_id, refused.error_code) == (
        "a",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    assert [each.topic for each in shown.topics] == ["one"]


@pytest.mark.parametrize("served", [True, False])
def test_where_consumer_groups_are_off_that_is_said_to_everybody(served: bool) -> None:
    for key in (68, 69):
        world = World(facts=KnownFacts(Topics(one=1, two=1, three=1), has_consumer_groups=served))
        world.asked(REQUESTS_OF[key](named(world), 1), 1)
        assert (world.seen is not None and _asks_whole(world)) is not served


def _asks_whole(world: World) -> bool:
    group_ids = getattr(world.seen, "group_ids", ["g"])
    return bool(group_ids)


def test_a_deny_of_describe_hides_what_may_be_deleted() -> None:
    acls = [acl(OP.DELETE, TOPIC, "one"), acl(OP.DESCRIBE, TOPIC, "one", Permission.DENY)]
    world = World(acls, KnownFacts(Topics(one=1)))
    answer = world.answered(DeleteTopicsRequest(topic_names=["one"], timeout_ms=1), 5)
    assert [each.error_code for each in answer.responses] == [HIDDEN]
    assert world.seen.topic_names == []
