"""What a scrape says, of a real daemon: names, types, labels and values, as Prometheus' own parser reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator.daemon.daemon import Daemon
from coordinator.metrics.families import (
    ALL,
    DAEMON,
    GROUPS,
    KAFKA_EXPORTER,
    KMINION,
    NODES,
    OTHER,
    PARTITIONS,
)
from coordinator.metrics.text import MAX_LABEL_CHARS, label_value
from harness.wire import WireClient
from protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.shared import TopicPartitions
from tests.metrics.world import asked, running, samples, text_of, value, walk
from tests.server.asking import TOPIC, commit, fetch, make_topic, produce
from tests.server.joining import beat, join, leave, sync

BEATS, COMMITS, RECORDS = 30, 20, 5
MARGIN_MIN = 0.6
"""Of a session of ten seconds, with heartbeats without a pause; what of it was used is next to nothing."""

HOSTILE = (
    'with "quotes"',
    "back\\slash",
    "two\nlines",
    "счёт-発注-فوترة",
    "a\u202eb\u2066c",
    "..",
    "a/b",
    "x" * 30_000,
    "x" * 29_999 + "y",
)


def live(client: WireClient) -> int:
    """A topic and a member of a group, which beats, commits, errs once in each, and leaves a record unread."""
    make_topic(client, 2)
    for _ in range(RECORDS):
        assert produce(client) == 0
    request = join()
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
    joined = client.ask(request, 3)
    shared = sync(joined)
    mine = ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])])
    shared.assignments[0].assignment = encode_assignment(mine)
    assert client.ask(shared, 3).error_code == 0
    for _ in range(BEATS):
        assert client.ask(beat(joined), 4).error_code == 0
    stale = HeartbeatRequest(group_id="m", generation_id=99, member_id=joined.member_id)
    for _ in range(3):  # The third is answered without being decoded.
        assert client.ask(stale, 4).error_code == ErrorCode.ILLEGAL_GENERATION
    for _ in range(COMMITS):
        kept = commit(RECORDS - 1, "m")
        kept.member_id, kept.generation_id_or_member_epoch = joined.member_id, joined.generation_id
        assert client.ask(kept, 8).topics[0].partitions[0].error_code == 0
    kept.generation_id_or_member_epoch = 99
    assert client.ask(kept, 8).topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    return BEATS


def loaded(client: WireClient) -> None:
    """Ask until the group's shard answers."""
    while client.ask(fetch("m"), 8).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass


async def scraped(daemon: Daemon) -> str:
    walk(daemon.metrics)
    return text_of(daemon.metrics)


async def test_what_happened_is_counted_whether_or_not_it_was_decoded(tmp_path: Path) -> None:
    """Most heartbeats and commits here are recognised by their bytes, and reach no handler."""
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        found = samples(await scraped(daemon))
        assert value(found, "muster_requests_total", api="Heartbeat") == BEATS + 3
        assert value(found, "muster_request_errors_total", api="Heartbeat", error="ILLEGAL_GENERATION") == 3
        assert value(found, "muster_requests_total", api="OffsetCommit") == COMMITS + 1
        assert (
            value(found, "muster_request_errors_total", api="OffsetCommit", error="ILLEGAL_GENERATION") == 1
        )
        assert value(found, "muster_offset_commits_total") == COMMITS
        assert value(found, "muster_group_commits_total", group="m") == COMMITS
        assert value(found, "muster_committed_offsets") == 1
        assert value(found, "muster_groups", protocol="classic", state="Stable") == 1
        assert value(found, "muster_rebalances_total", protocol="classic", cause="member_joined") == 1
        assert value(found, "muster_rebalance_seconds_count", phase="all") == 1
        assert value(found, "muster_member_joins_total") == 1
        assert value(found, "muster_connections_accepted_total") == 1
        assert value(found, "muster_disk_state") == 0
        assert value(found, "muster_request_seconds_count", api="JoinGroup") == 1
        assert value(found, "muster_shards", kind="groups", state="active") == 4
        assert (value(found, "muster_reply_hold_seconds_count") or 0) > 0
        assert (value(found, "muster_flush_seconds_count", log="journal") or 0) > 0


