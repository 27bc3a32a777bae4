"""Damage to one log is felt by that log alone, and is reported with file and byte."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.groups.partitioning import partition_for
from coordinator.runtime import outages
from harness.daemon_thread import Daemon
from harness.doubles.faulty_files import FaultyFiles
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.server.asking import TOPIC, commit, committed, fetch, make_topic, produce

PARTITIONS = 50
RECORD = b"v" * 100
COMMITS = 6
PATIENCE_S = 30
GROUPS = {partition_for(f"g{number}", PARTITIONS): f"g{number}" for number in range(400)}
"""One group for each partition of the offsets topic."""


def fetched(client: WireClient, group_id: str) -> tuple[int, int]:
    """Error and offset."""
    (group,) = client.ask(fetch(group_id), 8).groups
    return group.error_code, group.topics[0].partitions[0].committed_offset if group.topics else -1


def fetch_records(client: WireClient, partition: int) -> Any:
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])
    return client.ask(request, 12).responses[0].partitions[0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a daemon left behind that was killed: commits in each of 50 partitions, records in three."""
    assert len(GROUPS) == PARTITIONS
    root = tmp_path / "first"
    root.mkdir()
    files = FaultyFiles(root)
    with Daemon(root, files) as daemon, WireClient(daemon.bootstrap) as client:
        make_topic(client, partitions=3)
        for group_id in GROUPS.values():
            for offset in range(COMMITS):
                assert committed(client.ask(commit(offset, group_id), 8)) == 0
        assert [produce(client, partition, RECORD) for partition in range(3) for _ in range(3)] == [0] * 9
    return root


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    """What the daemon's log says."""

    def said() -> list[str]:
        captured = capfd.readouterr()
        return (captured.out + captured.err).splitlines()

    return said


