"""Time lag, by a cluster in memory: what is fetched, and what of it is the next record."""

from __future__ import annotations

from typing import Any, cast

import pytest

from muster.cluster import Cluster, ClusterError
from muster.groups.descriptions import PartitionProgress
from muster.groups.time_lag import CREATE_TIME, LOG_APPEND_TIME, TimeLag, time_lags
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
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
from protocol.records.batch import set_base_offset, set_max_timestamp
from protocol.records.control import ControlType, Marker, encode_marker
from protocol.records.records import Record, encode_batch
from protocol.topic_partition import TopicPartition

NOW_MS = 1_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base_offset: int, *timestamps: int) -> bytes:
    made = bytearray(encode_batch([Record(None, b"v", at_ms) for at_ms in timestamps]))
    set_base_offset(made, base_offset, 0)
    return bytes(made)


def appended(base_offset: int, at_ms: int) -> bytes:
    made = bytearray(batch(base_offset, 1, 2))
    set_max_timestamp(made, at_ms, log_append_time=True)
    return bytes(made)


def marker(base_offset: int) -> bytes:
    commit = Marker(1, 0, is_commit=True, coordinator_epoch=0)
    assert commit.control_type is ControlType.COMMIT
    return bytes(encode_marker(commit, base_offset=base_offset, wall_ms=7))


class Logs:
    """A broker with partitions of `t`: of each its log's start, its end, and what a fetch at an offset gives."""

    def __init__(self, **logs: tuple[int, int, dict[int, bytes]]) -> None:
        self._logs = {int(name[1:]): log for name, log in logs.items()}
        self.fetched: list[tuple[int, int]] = []

    async def send_to_any(self, message: Any, max_version: int | None = None) -> Any:
        assert isinstance(message, MetadataRequest)
        found = [
            MetadataResponsePartition(
                partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1], error_code=0
            )
            for number in self._logs
        ]
        return MetadataResponse(topics=[MetadataResponseTopic(error_code=0, name="t", partitions=found)])

    async def send(self, node_id: int, message: Any, max_version: int | None = None) -> Any:
        if isinstance(message, ListOffsetsRequest):
            return self._starts(message)
        assert isinstance(message, FetchRequest)
        return self._records(message)

    def _starts(self, message: ListOffsetsRequest) -> ListOffsetsResponse:
        found = [
            ListOffsetsPartitionResponse(
                partition_index=asked.partition_index,
                error_code=0,
                offset=self._logs[asked.partition_index][0],
            )
            for topic in message.topics
            for asked in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])

    def _records(self, message: FetchRequest) -> FetchResponse:
        found = []
        for asked in message.topics[0].partitions:
            _, end, records = self._logs[asked.partition]
            self.fetched.append((asked.partition, asked.fetch_offset))
            given = records.get(asked.fetch_offset, b"")
            found.append(PartitionData(partition_index=asked.partition, high_watermark=end, records=given))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=found)])


async def lags(logs: Logs, *rows: tuple[int, int | None, int | None]) -> dict[TopicPartition, TimeLag]:
    progress = [PartitionProgress("t", number, committed, end, None) for number, committed, end in rows]
    return await time_lags(cast(Cluster, logs), progress, NOW_MS)


async def test_the_record_at_the_committed_offset_counts_and_not_its_batch() -> None:
    logs = Logs(p0=(0, 9, {6: batch(5, 100, 200, 300, 400)}))
    assert await lags(logs, (0, 6, 9)) == {P0: TimeLag(NOW_MS - 200, CREATE_TIME)}


async def test_a_gap_of_compaction_is_passed_over() -> None:
    logs = Logs(p0=(0, 20, {3: batch(10, 500)}))
    assert await lags(logs, (0, 3, 20)) == {P0: TimeLag(NOW_MS - 500, CREATE_TIME)}


async def test_a_time_of_the_broker_is_that_of_the_whole_batch() -> None:
    logs = Logs(p0=(0, 7, {6: appended(5, 900)}))
    assert await lags(logs, (0, 6, 7)) == {P0: TimeLag(NOW_MS - 900, LOG_APPEND_TIME)}


async def test_what_is_left_are_markers_of_transactions_and_so_nothing_lags() -> None:
    logs = Logs(p0=(0, 7, {5: marker(5) + marker(6)}))
    assert await lags(logs, (0, 5, 7)) == {P0: TimeLag(0)}


async def test_behind_a_marker_it_is_read_on() -> None:
    logs = Logs(p0=(0, 9, {5: marker(5), 6: batch(6, 700)}))
    assert await lags(logs, (0, 5, 9)) == {P0: TimeLag(NOW_MS - 700, CREATE_TIME)}
    assert logs.fetched == [(0, 5), (0, 6)]


async def test_a_commit_beyond_the_end_has_no_time_lag_and_nothing_is_fetched() -> None:
    logs = Logs(p0=(0, 5, {}))
    assert await lags(logs, (0, 100, 5)) == {}
    assert logs.fetched == []


async def test_where_older_records_are_gone_it_is_at_least_as_much() -> None:
    logs = Logs(p0=(4, 9, {4: batch(4, 700)}))
    assert await lags(logs, (0, 1, 9)) == {P0: TimeLag(NOW_MS - 700, CREATE_TIME, at_least=True)}


async def test_no_record_is_fetched_where_there_is_no_lag_or_none_is_known() -> None:
    logs = Logs(p0=(0, 9, {}), p1=(0, 9, {}))
    assert await lags(logs, (0, 9, 9), (1, None, 9)) == {P0: TimeLag(0)}
    assert logs.fetched == []


async def test_a_record_without_a_time_and_one_of_the_future() -> None:
    logs = Logs(p0=(0, 9, {8: batch(8, -1)}), p1=(0, 9, {8: batch(8, NOW_MS + 5)}))
    assert await lags(logs, (0, 8, 9), (1, 8, 9)) == {P1: TimeLag(0, CREATE_TIME)}


async def test_a_partition_that_finds_no_room_in_an_answer_is_first_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([{}, {8: batch(8, 100)}])
    logs = Logs(p0=(0, 9, {8: batch(8, 200)}), p1=(0, 9, {}))
    send = logs.send

    async def sent(node_id: int, message: Any, max_version: int | None = None) -> Any:
        if isinstance(message, FetchRequest):
            logs._logs[1] = (0, 9, next(answers))
        return await send(node_id, message, max_version)

    monkeypatch.setattr(logs, "send", sent)
    found = await lags(logs, (0, 8, 9), (1, 8, 9))
    assert found == {P0: TimeLag(NOW_MS - 200, CREATE_TIME), P1: TimeLag(NOW_MS - 100, CREATE_TIME)}
    assert logs.fetched == [(0, 8), (1, 8), (1, 8)]


async def test_a_broker_that_gives_nothing_or_nonsense_is_not_asked_for_ever() -> None:
    with pytest.raises(ClusterError, match="t-0 gives nothing at 8"):
        await lags(Logs(p0=(0, 9, {})), (0, 8, 9))
    with pytest.raises(ClusterError, match="t-0 at offset 8: "):
        await lags(Logs(p0=(0, 9, {8: b"\x00" * 80})), (0, 8, 9))
