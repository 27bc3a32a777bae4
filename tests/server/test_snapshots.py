"""What a stop leaves of each shard, and what a start makes of it: with a real daemon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import MusterDaemon
from harness.kafka_groups import await_coordinator
from harness.wire import WireClient
from muster.cli import run
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from storage.log.shard_snapshot import SHARD_SNAPSHOT

TOPIC, GROUP = "orders", "payments"
PARTITIONS = 900
COMMITS = 4  # A log of about 450 kB.
SETTINGS = {"offsets.topic.num.partitions": "2", "num.partitions": str(PARTITIONS)}
"""One shard with a long log, and one that holds nothing."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[MusterDaemon]:
    server = MusterDaemon(tmp_path, SETTINGS)
    yield server
    server.kill()


def commit(client: WireClient, first: int, partitions: int = PARTITIONS) -> None:
    wanted = [
        OffsetCommitRequestPartition(
            partition_index=each, committed_offset=first + each, committed_metadata=""
        )
        for each in range(partitions)
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=wanted)]
    answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
    assert {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.NONE}


def offsets(client: WireClient) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    (group,) = client.ask(request, 8).groups
    assert group.error_code == ErrorCode.NONE
    return {each.partition_index: each.committed_offset for each in group.topics[0].partitions}


def left_by(daemon: MusterDaemon) -> list[Path]:
    return sorted(daemon.log_dir.glob(f"*/{SHARD_SNAPSHOT}"))


def lines(daemon: MusterDaemon, event: str) -> list[dict[str, Any]]:
    """The daemon's log lines of one event, of all its lives."""
    found = [json.loads(line) for line in daemon.log_path.read_text().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def first_life(daemon: MusterDaemon) -> dict[int, int]:
    """Commit, and stop cleanly; return the offsets."""
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == ErrorCode.NONE
        await_coordinator(client, [GROUP])
        for number in range(COMMITS):
            commit(client, 1_000 * number)
        found = offsets(client)
    assert daemon.terminate() == 0
    return found


def next_life(daemon: MusterDaemon) -> dict[int, int]:
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        await_coordinator(client, [GROUP])
        return offsets(client)


def records_read(daemon: MusterDaemon) -> int:
    return int(lines(daemon, "offsets loaded")[-1]["records"])


def test_a_clean_stop_leaves_a_snapshot_and_the_start_takes_it(daemon: MusterDaemon) -> None:
    """Only of the shard with a long log; and a crash leaves none."""
    written = first_life(daemon)
    (snapshot,) = left_by(daemon)
    assert run(["log", "verify", str(daemon.log_dir), "--strict"]) == 0
    assert next_life(daemon) == written == {each: 1_000 * (COMMITS - 1) + each for each in range(PARTITIONS)}
    assert left_by(daemon) == []
    assert records_read(daemon) == 0
    with WireClient(daemon.bootstrap) as client:
        commit(client, 50_000, partitions=1)
    daemon.kill()
    assert left_by(daemon) == []
    assert next_life(daemon) == {**written, 0: 50_000}
    assert records_read(daemon) == COMMITS * PARTITIONS + 1
    assert daemon.terminate() == 0
    assert left_by(daemon) == [snapshot]


def test_a_snapshot_that_comes_back_is_not_used(daemon: MusterDaemon, tmp_path: Path) -> None:
    """As a loss of power may bring it back: its removal was not synced. The log has gone on since."""
    written = first_life(daemon)
    (snapshot,) = left_by(daemon)
    shutil.copy(snapshot, tmp_path / "kept")
    next_life(daemon)
    with WireClient(daemon.bootstrap) as client:
        commit(client, 50_000, partitions=1)
    daemon.kill()
    shutil.copy(tmp_path / "kept", snapshot)
    assert next_life(daemon) == {**written, 0: 50_000}
    assert records_read(daemon) == COMMITS * PARTITIONS + 1
    (refused,) = lines(daemon, "a shard's snapshot is not used: its log is read")
    assert "as it was before" in refused["reason"]
    assert left_by(daemon) == []


def test_a_snapshot_that_is_damaged_costs_nothing_but_time(daemon: MusterDaemon) -> None:
    written = first_life(daemon)
    (snapshot,) = left_by(daemon)
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    snapshot.write_bytes(data)
    assert next_life(daemon) == written
    assert records_read(daemon) == COMMITS * PARTITIONS
