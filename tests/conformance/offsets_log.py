"""What a broker wrote about one group into `__consumer_offsets`, as any consumer may read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.records.batch import walk
from protocol.records.records import read_records
from tests.conformance.run import Run
from tests.conformance.targets import CONFIGURATIONS
from tests.conformance.topic_scenes import eventually, quietly
from tests.topics.requests import fetch_request, partitions_of

LATEST: Final = -1
PARTITIONS: Final = int(CONFIGURATIONS["plain"]["offsets.topic.num.partitions"])


async def log_end(run: Run) -> int:
    """The end of the log of the run's group, or a little before it: records may be shown later than they count."""
    asked = ListOffsetsPartition(partition_index=partition_for(run.group, PARTITIONS), timestamp=LATEST)
    topic = ListOffsetsTopic(name=GROUP_METADATA_TOPIC, partitions=[asked])
    reply = await quietly(run, ListOffsetsRequest(topics=[topic]), 5)
    (partition,) = reply.topics[0].partitions
    assert partition.error_code == 0, partition
    return int(partition.offset)


async def records_since(run: Run, start: int, last: type) -> list[CoordinatorRecord]:
    """The group's records from `start` on, once a tombstone with a key of class `last` is among them."""
    request = fetch_request((GROUP_METADATA_TOPIC, partition_for(run.group, PARTITIONS), start))

    def is_there(reply: Any) -> bool:
        return any(record.value is None and type(record.key) is last for record in _of_group(run, reply))

    return list(_of_group(run, await eventually(run, request, 12, is_there)))


def _of_group(run: Run, reply: Any) -> Iterator[CoordinatorRecord]:
    (partition,) = partitions_of(reply)
    buffer = memoryview(bytes(partition.records or b""))
    for batch in walk(buffer):
        for raw in () if batch.is_control else read_records(buffer, batch):
            record = decode_record(raw.key, raw.value)
            key: Any = None if record is None else record.key
            if record is not None and run.group in (getattr(key, "group", ""), getattr(key, "group_id", "")):
                yield record