def damage(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def has_loaded(client: WireClient, group_id: str) -> bool:
    return fetched(client, group_id)[0] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def serve_all_but(client: WireClient, broken: int) -> None:
    """Every group is served, reading and writing, but those of one partition."""
    for partition, group_id in GROUPS.items():
        if partition != broken:
            wait_until(partial(has_loaded, client, group_id), "it has loaded", PATIENCE_S)
            assert fetched(client, group_id) == (0, COMMITS - 1)
            assert committed(client.ask(commit(COMMITS - 1, group_id), 8)) == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_corrupt_batch_in_one_of_50_partitions_leaves_the_others_serving(
    data: Path, lines: Any, is_clean: bool
) -> None:
    """Found by the replay after a clean shutdown, by recovery after a crash: the same file and byte."""
    broken, group_id = 17, GROUPS[17]
    segment = data / f"__consumer_offsets-{broken}" / f"{0:020d}.log"
    size_bytes = segment.stat().st_size // COMMITS
    damage(segment, 2 * size_bytes + 80)
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    before = segment.read_bytes()
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        serve_all_but(client, broken)
        wait_until(partial(has_loaded, client, group_id), "it was looked at as well", PATIENCE_S)
        assert fetched(client, group_id)[0] == ErrorCode.NOT_COORDINATOR
        refused = committed(client.ask(commit(9, group_id), 8))
        assert refused == ErrorCode.NOT_COORDINATOR
        listed = client.ask(ListGroupsRequest(), 4)
        assert (listed.error_code, len(listed.groups)) == (0, PARTITIONS - 1)
    assert segment.read_bytes() == before
    reported = [line for line in lines() if "offsets partition cannot be loaded" in line]
    assert len(reported) == 1
    assert str(segment) in reported[0]
    assert f"corrupt at byte {2 * size_bytes}:" in reported[0]


def test_a_corrupt_partition_of_a_topic_is_offline_alone(data: Path, lines: Any) -> None:
    """What Kafka's clients hear of an offline log: no leader, and KAFKA_STORAGE_ERROR if they ask anyway."""
    (data / ".kafka_cleanshutdown").unlink()
    segment = data / f"{TOPIC}-1" / f"{0:020d}.log"
    damage(segment, 100)
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        (topic,) = client.ask(asked, 9).topics
        assert [
            (found.partition_index, found.error_code, found.leader_id, found.offline_replicas)
            for found in topic.partitions
        ] == [(0, 0, 1, []), (1, ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]), (2, 0, 1, [])]
        assert [produce(client, partition) for partition in range(3)] == [0, 56, 0]
        assert [fetch_records(client, partition).error_code for partition in range(3)] == [0, 56, 0]
        for timestamp in (-1, -2, 0):
            place = ListOffsetsPartition(partition_index=1, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[place])]
            )
            assert client.ask(request, 5).topics[0].partitions[0].error_code == 56
        serve_all_but(client, broken=-1)
    reported = [line for line in lines() if "partition cannot be opened" in line]
    assert len(reported) == 1
    assert str(segment) in reported[0]
    assert "corrupt at byte 0:" in reported[0]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_directory_that_cannot_be_read_is_tried_again(
    data: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition of the offsets topic and one of a user's; what ails them passes."""
    monkeypatch.setattr(outages, "TRY_AGAIN_MS", 200)
    monkeypatch.setattr("coordinator.runtime.outages.TRY_AGAIN_MS", 200)
    files = FaultyFiles(data)
    broken = ("__consumer_offsets-17", f"{TOPIC}-1")
    files.read_fault = lambda op: (
        OSError(number, os.strerror(number))
        if op.name in ("list", "open") and any(part in broken for part in op.path.parts)
        else None
    )
    with Daemon(data, files) as daemon, WireClient(daemon.bootstrap) as client:
        serve_all_but(client, 17)
        wait_until(
            lambda: fetched(client, GROUPS[17])[0] == ErrorCode.NOT_COORDINATOR, "it gave up", PATIENCE_S
        )
        assert [produce(client, partition) for partition in range(3)] == [0, 56, 0]
        files.read_fault = None
        wait_until(lambda: fetched(client, GROUPS[17]) == (0, COMMITS - 1), "it is read", PATIENCE_S)
        wait_until(lambda: produce(client, 1) == 0, "it takes records", PATIENCE_S)
        assert fetch_records(client, 1).high_watermark == 4


# Small files.


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_garbled_file_of_a_partition_takes_that_one_out_of_service(
    data: Path, name: str, lines: Any
) -> None:
    path = data / f"{TOPIC}-1" / name
    path.write_bytes(b"\xff\x00garbage")
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        assert [produce(client, partition) for partition in range(3)] == [0, 56, 0]
    assert [str(path) in line for line in lines() if "partition cannot be opened" in line] == [True]


def test_a_topic_id_with_a_wrong_bit_deletes_nothing(data: Path, lines: Any) -> None:
    """A directory of an unknown topic is what a deletion leaves behind, and is removed at a start."""
    path = data / f"{TOPIC}-1" / "partition.metadata"
    text = path.read_text()
    path.write_text(text[:-3] + ("A" if text[-3] != "A" else "B") + text[-2:])
    before = {file: file.read_bytes() for file in (data / f"{TOPIC}-1").iterdir()}
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        assert [produce(client, partition) for partition in range(3)] == [0, 56, 0]
    assert {file: file.read_bytes() for file in (data / f"{TOPIC}-1").iterdir()} == before
    assert [str(path) in line for line in lines() if "partition cannot be opened" in line] == [True]


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("garbage", [b"\xff\xff", b"0\n77\n", b"0\n1\norders 0 x\n"])
def test_a_garbled_checkpoint_is_logged_and_all_is_served(
    data: Path, name: str, garbage: bytes, lines: Any
) -> None:
    (data / name).write_bytes(garbage)
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        serve_all_but(client, broken=-1)
        assert [produce(client, partition) for partition in range(3)] == [0, 0, 0]
    assert [line for line in lines() if name in line and "it is not used" in line]


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"{}", b'{"version":7}', b"[]"])
def test_a_garbled_marker_of_a_clean_shutdown_is_not_believed(data: Path, garbage: bytes, lines: Any) -> None:
    (data / ".kafka_cleanshutdown").write_bytes(garbage)
    with Daemon(data, FaultyFiles(data)) as daemon, WireClient(daemon.bootstrap) as client:
        serve_all_but(client, broken=-1)
    assert [line for line in lines() if "taken for unclean" in line]
