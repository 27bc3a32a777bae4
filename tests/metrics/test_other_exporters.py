"""What is under the names of kafka_exporter and kminion, whole, and written out as these two document it.

Names and labels are those of the examples in kafka_exporter's README.md and in kminion's docs/metrics.md. None is
taken from the code: boards and alerts elsewhere go by them. Figures that could be mistaken for each other differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from harness.wire import WireClient
from tests.metrics.world import Sample, asked, running, samples, text_of, walk
from tests.server.asking import commit, make_topic, produce
from tests.server.joining import join, joining

ENDS: Final = (11, 31)
OFFSETS: Final = (4, 12)
MEMBERS: Final = 5
COMMITS: Final = 8

ROUNDS: Final = 10
"""Of heartbeats, within which the members have what they are to have."""

KAFKA_EXPORTER: Final = """
kafka_topic_partitions{topic="__consumer_offsets"} 4
kafka_topic_partitions{topic="__group_events"} 1
kafka_topic_partitions{topic="__transaction_state"} 2
kafka_topic_partitions{topic="orders"} 2
kafka_topic_partition_current_offset{topic="orders",partition="0"} 11
kafka_topic_partition_current_offset{topic="orders",partition="1"} 31
kafka_consumergroup_members{consumergroup="g"} 5
kafka_consumergroup_members{consumergroup="m"} 1
kafka_consumergroup_members{consumergroup="simple"} 0
kafka_consumergroup_current_offset{consumergroup="g",topic="orders",partition="0"} 4
kafka_consumergroup_current_offset{consumergroup="g",topic="orders",partition="1"} 12
kafka_consumergroup_current_offset{consumergroup="simple",topic="orders",partition="0"} 2
kafka_consumergroup_current_offset_sum{consumergroup="g",topic="orders"} 16
kafka_consumergroup_current_offset_sum{consumergroup="simple",topic="orders"} 2
kafka_consumergroup_lag{consumergroup="g",topic="orders",partition="0"} 7
kafka_consumergroup_lag{consumergroup="g",topic="orders",partition="1"} 19
kafka_consumergroup_lag{consumergroup="simple",topic="orders",partition="0"} 9
kafka_consumergroup_lag_sum{consumergroup="g",topic="orders"} 26
kafka_consumergroup_lag_sum{consumergroup="simple",topic="orders"} 9
"""

INFO: Final = "kminion_kafka_consumer_group_info"
KMINION: Final = """
INFO{coordinator_id="1",group_id="g",protocol="",protocol_type="consumer",state="Stable"} 1
INFO{coordinator_id="1",group_id="m",protocol="range",protocol_type="consumer",state="CompletingRebalance"} 0
INFO{coordinator_id="1",group_id="simple",protocol="",protocol_type="",state="Empty"} 0
kminion_kafka_consumer_group_members{group_id="g"} 5
kminion_kafka_consumer_group_members{group_id="m"} 1
kminion_kafka_consumer_group_members{group_id="simple"} 0
kminion_kafka_consumer_group_empty_members{group_id="g"} 3
kminion_kafka_consumer_group_topic_offset_sum{group_id="g",topic_name="orders"} 16
kminion_kafka_consumer_group_topic_offset_sum{group_id="simple",topic_name="orders"} 2
kminion_kafka_consumer_group_topic_partition_lag{group_id="g",topic_name="orders",partition_id="0"} 7
kminion_kafka_consumer_group_topic_partition_lag{group_id="g",topic_name="orders",partition_id="1"} 19
kminion_kafka_consumer_group_topic_partition_lag{group_id="simple",topic_name="orders",partition_id="0"} 9
kminion_kafka_consumer_group_topic_lag{group_id="g",topic_name="orders"} 26
kminion_kafka_consumer_group_topic_lag{group_id="simple",topic_name="orders"} 9
kminion_kafka_consumer_group_offset_commits_total{group_id="g"} 8
kminion_kafka_consumer_group_offset_commits_total{group_id="m"} 0
kminion_kafka_consumer_group_offset_commits_total{group_id="simple"} 1
""".replace("INFO", INFO)

PARTITIONS: Final = """
muster_group_partition_lag{group="g",topic="orders",partition="0"} 7
muster_group_partition_lag{group="g",topic="orders",partition="1"} 19
muster_group_partition_lag{group="simple",topic="orders",partition="0"} 9
muster_group_partition_lag_seconds{group="g",topic="orders",partition="0"} 104.5
muster_group_partition_lag_seconds{group="g",topic="orders",partition="1"} 112.5
muster_group_partition_lag_seconds{group="simple",topic="orders",partition="0"} 102.5
muster_group_partition_offset{group="g",topic="orders",partition="0"} 4
muster_group_partition_offset{group="g",topic="orders",partition="1"} 12
muster_group_partition_offset{group="simple",topic="orders",partition="0"} 2
"""


def live(client: WireClient) -> None:
    """A topic; a group of five members, of which three have no partition; one that syncs; one without members."""
    make_topic(client, len(ENDS))
    for partition, end in enumerate(ENDS):
        for _ in range(end):
            assert produce(client, partition) == 0
    beats = {str(number): joining(str(number)) for number in range(MEMBERS)}
    for member_id in [*beats] * ROUNDS:
        answer = client.ask(beats[member_id], 0)
        assert answer.error_code == 0
        beats[member_id].member_epoch = answer.member_epoch
        if answer.assignment is not None:
            beats[member_id].topic_partitions = answer.assignment.topic_partitions
    for number in range(COMMITS):
        partition = number % len(OFFSETS)
        request = commit(OFFSETS[partition])
        request.topics[0].partitions[0].partition_index = partition
        request.member_id, request.generation_id_or_member_epoch = "0", beats["0"].member_epoch
        assert client.ask(request, 9).topics[0].partitions[0].error_code == 0
    assert client.ask(join(), 3).error_code == 0
    assert client.ask(commit(2, "simple"), 8).topics[0].partitions[0].error_code == 0


def under(found: dict[Sample, float], prefix: str) -> dict[Sample, float]:
    """Those of these names, but for the ends of the daemon's own topics."""
    return {
        sample: figure
        for sample, figure in found.items()
        if sample[0].startswith(prefix)
        and not (sample[0].endswith("_current_offset") and dict(sample[1])["topic"].startswith("__"))
    }


async def test_every_sample_under_another_exporters_name_is_as_that_one_documents_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "muster_metrics_partitions": "all",
        "muster_metrics_compatible": ("kafka_exporter", "kminion"),
        "group_consumer_assignment_interval_ms": 0,
    }
    async with running(tmp_path, **settings) as daemon:
        await asked(daemon, live)
        monkeypatch.setattr(daemon.metrics._meter, "seconds", lambda partition, offset: 100.5 + offset)
        walk(daemon.metrics)
        found = samples(text_of(daemon.metrics))
        assert under(found, "kafka_") == samples(KAFKA_EXPORTER)
        assert under(found, "kminion_") == samples(KMINION)
        assert under(found, "muster_group_partition_") == samples(PARTITIONS)