async def test_a_groups_own_series_say_what_it_is_and_how_far_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        found = samples(await scraped(daemon))
        of_group = {
            (name, dict(labels).get("topic") or dict(labels).get("state")): sample
            for (name, labels), sample in found.items()
            if dict(labels).get("group") == "m"
        }
        assert of_group["muster_group_lag", TOPIC] == 1
        assert 0 <= of_group["muster_group_lag_seconds", TOPIC] < 30
        assert of_group["muster_group_members", None] == 1
        assert of_group["muster_group_generation", None] == 1
        assert of_group["muster_group_state", "Stable"] == 1
        assert of_group["muster_group_unassigned_partitions", None] == 1
        assert MARGIN_MIN < of_group["muster_group_heartbeat_margin_ratio", None] <= 1
        figures = daemon.metrics.figures("m")
        assert figures is not None
        assert (figures.lag.records, figures.commits, figures.rebalances) == (
            1,
            COMMITS,
            {"member_joined": 1},
        )
        assert figures.margin == min(figures.margins.values()) > MARGIN_MIN
        assert daemon.metrics.figures("nobody") is None
        assert daemon.metrics.lag_records("m") == 1
        assert daemon.metrics.lag_seconds("m") is not None
        assert daemon.metrics.rebalance_count("m") == sum(figures.rebalances.values()) > 0
        assert daemon.metrics.lost_ms("m") == sum(figures.lost_ms.values())
        assert daemon.metrics.margin("m") == figures.margin
        assert daemon.metrics.lag_history("m", 60).records == (1,)


async def test_every_metric_has_its_type_and_its_labels_and_no_others(tmp_path: Path) -> None:
    """Also under the names of other exporters; no sample is there twice, and the count of them is right."""
    settings = {
        "muster_metrics_partitions": "all",
        "muster_metrics_compatible": ("kafka_exporter", "kminion"),
    }
    async with running(tmp_path, **settings) as daemon:
        await asked(daemon, live)
        text = await scraped(daemon)
        names = set()
        lines = 0
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            names.add(name)
            assert family.type == ALL[name].kind, name
            assert family.documentation == ALL[name].about
            lines += len(family.samples)
            for sample in family.samples:
                assert set(sample.labels) - {"le"} == set(ALL[name].labels), sample
        assert names == ALL.keys() - NODES.keys()
        assert value(samples(text), "muster_metrics_series") == lines - 1


