"""Time lag: the age of the record that a group is to read next, from the record itself.

One record is fetched at each committed offset, so the figure is exact on any Kafka, where others interpolate.
Its timestamp is what the topic keeps: CreateTime is the producer's clock, LogAppendTime the broker's. Nothing is
committed, and no group is joined. Control records and gaps of compaction are passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.cluster import Cluster, ClusterError, check
from muster.groups.admin import offsets_at, partitions_of
from muster.groups.descriptions import PartitionProgress
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.messages.list_offsets import EARLIEST
from protocol.records.batch import NO_TIMESTAMP, CorruptBatch, walk
from protocol.records.records import iter_records
from protocol.topic_partition import TopicPartition

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
PARTITIONS_AT_ONCE: Final = 100
PARTITION_BYTES: Final = 64 << 10
"""Asked for of each partition; of the first one a broker sends a whole batch, however large it is."""
ANSWER_BYTES: Final = 8 << 20
_TOPICS_BY_NAME: Final = 12  # Fetch names topics by id after that.


@dataclass(frozen=True, slots=True)
class TimeLag:
    """How old the next record is. `at_least`: older ones are gone from the log, so the group is further behind.

    `timestamp_type` is None where there is no record left to read, and the lag is nothing.
    """

    lag_ms: int
    timestamp_type: str | None = None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class _Next:
    """The timestamp of the next record, or else the offset from which to read on."""

    timestamp_ms: int | None = None
    timestamp_type: str | None = None
    read_on_at: int = -1


async def time_lags(
    cluster: Cluster, progress: Iterable[PartitionProgress], now_ms: int
) -> dict[TopicPartition, TimeLag]:
    """The time lag of each partition of which the lag is known. Raises ClusterError.

    A commit beyond the log's end has none: which record is read next nobody can say.
    """
    found: dict[TopicPartition, TimeLag] = {}
    behind: dict[TopicPartition, int] = {}
    for row in progress:
        where = TopicPartition(row.topic, row.partition)
        if row.lag == 0:
            found[where] = TimeLag(0)
        elif row.lag is not None and row.lag > 0 and row.committed_offset is not None:
            behind[where] = row.committed_offset
    leaders = await partitions_of(cluster, {where.topic for where in behind})
    starts = await offsets_at(
        cluster, {where: leaders[where] for where in behind if where in leaders}, EARLIEST
    )
    gone = {where for where, start in starts.items() if behind[where] < start}
    by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for where, start in starts.items():
        by_leader[leaders[where]][where] = max(behind[where], start)
    for leader, wanted in by_leader.items():
        for where, record in (await _next_records(cluster, leader, wanted)).items():
            if record.timestamp_ms == NO_TIMESTAMP:
                continue  # The producer gave none: it is not known.
            lag_ms = 0 if record.timestamp_ms is None else max(0, now_ms - record.timestamp_ms)
            found[where] = TimeLag(lag_ms, record.timestamp_type, where in gone)
    return found


async def _next_records(
    cluster: Cluster, leader: int, offsets: dict[TopicPartition, int]
) -> dict[TopicPartition, _Next]:
    """The next record of each partition of one leader. Each answer brings the first that it was asked for on."""
    found: dict[TopicPartition, _Next] = {}
    left = dict(offsets)
    while left:
        asked = dict(list(left.items())[:PARTITIONS_AT_ONCE])
        answer = await cluster.send(leader, _fetch_request(asked), max_version=_TOPICS_BY_NAME)
        check("fetching records", answer.error_code)
        for topic in answer.responses:
            for data in topic.partitions:
                where = TopicPartition(topic.topic, data.partition_index)
                check(f"fetching from {where.topic}-{where.partition}", data.error_code)
                record = _next_record(where, data, left.pop(where))
                if record.timestamp_ms is not None or record.read_on_at >= data.high_watermark:
                    found[where] = record
                elif where == next(iter(asked)) and record.read_on_at == asked[where]:
                    raise ClusterError(f"{where.topic}-{where.partition} gives nothing at {asked[where]}")
                else:
                    left[where] = record.read_on_at  # Behind the others, so that each is first in its turn.
    return found


def _fetch_request(offsets: Mapping[TopicPartition, int]) -> FetchRequest:
    by_topic: dict[str, list[FetchPartition]] = defaultdict(list)
    for where, offset in offsets.items():
        by_topic[where.topic].append(
            FetchPartition(
                partition=where.partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES
            )
        )
    topics = [FetchTopic(topic=name, partitions=partitions) for name, partitions in by_topic.items()]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=ANSWER_BYTES, topics=topics)


def _next_record(where: TopicPartition, data: PartitionData, offset: int) -> _Next:
    """The first record at `offset` or after in what was fetched. Raises ClusterError for what is no record."""
    read_on_at, records = offset, data.records or b""
    try:
        for batch in walk(records):
            read_on_at = max(read_on_at, batch.last_offset + 1)
            if batch.is_control or batch.last_offset < offset:
                continue
            if batch.is_log_append_time:
                return _Next(batch.max_timestamp_ms, LOG_APPEND_TIME)
            for record in iter_records(records, batch):
                if record.offset >= offset:
                    return _Next(record.timestamp_ms, CREATE_TIME)
    except CorruptBatch as error:
        raise ClusterError(f"{where.topic}-{where.partition} at offset {offset}: {error}") from None
    return _Next(read_on_at=read_on_at)
