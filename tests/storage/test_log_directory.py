"""The partitions in a directory of logs: found, made, deleted."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from protocol.topic_partition import TopicPartition
from storage.files import StorageError
from tests.storage.directories import filled, kill, take
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, fill


def test_partitions_are_found_by_their_directories(tmp_path: Path) -> None:
    names = [
        "a-0",
        "a-b-12",
        "__consumer_offsets-49",
        "x.y-1",
        "__cluster_metadata-0",
        "a-01",
        "a-0.5f-delete",
    ]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_text("")
    directory = take(tmp_path)
    assert directory.partitions() == [
        TopicPartition("__consumer_offsets", 49),
        TopicPartition("a", 0),
        TopicPartition("a-b", 12),
        TopicPartition("x.y", 1),
    ]
    assert not (tmp_path / "a-0.5f-delete").exists()
    directory.close()


@pytest.mark.parametrize("umask", [0o022, 0])
def test_a_directory_that_is_made_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """F13: users and rights may be kept in it. What was there keeps its mode."""
    made, found = tmp_path / "above" / "made", tmp_path / "found"
    found.mkdir()
    found.chmod(0o755)
    before = os.umask(umask)
    try:
        for path in (made, found):
            take(path).close()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (made.parent, made, found)]
    assert modes == [0o777 & ~umask, 0o700, 0o755]


def test_an_empty_log_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    directory = take(tmp_path)
    for partition in range(50):
        directory.open_log("__consumer_offsets", partition, SMALL)
    assert directory.partitions() == []
    assert directory.close() == []
    assert directory.partitions() == []


def test_a_deleted_log_is_gone_and_may_be_made_again_from_zero(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory)
    directory.checkpoint()
    directory.delete_log("t", 0)
    assert directory.partitions() == []
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"
    with pytest.raises(StorageError, match="the partition was deleted"):
        log.append(batch(), wall_ms=NOW_MS)
    assert filled(directory, batches=2).next_offset == 2
    kill(directory)
    again = take(tmp_path)
    assert all_spans(again.open_log("t", 0, SMALL)) == [(0, 0), (1, 1)]
    again.close()


def test_a_reader_of_a_deleted_log_finishes(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory, batches=3)
    replayed = log.batches(0)
    next(replayed)
    directory.delete_log("t", 0)
    assert [found.base_offset for found, _ in replayed] == [1, 2]
    directory.close()


def test_directories_may_be_given_another_config_at_each_start(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    again = take(tmp_path)
    log = again.open_log("t", 0, replace(SMALL, segment_bytes=400, index_interval_bytes=10))
    fill(log, 10)
    assert all_spans(log) == [(n, n) for n in range(40)]
    again.close()