async def test_by_default_there_are_no_partitions_and_no_other_exporters_names(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
        names = {
            f"{family.name}_total" if family.type == "counter" else family.name
            for family in text_string_to_metric_families(await scraped(daemon))
        }
        assert names == DAEMON.keys() | GROUPS.keys()
        assert not names & (PARTITIONS.keys() | KAFKA_EXPORTER.keys() | KMINION.keys())


async def test_lagging_shows_only_partitions_with_a_lag(tmp_path: Path) -> None:
    def both(client: WireClient) -> None:
        live(client)
        for topic_partition in (0, 1):
            request = commit(0, "simple")
            request.topics[0].partitions[0].partition_index = topic_partition
            assert client.ask(request, 8).topics[0].partitions[0].error_code == 0

    async with running(tmp_path, muster_metrics_partitions="lagging") as daemon:
        await asked(daemon, both)
        found = samples(await scraped(daemon))
        name, labels = "muster_group_partition_lag", {"group": "simple", "topic": TOPIC}
        assert value(found, name, partition="0", **labels) == RECORDS
        assert value(found, name, partition="1", **labels) is None


async def test_any_group_id_is_a_label_that_reads_back(tmp_path: Path) -> None:
    def commits(client: WireClient) -> None:
        make_topic(client)
        for group_id in HOSTILE:
            assert client.ask(commit(0, group_id), 8).topics[0].partitions[0].error_code == 0

    async with running(tmp_path) as daemon:
        await asked(daemon, commits)
        found = samples(await scraped(daemon))
        shown = {dict(labels)["group"] for name, labels in found if name == "muster_group_commits_total"}
        short = {group_id for group_id in HOSTILE if len(group_id) <= MAX_LABEL_CHARS}
        assert short <= shown
        cut = shown - short - {OTHER}
        assert len(cut) == 2, "two long ids that begin alike stay two"
        assert all(len(each) == MAX_LABEL_CHARS for each in cut)


async def test_o28_commits_are_counted_by_partitions_and_not_by_requests(tmp_path: Path) -> None:
    def commits(client: WireClient) -> None:
        make_topic(client, partitions=3)
        several = commit(0)
        (topic,) = several.topics
        first = topic.partitions[0]
        topic.partitions = [first, *(replace(first, partition_index=index) for index in (1, 2))]
        assert [each.error_code for each in client.ask(several, 8).topics[0].partitions] == [0, 0, 0]

    async with running(tmp_path) as daemon:
        await asked(daemon, commits)
        found = samples(await scraped(daemon))
        assert value(found, "muster_requests_total", api="OffsetCommit") == 1
        assert value(found, "muster_offset_commits_total") == 3
        assert value(found, "muster_group_commits_total", group="g") == 3


async def test_offsets_that_are_deleted_are_counted_apart(tmp_path: Path) -> None:
    def deletes(client: WireClient) -> None:
        make_topic(client)
        client.ask(commit(0), 8)
        topic = OffsetDeleteRequestTopic(
            name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        assert client.ask(OffsetDeleteRequest(group_id="g", topics=[topic]), 0).error_code == 0

    async with running(tmp_path) as daemon:
        await asked(daemon, deletes)
        found = samples(await scraped(daemon))
        assert value(found, "muster_offsets_deleted_total") == 1
        assert value(found, "muster_offsets_expired_total") == 0
        assert value(found, "muster_offset_commits_total") == 1
        assert value(found, "muster_committed_offsets") == 0


async def test_counters_begin_anew_with_the_daemon_and_gauges_do_not(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await asked(daemon, live)
    async with running(tmp_path) as daemon:
        await asked(daemon, loaded)
        found = samples(await scraped(daemon))
        assert value(found, "muster_offset_commits_total") == 0
        assert value(found, "muster_requests_total", api="Heartbeat") == 0
        assert value(found, "muster_committed_offsets") == 1
        assert value(found, "muster_group_lag", group="m", topic=TOPIC) == 1


async def test_a_member_that_leaves_is_counted(tmp_path: Path) -> None:
    def comes_and_goes(client: WireClient) -> None:
        joined = client.ask(join(), 3)
        client.ask(sync(joined), 3)
        assert client.ask(leave(joined.member_id), 3).error_code == 0

    async with running(tmp_path) as daemon:
        await asked(daemon, comes_and_goes)
        found = samples(await scraped(daemon))
        assert value(found, "muster_member_leaves_total") == 1
        assert value(found, "muster_groups", protocol="classic", state="Empty") == 1


@pytest.mark.parametrize("text", ["x" * 300, "…" * 300, OTHER + "x" * 300])
def test_no_other_text_has_the_label_of_one_that_was_cut(text: str) -> None:
    """Whoever has seen the label may name a group so: then there were two samples of one name."""
    labels = [label_value(text)]
    for _ in range(3):
        labels.append(label_value(labels[-1]))
    assert len({*labels}) == 4
    assert max(map(len, labels)) == MAX_LABEL_CHARS


async def test_a_group_with_the_name_of_the_sum_is_told_from_it(tmp_path: Path) -> None:
    def commits(client: WireClient) -> None:
        make_topic(client)
        for group_id, offset in (("a", 1), (OTHER, 0)):
            assert produce(client) == 0
            assert client.ask(commit(offset, group_id), 8).topics[0].partitions[0].error_code == 0

    async with running(tmp_path, muster_metrics_groups_max=1) as daemon:
        await asked(daemon, commits)
        found = samples(await scraped(daemon))
        lags = {
            dict(labels)["group"]: lag for (name, labels), lag in found.items() if name == "muster_group_lag"
        }
        assert lags == {OTHER: 1, label_value(OTHER, OTHER): 2}
        assert label_value(OTHER, OTHER).startswith(f"{OTHER}…")


@pytest.mark.parametrize("text", ["", "plain", "ü" * MAX_LABEL_CHARS])
def test_a_label_that_needs_nothing_stays_as_it_is(text: str) -> None:
    assert label_value(text) == text
