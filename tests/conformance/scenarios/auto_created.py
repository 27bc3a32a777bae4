"""Topics that are made because a client asked for them: answered as unknown, and made behind the answer."""

from __future__ import annotations

from typing import Any

from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.admin_lines import CREATE_TOPICS, METADATA
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import ask, eventually, make_topic, quietly, topic_name
from tests.topics.requests import produce_request
from tests.topics.world import batch

MAKING = "delayed"
"""The configuration of which `auto.create.topics.enable` is true."""
CLUSTER_METADATA = "__cluster_metadata"
CREATION_FLAG_SINCE = 4


def tidy(reply: Any) -> None:
    """Mask the cluster's id, which each cluster has of its own."""
    reply.cluster_id = "an id" if reply.cluster_id else reply.cluster_id


def metadata_of(*names: str, may_make: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=may_make)


@scenario("6 Metadata: topics made by being asked for", on=MAKING, versions=METADATA)
async def a_topic_is_made_behind_the_answer(run: Run, version: int) -> None:
    name = topic_name(run)
    first = await ask(run, metadata_of(name), version, "the first", tidy)
    run.expect(first.topics[0].error_code == 3, "the first answer says that there is no such topic")
    made = await eventually(
        run, metadata_of(name, may_make=False), 12, lambda reply: not reply.topics[0].error_code
    )
    run.saw("its partitions", made.topics[0].partitions)
    run.saw("whether it is internal", made.topics[0].is_internal)
    await eventually(run, metadata_of(name), version, lambda reply: not reply.topics[0].error_code)


@scenario("6 Metadata: topics that are not made by being asked for", on=MAKING, versions=METADATA)
async def a_topic_is_not_made_where_the_request_is_refused(run: Run, version: int) -> None:
    """After each refusal a topic is made and found, so what was refused had its time."""
    there = await make_topic(run, "is.there", 1)
    names = ["a b", "..", "", "x" * 250, there.replace(".", "_"), CLUSTER_METADATA]
    for name in names:
        await ask(run, metadata_of(name), version, name, tidy)
    if version >= CREATION_FLAG_SINCE:
        names.append(topic_name(run, "unwanted"))
        await ask(run, metadata_of(names[-1], may_make=False), version, "not wanted", tidy)
    await make_topic(run, "later", 1)
    for name in names:
        await ask(run, metadata_of(name, may_make=False), 12, f"{name} again", tidy)


@scenario("6 Metadata: topics that other requests do not make", on=MAKING)
async def other_requests_make_no_topic(run: Run) -> None:
    produced, described = topic_name(run, "produced"), topic_name(run, "described")
    await ask(run, produce_request(batch(b"x"), produced), 9)
    await ask(
        run, DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name=described)]), 0
    )
    await make_topic(run, "later", 1)
    for name in (produced, described):
        await ask(run, metadata_of(name, may_make=False), 12, f"{name} afterwards", tidy)


@scenario("6 CreateTopics: refusals", on=MAKING, versions=CREATE_TOPICS)
async def the_metadata_log_is_not_made(run: Run, version: int) -> None:
    topics = [CreatableTopic(name=CLUSTER_METADATA, num_partitions=1, replication_factor=1)]
    await ask(run, CreateTopicsRequest(topics=topics, timeout_ms=10_000), version)
    reply = await quietly(run, metadata_of(CLUSTER_METADATA, may_make=False), 12)
    run.saw("the topic", reply.topics)
