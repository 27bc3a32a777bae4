"""Series of partitions: how many there are at most, whose, and what other exporters' boards ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coordinator.effects import CoordinatorRecord
from coordinator.groups.record_schemas import OffsetCommitKey, OffsetCommitValue
from harness.wire import WireClient
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.metrics.test_exposition import live
from tests.metrics.world import Sample, asked, running, samples, text_of, value, walk
from tests.server.asking import TOPIC, make_topic, produce
from tests.server.joining import join, joining, sync

PARTITIONS: Final = 40
MOST: Final = 25
RECORDS: Final = 3

ROUNDS: Final = 10
"""Of heartbeats, within which three members have what they are to have."""


def topic_with_records(client: WireClient) -> None:
    make_topic(client, PARTITIONS)
    for _ in range(RECORDS):
        assert produce(client) == 0


async def page(directory: Path, **settings: object) -> dict[Sample, float]:
    """Of two groups with an offset in each partition: of these one, `behind`, has a lag, in partition 0."""
    async with running(directory, muster_metrics_partitions_max=MOST, **settings) as daemon:
        await asked(daemon, topic_with_records)
        for group_id, offset in (("near", RECORDS), ("behind", 0)):
            shard = daemon.runtime.runner_for(group_id).shard
            assert shard is not None
            for index in range(PARTITIONS):
                key = OffsetCommitKey(group=group_id, topic=TOPIC, partition=index)
                kept = OffsetCommitValue(offset=0 if index else offset, metadata="", commit_timestamp=1)
                shard.replay(CoordinatorRecord(key, kept), index)
        walk(daemon.metrics)
        text_of(daemon.metrics)
        return samples(text_of(daemon.metrics))  # The second page is as the first.


def count(found: dict[Sample, float], name: str, **labels: str) -> int:
    return sum(each == name and labels.items() <= dict(of).items() for each, of in found)


async def test_partitions_are_few_those_of_who_is_furthest_behind_and_the_others_counted(
    tmp_path: Path,
) -> None:
    found = await page(tmp_path, muster_metrics_partitions="all")
    for name in ("muster_group_partition_lag", "muster_group_partition_offset"):
        assert count(found, name) == count(found, name, group="behind") == MOST
    assert value(found, "muster_metrics_partitions", shown="yes") == MOST
    assert value(found, "muster_metrics_partitions", shown="no") == 2 * PARTITIONS - MOST


async def test_under_other_names_are_no_more_and_sums_have_all(tmp_path: Path) -> None:
    found = await page(tmp_path, muster_metrics_compatible=("kafka_exporter", "kminion"))
    for name in (
        "kafka_consumergroup_lag",
        "kafka_consumergroup_current_offset",
        "kafka_topic_partition_current_offset",
        "kminion_kafka_consumer_group_topic_partition_lag",
    ):
        assert count(found, name) == MOST, name
    name = "kafka_consumergroup_current_offset_sum"
    assert value(found, name, consumergroup="near", topic=TOPIC) == RECORDS
    assert value(found, "kafka_consumergroup_lag_sum", consumergroup="behind", topic=TOPIC) == RECORDS


async def test_what_has_no_lag_takes_no_room_where_only_lagging_ones_are_shown(tmp_path: Path) -> None:
    found = await page(tmp_path, muster_metrics_partitions="lagging")
    assert count(found, "muster_group_partition_lag") == 1
    assert value(found, "muster_metrics_partitions", shown="yes") == 1
    assert value(found, "muster_metrics_partitions", shown="no") == 0


async def test_the_offsets_of_topics_are_there_for_boards_of_kafka_exporter(tmp_path: Path) -> None:
    """They draw the rate of `kafka_topic_partition_current_offset` as what is produced."""
    async with running(tmp_path, muster_metrics_compatible=("kafka_exporter",)) as daemon:
        await asked(daemon, topic_with_records)
        found = samples(text_of(daemon.metrics))
        name = "kafka_topic_partition_current_offset"
        assert value(found, name, topic=TOPIC, partition="0") == RECORDS
        assert value(found, name, topic=TOPIC, partition="1") == 0
        assert value(found, "kafka_topic_partitions", topic=TOPIC) == PARTITIONS


async def test_members_without_a_partition_are_counted_for_boards_of_kminion(tmp_path: Path) -> None:
    name = "kminion_kafka_consumer_group_empty_members"

    def both_kinds(client: WireClient) -> None:
        live(client)  # Group "m" has one member, with a partition.
        idle = client.ask(join(group_id="idle"), 3)
        request = sync(idle)
        request.group_id, request.assignments = "idle", []
        assert client.ask(request, 3).error_code == 0
        beats = {name: joining(name) for name in ("first", "second", "third")}
        for member_id in [*beats] * ROUNDS:
            answer: ConsumerGroupHeartbeatResponse = client.ask(beats[member_id], 0)
            assert answer.error_code == 0
            beats[member_id].member_epoch = answer.member_epoch
            if answer.assignment is not None:
                beats[member_id].topic_partitions = answer.assignment.topic_partitions

    at_once = {"group_consumer_assignment_interval_ms": 0}
    async with running(tmp_path, muster_metrics_compatible=("kminion",), **at_once) as daemon:
        await asked(daemon, both_kinds)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert value(found, name, group_id="m") == 0
        assert value(found, name, group_id="idle") == 1
        assert value(found, name, group_id="g") == 1, "three members, two partitions"
