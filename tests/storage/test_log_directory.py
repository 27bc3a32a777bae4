"""A directory of logs: one owner, an identity, checkpoints, clean and unclean ends."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from storage.checkpoints import TopicPartition, new_uuid
from storage.files import CorruptSegment, Files, StorageError
from storage.log_directory import LogDirectory, LogDirectoryError
from storage.partition_files import decode_uuid
from storage.partition_log import PartitionLog
from tests.storage.faulty_files import FaultyFiles
from tests.storage.logs import NOW_MS, SMALL, all_spans, batch, fill

TOPIC_ID = bytes(range(16))


def take(path: Path, files: Files | None = None) -> LogDirectory:
    return LogDirectory.open(path, files or Files(), node_id=1)


def filled(directory: LogDirectory, partition: int = 0, batches: int = 30) -> PartitionLog:
    log = directory.open_log("t", partition, SMALL, topic_id=TOPIC_ID)
    fill(log, batches)
    return log


def kill(directory: LogDirectory) -> None:
    """Let go of the directory as a process does that is killed."""
    directory._lock_file.close()


# One owner.

HOLDER = """
import sys
from pathlib import Path
from storage.files import Files
from storage.log_directory import LogDirectory
directory = LogDirectory.open(Path(sys.argv[1]), Files(), node_id=1)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_directory_that_another_process_holds_is_refused_in_one_sentence(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LogDirectoryError) as refused:
            take(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    assert str(refused.value) == f"log directory {tmp_path} is in use by another process"
    take(tmp_path).close()


JAVA_HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_directory_that_a_java_broker_holds_is_refused(tmp_path: Path) -> None:
    """Java takes a POSIX record lock, and no other."""
    holder = subprocess.Popen(
        [sys.executable, "-c", JAVA_HOLDER, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LogDirectoryError, match="is in use by another process"):
            take(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    take(tmp_path).close()


def test_a_java_broker_finds_the_directory_of_ours_locked(tmp_path: Path) -> None:
    directory = take(tmp_path)
    tries = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    command = [sys.executable, "-c", tries, str(tmp_path / ".lock")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    directory.close()
    assert "BlockingIOError" in refused.stderr
    assert subprocess.run(command, check=False).returncode == 0


def test_a_directory_is_free_again_after_close(tmp_path: Path) -> None:
    take(tmp_path).close()
    held = take(tmp_path)
    with pytest.raises(LogDirectoryError):
        take(tmp_path)
    held.close()


@pytest.mark.parametrize("obstacle", ["file", "below a file"])
def test_a_path_that_is_no_directory_is_refused_in_one_sentence(tmp_path: Path, obstacle: str) -> None:
    (tmp_path / "data").write_text("")
    path = tmp_path / "data" / ("sub" if obstacle == "below a file" else "")
    with pytest.raises(LogDirectoryError) as refused:
        take(path)
    assert str(refused.value).count("\n") == 0
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("number", [13, 28, 30])
def test_a_disk_that_refuses_is_told_in_one_sentence_and_the_lock_released(
    tmp_path: Path, number: int
) -> None:
    files = FaultyFiles(tmp_path)
    files.fail_always("create", number)
    with pytest.raises(LogDirectoryError, match=f"log directory {tmp_path} cannot be used: cannot"):
        take(tmp_path, files)
    take(tmp_path).close()


# Identity.


def test_a_new_directory_gets_kafkas_meta_properties(tmp_path: Path) -> None:
    directory = take(tmp_path)
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines == [
        f"cluster.id={directory.properties.cluster_id}",
        f"directory.id={directory.properties.directory_id}",
        "node.id=1",
        "version=1",
    ]
    assert len(decode_uuid(directory.properties.directory_id)) == 16
    directory.close()
    again = take(tmp_path)
    assert again.properties == directory.properties
    again.close()


def test_meta_properties_as_kafka_writes_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Fri Nov 21 02:14:07 UTC 2025\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
        "directory.id=S2sVSX2nTWWmfdMyMtSUkg\nnode.id=1\nversion=1\n"
    )
    directory = take(tmp_path)
    assert directory.properties.cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    directory.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node.id=2\ncluster.id=x\nversion=1\n", "it belongs to node 2, this is node 1"),
        ("node.id=1\ncluster.id=x\nversion=0\n", "version 0 is not 1"),
        ("node.id=1\nversion=1\n", "is no meta.properties file"),
        ("garbage", "is no meta.properties file"),
    ],
)
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(LogDirectoryError, match=reason):
        take(tmp_path)


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    take(tmp_path).close()
    with pytest.raises(LogDirectoryError, match="it belongs to cluster"):
        LogDirectory.open(tmp_path, Files(), node_id=1, cluster_id="another")


def test_a_new_uuid_is_none_that_kafka_reserves() -> None:
    uuids = {new_uuid() for _ in range(500)}
    assert len(uuids) == 500
    assert not [text for text in uuids if text.startswith("-") or len(text) != 22]


# Partitions.


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


# Checkpoints and the shutdown.


def test_checkpoints_have_kafkas_format(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory).advance_start(7)
    filled(directory, partition=1, batches=5)
    directory.checkpoint()
    points = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    starts = (tmp_path / "log-start-offset-checkpoint").read_text()
    assert points == "0\n2\nt 0 30\nt 1 5\n"
    assert starts == "0\n1\nt 0 7\n"
    directory.close()


def test_after_a_clean_shutdown_nothing_is_scanned(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory).advance_start(7)
    assert directory.close() == []
    marker = json.loads((tmp_path / ".kafka_cleanshutdown").read_text())
    assert marker == {"version": 0, "brokerEpoch": -1}

    again = take(tmp_path)
    assert again.shut_down_cleanly
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = again.open_log("t", 0, SMALL)
    assert log.recovered.segments_scanned == 0
    assert (log.log_start_offset, log.next_offset, log.topic_id) == (7, 30, TOPIC_ID)
    again.close()


def test_after_a_kill_what_was_checkpointed_is_not_scanned(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory)
    directory.checkpoint()
    kill(directory)
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    recovered = again.open_log("t", 0, SMALL).recovered
    assert (len(log.segments) > 2, recovered.segments_scanned) == (True, 1)
    again.close()


def test_a_kill_right_after_a_clean_start_is_no_clean_shutdown(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    kill(take(tmp_path))
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    again.close()


def test_a_shutdown_is_clean_for_logs_that_were_not_opened_only_if_the_last_one_was(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    take(tmp_path).close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    kill(take(tmp_path))
    take(tmp_path).close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 30\n"


def test_a_log_that_failed_makes_the_shutdown_unclean(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    log = filled(directory)
    log.append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    with pytest.raises(StorageError):
        log.flush()
    files.fault = None
    assert directory.close() == []
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = take(tmp_path)
    assert len(all_spans(again.open_log("t", 0, SMALL))) >= 30
    again.close()


def test_what_cannot_be_closed_is_told(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    filled(directory).append(batch(), wall_ms=NOW_MS)
    files.fail_always("sync")
    assert [failure.operation for failure in directory.close()] == ["sync", "sync"]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_damage_below_the_checkpoint_is_reported_and_the_others_open(tmp_path: Path) -> None:
    directory = take(tmp_path)
    log = filled(directory)
    filled(directory, partition=1)
    directory.checkpoint()
    kill(directory)
    active = log.segments[-1].path
    data = bytearray(active.read_bytes())
    data[-1] ^= 1
    active.write_bytes(data)
    again = take(tmp_path)
    with pytest.raises(CorruptSegment) as corrupt:
        again.open_log("t", 0, SMALL)
    assert corrupt.value.path == active
    assert again.open_log("t", 1, SMALL).next_offset == 30
    again.close()
    assert "t 0 30" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_truncation_moves_the_recovery_point_back_first(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    directory = take(tmp_path, files)
    filled(directory)
    directory.checkpoint()
    directory.truncate("t", 0, 12)
    kill(directory)
    files.crash()
    again = take(tmp_path, files)
    assert again.open_log("t", 0, SMALL).next_offset == 12
    again.close()


def test_entries_of_partitions_that_are_gone_are_dropped_at_once(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    directory = take(tmp_path)
    assert ["t-0" in warning for warning in directory.warnings] == [True]
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"
    filled(directory, batches=3)
    kill(directory)
    assert take(tmp_path).open_log("t", 0, SMALL).next_offset == 3


@pytest.mark.parametrize("text", ["\n", "garbage", "1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt 0\n", "\xff"])
def test_a_garbled_checkpoint_is_told_and_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text(text, encoding="latin-1")
    directory = take(tmp_path)
    assert ["it is not used" in warning for warning in directory.warnings] == [True]
    assert directory.close() == []


def test_where_a_log_starts_is_remembered_only_where_its_files_do_not_tell(tmp_path: Path) -> None:
    """What is not written cannot rot: a wrong digit would hide records, or bring deleted ones back."""
    directory = take(tmp_path)
    log = filled(directory)
    log.config = replace(SMALL, retention_bytes=500)
    assert log.apply_retention(NOW_MS) > 0
    directory.checkpoint()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    start = log.log_start_offset
    assert directory.close() == []
    again = take(tmp_path)
    assert again.open_log("t", 0, SMALL).log_start_offset == start > 0
    again.close()


def test_a_log_that_could_not_be_opened_is_opened_later_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.checkpoint()
    kill(directory)
    files = FaultyFiles(tmp_path)
    files.refuse_to_open(".log")
    again = take(tmp_path, files)
    log = again.add_log("t", 0, SMALL)
    for _ in range(2):
        with pytest.raises(StorageError, match="Too many open files"):
            log.recover()
    for use in (log.flush, lambda: log.read(0, 1), lambda: next(log.batches(0)), log.max_timestamp):
        with pytest.raises(StorageError, match="Too many open files"):
            use()
    again.checkpoint()
    assert "t 0 30" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    files.read_fault = None
    log.fail_back()
    assert all_spans(log) == [(n, n) for n in range(30)]
    log.append(batch(), wall_ms=NOW_MS)
    log.fail_back()
    assert log.next_offset == 30
    assert again.close() == []


@pytest.mark.parametrize("text", ["", "garbage", "{}", '{"version":1}', "[0]"])
def test_a_garbled_marker_of_a_clean_shutdown_is_told_and_not_believed(tmp_path: Path, text: str) -> None:
    directory = take(tmp_path)
    filled(directory)
    assert directory.close() == []
    (tmp_path / ".kafka_cleanshutdown").write_text(text)
    again = take(tmp_path)
    assert not again.shut_down_cleanly
    assert ["taken for unclean" in warning for warning in again.warnings] == [True]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again.close()


@pytest.mark.parametrize("text", ["", "\n", "node.id=1", "version=1\nnode.id=x\ncluster.id=c\n"])
def test_an_empty_or_garbled_meta_properties_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(LogDirectoryError, match=r"meta\.properties is no meta\.properties file"):
        take(tmp_path)
    assert (tmp_path / "meta.properties").read_text() == text


def live(root: Path, files: FaultyFiles, acknowledged: dict[str, int]) -> bool:
    """A daemon's life, with a checkpoint, a roll, a deletion and a shutdown; whether it came to its end."""
    directory = take(root, files)
    try:
        log = directory.open_log("t", 0, SMALL, topic_id=TOPIC_ID)
        fill(directory.open_log("u", 0, SMALL, topic_id=TOPIC_ID), 1)
        for number in range(9):
            log.append(batch(), wall_ms=NOW_MS)
            log.flush()
            acknowledged["t"] = log.durable_offset
            if number == 3:
                directory.checkpoint()
        directory.delete_log("u", 0)
        fill(directory.open_log("u", 0, SMALL, topic_id=TOPIC_ID), 1)
        acknowledged["u"] = 1
        return directory.close() == []
    finally:
        kill(directory)


def test_a_loss_of_power_at_any_moment_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    for nth in range(400):
        root = tmp_path / str(nth)
        root.mkdir()
        files = FaultyFiles(root)
        left = iter(range(nth))
        files.fault = lambda _, left=left: None if next(left, None) is not None else OSError(5, "off")
        acknowledged = {"t": 0, "u": 0}
        try:
            ended = live(root, files, acknowledged)
        except (StorageError, LogDirectoryError):
            ended = False
        files.fault = None
        files.crash()
        again = take(root, files)
        for topic, count in acknowledged.items():
            found = all_spans(again.open_log(topic, 0, SMALL))
            assert found == [(n, n) for n in range(len(found))]
            assert len(found) >= count, nth
        assert again.close() == []
        if ended:
            return
    pytest.fail("the workload has more operations than this")


def test_directories_may_be_given_another_config_at_each_start(tmp_path: Path) -> None:
    directory = take(tmp_path)
    filled(directory)
    directory.close()
    again = take(tmp_path)
    log = again.open_log("t", 0, replace(SMALL, segment_bytes=400, index_interval_bytes=10))
    fill(log, 10)
    assert all_spans(log) == [(n, n) for n in range(40)]
    again.close()
