"""ListOffsets with every special timestamp and those between, and OffsetForLeaderEpoch."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.conformance.admin_lines import LEADER_EPOCHS, LIST_OFFSETS
from tests.conformance.registry import scenario
from tests.conformance.run import Run
from tests.conformance.topic_scenes import AT_MS, ask, make_topic, produce, quietly, topic_name
from tests.topics.world import batch

SPECIAL: Final = (-1, -2, -3, -4, -5, -6, -7)
LATEST, MAX_TIMESTAMP = -1, -3
CLOCK_TICK_S: Final = 0.003


def asked_for(
    topic: str, timestamp: int, *partitions: int, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    wanted = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index in partitions
    ]
    topics = [ListOffsetsTopic(name=topic, partitions=wanted)]
    return ListOffsetsRequest(replica_id=-1, topics=topics, isolation_level=isolation)


@scenario("6 ListOffsets", versions=LIST_OFFSETS)
async def offsets_are_listed(run: Run, version: int) -> None:
    """The newest record is in the middle, and the first record of a batch is not its oldest."""
    name = await make_topic(run)
    for at_ms in (AT_MS, AT_MS + 1000, AT_MS + 5000, AT_MS + 2000):
        await produce(run, name, batch(b"a", b"b", b"c", at_ms=at_ms))
    at = [AT_MS + delta for delta in (-1, 0, 1, 3, 1000, 1003, 2001, 5002, 5003)]
    for timestamp in (*SPECIAL, 0, *at):
        await ask(run, asked_for(name, timestamp, 0, 1, 7), version, f"{timestamp}")
    await ask(run, asked_for(topic_name(run, "nope"), LATEST, 0), version, "no topic")
    await ask(run, asked_for(name, LATEST, 0, 0), version, "named twice")
    if version >= 2:
        for timestamp in (LATEST, -2, AT_MS):
            await ask(run, asked_for(name, timestamp, 0, isolation=1), version, f"committed {timestamp}")
    if version >= 4:
        for epoch in (0, 1, -2):
            await ask(run, asked_for(name, LATEST, 0, epoch=epoch), version, f"epoch {epoch}")
    partition = DeleteRecordsPartition(partition_index=0, offset=4)
    await quietly(
        run,
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[partition])], timeout_ms=9000),
        2,
    )
    for timestamp in (*SPECIAL, 0, AT_MS, AT_MS + 1001):
        await ask(run, asked_for(name, timestamp, 0), version, f"after deletion {timestamp}")


@scenario("6 ListOffsets: append time", versions=LIST_OFFSETS)
async def offsets_are_listed_by_append_time(run: Run, version: int) -> None:
    """All records of a batch have one time; the first of the last batch is listed for the largest."""
    name = await make_topic(run, message_timestamp_type="LogAppendTime")
    for _ in range(3):
        await produce(run, name, batch(b"a", b"b", at_ms=AT_MS))
        await asyncio.sleep(CLOCK_TICK_S)  # Else two batches may have one append time.
    for timestamp in (0, AT_MS, *((MAX_TIMESTAMP,) if version >= 7 else ())):
        reply = await quietly(run, asked_for(name, timestamp, 0, 1), version)
        listed = [(each.partition_index, each.error_code, each.offset) for each in reply.topics[0].partitions]
        run.saw(f"{timestamp}", sorted(listed))


@scenario("6 OffsetForLeaderEpoch", versions=LEADER_EPOCHS)
async def the_end_of_an_epoch(run: Run, version: int) -> None:
    name = await make_topic(run)
    await produce(run, name, batch(b"a", b"b", at_ms=AT_MS))
    for epoch, current in ((0, -1), (1, -1), (-1, -1), (7, 0), (0, 0), (0, 1), (0, -3)):
        for topic in (name, topic_name(run, "nope")):
            partitions = [
                OffsetForLeaderPartition(partition=index, leader_epoch=epoch, current_leader_epoch=current)
                for index in (0, 1, 7)
            ]
            topics = [OffsetForLeaderTopic(topic=topic, partitions=partitions)]
            request = OffsetForLeaderEpochRequest(topics=topics)
            if version >= 3:
                request.replica_id = -1
            await ask(run, request, version, f"{topic} {epoch} {current}")
