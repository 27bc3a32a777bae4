"""Topics are made, grown, emptied, deleted and made again; and what tools ask of a node beside."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.shared import TopicPartitions
from tests.conformance.admin_lines import (
    ACLS,
    CONFIG_RESOURCES,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    LOG_DIRS,
    QUOTAS,
)
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import (
    AT_MS,
    ask,
    eventually,
    make_topic,
    produce,
    quietly,
    topic_name,
    until_led,
)
from tests.topics.world import batch

NODE: Final = 1
NOT_SHOWN: Final = ("min.insync.replicas", "delete.retention.ms")
"""Kafka has a dynamic default of its own for the first (KIP-966); another scenario alters that of the second."""
IDS_SINCE: Final = 6


def created(name: str, partitions: int = -1, replicas: int = -1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)


def config(name: str, value: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name, value=value)]


def assigned(*brokers: int, first: int = 0) -> list[CreatableReplicaAssignment]:
    """One partition on each of `brokers`."""
    return [
        CreatableReplicaAssignment(partition_index=index, broker_ids=[broker])
        for index, broker in enumerate(brokers, first)
    ]


def tidy_created(reply: Any) -> None:
    """Kafka speaks of log directories where there are too few brokers; its own default is not ours."""
    for topic in reply.topics:
        if topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            topic.error_message = "no such factor"
        topic.configs = [each for each in topic.configs or [] if each.name not in NOT_SHOWN]


@scenario("6 CreateTopics", versions=CREATE_TOPICS)
async def topics_are_made(run: Run, version: int) -> None:
    names = [topic_name(run, suffix) for suffix in ("plain", "default", "placed", "own.dot")]
    topics = [
        created(names[0], 3, 1, configs=config("retention.ms", "99")),
        created(names[2], assignments=assigned(NODE, NODE)),
        created(names[3], 1, 1, configs=config("cleanup.policy", "compact,delete")),
    ]
    if version >= 4:
        topics.append(created(names[1]))
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    request.validate_only = True
    await ask(run, request, version, "only checked", tidy_created)
    request.validate_only = False
    reply = await ask(run, request, version, tidy=tidy_created)
    run.expect(all(topic.error_code == 0 for topic in reply.topics), "all are made")
    for topic in topics:
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
        )
        found = await eventually(run, asked, 12, lambda seen: seen.topics[0].error_code == 0)
        run.saw(f"partitions of {topic.name}", len(found.topics[0].partitions))


@scenario("6 CreateTopics: refusals", versions=CREATE_TOPICS)
async def topics_that_cannot_be_made(run: Run, version: int) -> None:
    there = await make_topic(run, "is.there")
    new = topic_name(run, "new")
    for note, topic in {
        "is there": created(there, 1, 1),
        "collides": created(there.replace(".", "_"), 1, 1),
        "no name": created("", 1, 1),
        "a dot": created(".", 1, 1),
        "two dots": created("..", 1, 1),
        "a blank": created("a b", 1, 1),
        "too long": created("x" * 250, 1, 1),
        "no partitions": created(new, 0, 1),
        "negative partitions": created(new, -2, 1),
        "no replicas": created(new, 1, 0),
        "two replicas": created(new, 1, 2),
        "negative replicas": created(new, 1, -2),
        "unknown setting": created(new, 1, 1, configs=config("foo", "1")),
        "bad value": created(new, 1, 1, configs=config("retention.ms", "x")),
        "null value": created(new, 1, 1, configs=config("retention.ms", None)),
        "small segments": created(new, 1, 1, configs=config("segment.bytes", "10")),
        "placed and counted": created(new, 1, -1, assignments=assigned(NODE)),
        "placed and replicated": created(new, -1, 1, assignments=assigned(NODE)),
        "placed elsewhere": created(new, assignments=assigned(7)),
        "placed with a gap": created(new, assignments=assigned(NODE, first=1)),
        "placed twice": created(new, assignments=assigned(NODE) * 2),
    }.items():
        await ask(run, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version, note, tidy_created)
    twice = CreateTopicsRequest(topics=[created(new, 1, 1), created(new, 2, 1)], timeout_ms=10_000)
    await ask(run, twice, version, "named twice", tidy_created)


def deletion(names: list[str], version: int) -> DeleteTopicsRequest:
    if version >= IDS_SINCE:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000)
    return DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)


@scenario("6 DeleteTopics", versions=DELETE_TOPICS)
async def topics_are_deleted(run: Run, version: int) -> None:
    names = [await make_topic(run, suffix) for suffix in ("one", "two")]
    await ask(run, deletion([names[0], topic_name(run, "nope")], version), version)
    await ask(run, deletion([names[1], names[1]], version), version, "named twice")
    await ask(run, deletion([], version), version, "none")
    if version >= IDS_SINCE:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=names[1])])
        topic_id = (await quietly(run, asked, 12)).topics[0].topic_id
        for note, state in {
            "neither": DeleteTopicState(name=None),
            "both": DeleteTopicState(name=names[1], topic_id=topic_id),
            "unknown id": DeleteTopicState(name=None, topic_id=b"\x07" * 16),
            "by id": DeleteTopicState(name=None, topic_id=topic_id),
        }.items():
            await ask(run, DeleteTopicsRequest(topics=[state], timeout_ms=10_000), version, note)


@scenario("6 a topic made again")
async def a_topic_made_again_is_another(run: Run) -> None:
    """A request with the old id is answered that the topic is gone."""
    name = await make_topic(run)
    await produce(run, name, batch(b"old", at_ms=AT_MS))

    async def topic_id(after: bytes | None = None) -> bytes:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        reply = await eventually(
            run, asked, 12, lambda seen: not seen.topics[0].error_code and seen.topics[0].topic_id != after
        )
        return bytes(reply.topics[0].topic_id)

    def fetch(of: bytes) -> FetchRequest:
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=of, partitions=[asked])]
        return FetchRequest(max_wait_ms=10, min_bytes=0, max_bytes=1 << 20, topics=topics)

    def errors(reply: Any) -> list[int]:
        return [each.error_code for topic in reply.responses for each in topic.partitions]

    old = await topic_id()
    run.saw("by its id", errors(await quietly(run, fetch(old), 13)))
    await ask(run, deletion([name], 5), 5)
    gone = ErrorCode.UNKNOWN_TOPIC_ID
    await eventually(run, fetch(old), 13, lambda reply: gone in (reply.error_code, *errors(reply)))
    await make_topic(run)
    new = await topic_id(after=old)
    run.saw("by the old id", errors(await quietly(run, fetch(old), 13)))
    reply = await quietly(run, fetch(new), 13)
    run.saw(
        "by the new id", [(each.error_code, each.high_watermark) for each in reply.responses[0].partitions]
    )


@scenario("6 CreatePartitions", versions=CREATE_PARTITIONS)
async def partitions_are_added_to_a_topic(run: Run, version: int) -> None:
    name = await make_topic(run)

    async def grow(
        note: str, topic: str, count: int, *brokers: list[int], validate_only: bool = False
    ) -> None:
        placed = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers] or None
        asked = CreatePartitionsTopic(name=topic, count=count, assignments=placed)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=validate_only)
        await ask(run, request, version, note)

    await grow("no more", name, 2)
    await grow("fewer", name, 1)
    await grow("none", name, 0)
    await grow("unknown", topic_name(run, "nope"), 3)
    await grow("placed elsewhere", name, 3, [7])
    await grow("placed nowhere", name, 3, [])
    await grow("too few placed", name, 4, [NODE])
    await grow("only checked", name, 9, validate_only=True)
    await grow("placed", name, 3, [NODE])
    await until_led(run, name, 3)
    await grow("more", name, 5)
    await until_led(run, name, 5)
    twice = [CreatePartitionsTopic(name=name, count=count, assignments=None) for count in (6, 7)]
    await ask(run, CreatePartitionsRequest(topics=twice, timeout_ms=10_000), version, "named twice")


def records_below(topic: str, *offsets: tuple[int, int]) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=10_000
    )


@scenario("6 DeleteRecords", versions=DELETE_RECORDS)
async def records_are_deleted(run: Run, version: int) -> None:
    name = await make_topic(run)
    for _ in range(4):
        await produce(run, name, batch(b"a", b"b", at_ms=AT_MS))
    for note, offsets in {
        "some": [(0, 3)],
        "fewer": [(0, 1)],
        "named twice": [(0, 7), (0, 5)],
        "none": [(1, 0)],
        "all of nothing": [(1, -1)],
    }.items():
        await ask(run, records_below(name, *offsets), version, note)
    await ask(run, DeleteRecordsRequest(topics=[]), version, "nothing")
    asked = [
        FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (4, 5)
    ]
    for partition in asked:
        topics = [FetchTopic(topic=name, partitions=[partition])]
        await ask(run, FetchRequest(max_wait_ms=10, min_bytes=0, max_bytes=1 << 20, topics=topics), 12)
    await ask(run, records_below(name, (0, -1)), version, "all")
    await ask(run, FetchRequest(max_wait_ms=10, min_bytes=0, max_bytes=1 << 20, topics=topics), 12)


@scenario("6 DeleteRecords: refusals", versions=DELETE_RECORDS)
async def records_that_cannot_be_deleted(run: Run, version: int) -> None:
    name = await make_topic(run)
    compacted = await make_topic(run, "compacted", cleanup_policy="compact")
    both = await make_topic(run, "both", cleanup_policy="compact,delete")
    for topic in (name, both):
        await produce(run, topic, batch(b"a", b"b", at_ms=AT_MS))
    for topic, index, offset in (
        (name, 0, 3),
        (name, 0, -2),
        (name, 9, 0),
        (name, -1, 0),
        (compacted, 0, 0),
        (compacted, 0, -1),
        (both, 0, 1),
        (topic_name(run, "nope"), 0, 0),
        ("__consumer_offsets", 0, 0),
        ("", 0, 0),
    ):
        await ask(run, records_below(topic, (index, offset)), version, f"{topic} {index} {offset}")


def tidy_log_dirs(reply: Any) -> None:
    for result in reply.results:
        result.log_dir = "the directory"
        for name in ("total_bytes", "usable_bytes"):
            setattr(result, name, "some" if getattr(result, name) > 0 else getattr(result, name))


@scenario("6 DescribeLogDirs", versions=LOG_DIRS)
async def log_directories_are_described(run: Run, version: int) -> None:
    name, other = await make_topic(run), await make_topic(run, "other", 1)
    for size in (10, 1000):
        await produce(run, name, batch(b"x" * size, at_ms=AT_MS))
    asked = [
        DescribableLogDirTopic(topic=name, partitions=[1, 0, 7]),
        DescribableLogDirTopic(topic=topic_name(run, "nope"), partitions=[0]),
    ]
    await ask(run, DescribeLogDirsRequest(topics=asked), version, "some", tidy_log_dirs)
    await ask(run, DescribeLogDirsRequest(topics=[]), version, "none", tidy_log_dirs)
    reply = await quietly(run, DescribeLogDirsRequest(topics=None), version)
    mine = [topic for topic in reply.results[0].topics if topic.name in (name, other)]
    run.saw("all", sorted((t.name, p.partition_index, p.partition_size) for t in mine for p in t.partitions))


@scenario("6 ElectLeaders", versions=ELECT_LEADERS)
async def leaders_need_no_election(run: Run, version: int) -> None:
    name = await make_topic(run)
    asked = [
        TopicPartitions(topic=name, partitions=[0, 1, 7]),
        TopicPartitions(topic=topic_name(run, "nope"), partitions=[0]),
    ]
    for kind in (0, 1, 9) if version else (0,):
        request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
        await ask(run, request, version, f"kind {kind}")
    reply = await quietly(run, ElectLeadersRequest(topic_partitions=None), version)
    results = [each for each in reply.replica_election_results if each.topic == name]
    run.saw("all", results)


@scenario("6 ListPartitionReassignments")
async def nothing_moves(run: Run) -> None:
    await ask(run, ListPartitionReassignmentsRequest(topics=None), 0)
    topics = [ListPartitionReassignmentsTopics(name=topic_name(run, "nope"), partition_indexes=[0])]
    await ask(run, ListPartitionReassignmentsRequest(topics=topics), 0, "unknown")


@scenario("6 ACLs", versions=ACLS)
async def there_is_no_authorizer(run: Run, version: int) -> None:
    matches: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    for kind in (1, 77):
        matches |= {
            "resource_type_filter": kind,
            "pattern_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
        }
        await ask(run, DescribeAclsRequest(**matches), version, f"kind {kind}")
    acl = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=2, permission_type=3
    )
    await ask(run, CreateAclsRequest(creations=[acl] * 2), version)
    await ask(run, CreateAclsRequest(creations=[]), version, "none")
    await ask(
        run, DeleteAclsRequest(filters=[DeleteAclsFilter(**matches | {"resource_type_filter": 1})]), version
    )


@scenario("6 DescribeClientQuotas", versions=QUOTAS, in_turn="quotas")
async def no_entity_has_a_quota(run: Run, version: int) -> None:
    for parts in (
        [],
        [("user", 0, "a")],
        [("user", 1, None)],
        [("user", 2, None), ("client-id", 0, "b")],
        [("foo", 0, "a")],
        [("", 0, "a")],
        [("user", 0, None)],
        [("user", 1, "x")],
        [("user", 2, "x")],
        [("user", 9, None)],
        [("user", 2, None), ("user", 2, None)],
        [("ip", 0, "1.1.1.1"), ("user", 0, "a")],
        [("ip", 0, "1.1.1.1"), ("client-id", 2, None)],
    ):
        asked = [ComponentData(entity_type=kind, match_type=how, match=what) for kind, how, what in parts]
        await ask(run, DescribeClientQuotasRequest(components=asked), version, str(parts))


@scenario("6 ListConfigResources", versions=CONFIG_RESOURCES)
async def what_has_settings_is_listed(run: Run, version: int) -> None:
    """Kafka lists its loggers too, which have no settings here."""
    name = await make_topic(run)
    for kinds in ([], [2], [4], [2, 4]) if version else ([],):
        reply = await quietly(run, ListConfigResourcesRequest(resource_types=kinds), version)
        listed = {(each.resource_name, each.resource_type) for each in reply.config_resources}
        run.saw(f"{kinds}", [reply.error_code, sorted(listed & {(name, 2), (str(NODE), 4)})])
    if version:
        for kind in (0, 1, 3, 99):
            await ask(run, ListConfigResourcesRequest(resource_types=[kind]), version, f"kind {kind}")
