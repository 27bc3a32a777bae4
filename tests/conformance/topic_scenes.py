"""Topics that scenarios make for themselves, named after the run, and questions about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.conformance.run import Run
from tests.topics.requests import produce_request

ADMIN: Final = "admin"
EVENTUALLY_S: Final = 20.0
POLL_S: Final = 0.05
AT_MS: Final = 1_700_000_000_000
"""The records' timestamp: it is in answers, so the same on both sides; topics must keep it."""


def topic_name(run: Run, suffix: str = "t") -> str:
    """A topic name that is unique among runs, and the same on both sides."""
    return f"{run.name.replace('/', '-')}-{suffix}"


async def ask(
    run: Run, request: Any, version: int, note: str = "", tidy: Callable[[Any], None] | None = None
) -> Any:
    """Ask, and enter the answer into the transcript; `tidy` takes out what each side must say for itself."""
    asked = await run.send(ADMIN, request, version, note)
    if tidy is None:
        return await run.answer(asked)
    reply = await asked.reply
    tidy(reply)
    run.saw(asked.what, reply)
    return reply


async def quietly(run: Run, request: Any, version: int) -> Any:
    """Ask, and keep the answer out of the transcript."""
    connection = await run.free_connection(ADMIN, spec(type(request)).api_key)
    return await connection.send(request, version)


async def eventually(run: Run, request: Any, version: int, holds: Callable[[Any], bool]) -> Any:
    """The first answer for which `holds` is true: Kafka answers before a change is everywhere."""
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        reply = await quietly(run, request, version)
        if holds(reply):
            return reply
        if time.monotonic() > deadline:
            raise TimeoutError(f"{type(request).__name__} never said so: {reply}")
        await asyncio.sleep(POLL_S)


async def make_topic(run: Run, suffix: str = "t", partitions: int = 2, **configs: str) -> str:
    """A topic that is led everywhere; option names with '_' for '.'. It keeps old records."""
    name = topic_name(run, suffix)
    settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
    made = await quietly(run, CreateTopicsRequest(topics=[topic]), 7)
    assert made.topics[0].error_code == 0, made.topics[0].error_message
    await until_led(run, name, partitions)
    return name


async def delete_topic(run: Run, name: str) -> None:
    """Delete a topic; returns once it is gone for all that the broker is asked, and for the coordinator."""
    named = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    topic_id = (await quietly(run, named, 12)).topics[0].topic_id
    await quietly(run, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await eventually(run, named, 12, lambda reply: reply.topics[0].error_code == unknown)
    of_topic = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=run.group, topics=[of_topic])])
    unknown_id = ErrorCode.UNKNOWN_TOPIC_ID
    await eventually(
        run, fetch, 10, lambda reply: reply.groups[0].topics[0].partitions[0].error_code == unknown_id
    )


async def grow_topic(run: Run, name: str, partitions: int) -> None:
    """Let a topic have so many partitions; returns once all are led."""
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    grown = await quietly(run, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 3)
    assert grown.results[0].error_code == 0, grown.results[0].error_message
    await until_led(run, name, partitions)


async def until_led(run: Run, name: str, partitions: int) -> None:
    """Returns once so many partitions are led, and any broker that a client asks for them says so."""
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=asked)])
    await eventually(
        run, request, 5, lambda reply: all(not each.error_code for each in reply.topics[0].partitions)
    )
    named = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    await eventually(run, named, 12, lambda reply: len(reply.topics[0].partitions) == partitions)


async def produce(run: Run, topic: str, records: bytes, partition: int = 0) -> int:
    """Write a batch, out of the transcript; its first offset."""
    reply = await quietly(run, produce_request(records, topic, partition), 9)
    answer = reply.responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    return int(answer.base_offset)
