"""Whether a group without members has committed lately: then somebody reads under its name who is no member.

A consumer that assigns its partitions itself commits like any other, and its group looks Empty; what is set for
the group lasts until its next commit. No answer of Kafka's says when a group has committed, but
`__consumer_offsets` does, to those who may read it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from aiokafka.errors import KafkaError

from coordinator.groups.partitioning import partition_for
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import OffsetCommitKey
from muster.cluster import Cluster, ClusterError
from muster.groups.admin import partitions_of
from protocol.errors import DecodeError

OFFSETS_TOPIC: Final = "__consumer_offsets"
LATELY_MS: Final = 60_000
PATIENCE_S: Final = 5.0
"""What is read of a busy log: a warning is not worth more."""
_POLL_MS: Final = 200


async def committed_ago_ms(cluster: Cluster, group_id: str, now_ms: int) -> int | None:
    """How long ago the group has committed, if that is less than LATELY_MS and can be read; else None."""
    try:
        count = len(await partitions_of(cluster, [OFFSETS_TOPIC]))
        if not count:
            return None
        where = ClientPartition(OFFSETS_TOPIC, partition_for(group_id, count))
        async with asyncio.timeout(PATIENCE_S), cluster.reader() as consumer:
            newest_ms = await _newest(consumer, where, group_id, now_ms - LATELY_MS)
    except (ClusterError, KafkaError, TimeoutError):
        return None  # It may be forbidden, and nothing is lost but the warning.
    return None if newest_ms is None else max(0, now_ms - newest_ms)


async def _newest(
    consumer: AIOKafkaConsumer, where: ClientPartition, group_id: str, since_ms: int
) -> int | None:
    """When the group has committed last since then."""
    consumer.assign([where])
    begin = (await consumer.offsets_for_times({where: since_ms}))[where]
    if begin is None:
        return None
    consumer.seek(where, begin.offset)
    end = (await consumer.end_offsets([where]))[where]
    newest_ms: int | None = None
    while await consumer.position(where) < end:
        for record in (await consumer.getmany(where, timeout_ms=_POLL_MS)).get(where, ()):
            if record.value is not None and _is_commit_of(record.key, group_id):
                newest_ms = max(newest_ms or 0, record.timestamp)
    return newest_ms


def _is_commit_of(key: bytes | None, group_id: str) -> bool:
    try:
        record = decode_record(key, None)
    except DecodeError:
        return False  # Of a later version; it is no commit that is known.
    return record is not None and isinstance(record.key, OffsetCommitKey) and record.key.group == group_id
