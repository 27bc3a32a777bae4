"""What the disk is really asked to keep, and in which order: the calls that `Files` makes of the system.

A sync that is left out, or made of another file, is seen by no test on the double and by no kill: what a
process wrote survives it in the page cache. So these lists are whole: every call that changes the disk, in order.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from harness.doubles.system_calls import SystemCalls, atomically, made
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import File, Files, StorageError
from storage.log.config import LogConfig
from storage.log.partition_log import PartitionLog
from tests.storage.cleaning import clean, open_compacted, put, roll
from tests.storage.logs import NOW_MS, OS_SMALL, SMALL, batch, fill, open_log

FIRST, SECOND = "t-0/00000000000000000000", "t-0/00000000000000000011"
SYNCING_THE_FIRST = [f"fdatasync {FIRST}{suffix}" for suffix in (".log", ".index", ".timeindex")]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemCalls:
    return SystemCalls(tmp_path, monkeypatch)


def stage(log: PartitionLog, batches: int = 1) -> None:
    for _ in range(batches):
        log.append(batch(), wall_ms=NOW_MS)


def fill_a_segment(log: PartitionLog) -> None:
    """As many batches as fit; the next one rolls."""
    fill(log, 11)
    assert len(log.segments) == 1


# One file.


def test_a_sync_is_an_fdatasync_of_the_file_itself(tmp_path: Path, calls: SystemCalls) -> None:
    file = Files().open(tmp_path / "a", create=True)
    file.write_at([b"bytes"], 0)
    file.sync()
    assert calls.taken() == ["create a", "pwritev a", "fdatasync a"]


def test_a_sync_that_the_system_refuses_is_an_error() -> None:
    reader, writer = os.pipe()  # Nothing that fdatasync takes.
    with os.fdopen(reader), pytest.raises(StorageError) as refused:
        File(Path("pipe"), writer).sync()
    assert (refused.value.operation, refused.value.errno) == ("sync", errno.EINVAL)


def test_the_names_of_a_directory_are_synced_by_fsync(tmp_path: Path, calls: SystemCalls) -> None:
    Files().sync_directory(tmp_path)
    assert calls.taken() == ["fsync ."]
    with pytest.raises(StorageError, match="sync"):
        Files().sync_directory(tmp_path / "of-no-such-name")


def test_a_file_is_synced_before_its_rename_and_the_name_after_it(tmp_path: Path, calls: SystemCalls) -> None:
    Files().write_atomically(tmp_path / "a", b"bytes")
    assert (
        calls.taken()
        == atomically("a")
        == [
            "create a.tmp",
            "ftruncate a.tmp",
            "pwritev a.tmp",
            "fdatasync a.tmp",
            "rename a.tmp a",
            "fsync .",
        ]
    )


# A log directory.


def test_a_directory_that_is_made_has_a_name_before_anything_is_in_it(
    tmp_path: Path, calls: SystemCalls
) -> None:
    """And so has each above it that was missing: with the name all below it would be lost."""
    LogDirectory.open(tmp_path / "a" / "b", Files(), node_id=1).close()
    names = ["mkdir a", "fsync .", "mkdir a/b", "fsync a", "create a/b/.lock"]
    assert calls.taken()[: len(names)] == names


def test_a_directory_whose_name_is_not_on_the_disk_is_not_left_to_the_next_start(tmp_path: Path) -> None:
    class Broken(Files):
        def sync_directory(self, path: Path) -> None:
            raise StorageError("sync", path, "broken", errno.EIO)

    with pytest.raises(LogDirectoryError, match="sync"):
        LogDirectory.open(tmp_path / "a" / "b", Broken(), node_id=1)
    assert list(tmp_path.iterdir()) == []


# A log.


def test_the_first_flush_syncs_the_batch_then_the_names(tmp_path: Path, calls: SystemCalls) -> None:
    log = open_log(tmp_path / "t-0")
    stage(log)
    assert calls.taken() == []
    log.flush()
    epochs = atomically("t-0/leader-epoch-checkpoint", sync_name=False)
    written = [f"pwritev {FIRST}.log", f"fdatasync {FIRST}.log"]
    assert calls.taken() == ["mkdir t-0", *epochs, *made(FIRST), *written, "fsync t-0", "fsync ."]


def test_the_first_flush_of_several_batches_is_one_write_and_one_sync(
    tmp_path: Path, calls: SystemCalls
) -> None:
    log = open_log(tmp_path / "t-0")
    stage(log, batches=5)
    log.flush()
    of_the_log = [call for call in calls.taken() if call.endswith(".log") and not call.startswith("create")]
    assert of_the_log == [f"ftruncate {FIRST}.log", f"pwritev {FIRST}.log", f"fdatasync {FIRST}.log"]


def test_a_flush_is_one_write_and_one_sync(tmp_path: Path, calls: SystemCalls) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 1)
    calls.taken()
    stage(log, batches=5)
    log.flush()
    behind = [f"pwritev {FIRST}.index", f"pwritev {FIRST}.timeindex"]  # Built again after a crash.
    assert calls.taken() == [f"pwritev {FIRST}.log", f"fdatasync {FIRST}.log", *behind]


def test_under_the_os_policy_a_flush_is_a_write_alone(tmp_path: Path, calls: SystemCalls) -> None:
    log = open_log(tmp_path / "t-0", OS_SMALL)
    fill(log, 1)
    calls.taken()
    stage(log)
    log.flush()
    assert calls.taken() == [f"pwritev {FIRST}.log"]


def test_under_the_os_policy_a_log_is_synced_once_so_many_records_came(
    tmp_path: Path, calls: SystemCalls
) -> None:
    """With its names, before the last of them is shown; then they are counted from there."""
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, flush_messages=3))
    write, sync = f"pwritev {FIRST}.log", f"fdatasync {FIRST}.log"

    def asked_for(records: int, batches: int = 1) -> list[str]:
        calls.taken()
        fill(log, batches, records=records, per_flush=batches)
        return [call for call in calls.taken() if not call.endswith("index")]

    fill(log, 1)
    assert (asked_for(records=1), log.recovery_point) == ([write], 0)
    assert (asked_for(records=1), log.recovery_point) == ([write, sync, "fsync t-0", "fsync ."], 3)
    assert (asked_for(records=2), log.recovery_point) == ([write], 3)
    assert (asked_for(records=1, batches=4), log.recovery_point) == ([write, sync], 9)


def test_where_that_sync_fails_nothing_is_shown_and_the_log_has_failed(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, flush_messages=2), files)
    fill(log, 1)
    stage(log)
    files.fail_always("sync")
    with pytest.raises(StorageError, match="sync"):
        log.flush()
    assert (log.durable_offset, log.recovery_point) == (1, 0)
    assert log.failure is not None


def test_a_sync_for_its_age_that_fails_fails_the_log(tmp_path: Path) -> None:
    """What was shown may be lost: the log is cut back, which writes it again, before it goes on."""
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, flush_ms=1000), files)
    fill(log, 1)
    files.fail_always("sync")
    with pytest.raises(StorageError, match="sync"):
        log.sync(NOW_MS + 1000)
    assert (log.failure is not None, log.recovery_point) == (True, 0)
    log.sync(NOW_MS + 2000)  # Left alone until it is cut back.
    files.fault = None
    log.fail_back()
    assert (log.failure, log.recovery_point) == (None, 1)


def test_under_the_os_policy_a_log_is_synced_so_long_after_its_last_sync(
    tmp_path: Path, calls: SystemCalls
) -> None:
    """The time is that of the call; a segment that was begun counts as synced then."""
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, flush_ms=1000))
    log.sync(NOW_MS)
    assert calls.taken() == []
    fill(log, 1)
    calls.taken()
    log.sync(NOW_MS + 999)
    assert (calls.taken(), log.recovery_point) == ([], 0)
    log.sync(NOW_MS + 1000)
    assert (calls.taken(), log.recovery_point) == ([f"fdatasync {FIRST}.log", "fsync t-0", "fsync ."], 1)
    log.sync(NOW_MS + 9000)
    assert calls.taken() == []
    fill(log, 1)
    calls.taken()
    log.sync(NOW_MS + 1999)
    assert calls.taken() == []
    log.sync(NOW_MS - 1)  # The clock was set back: when the last sync was is not known any more.
    assert (calls.taken(), log.recovery_point) == ([f"fdatasync {FIRST}.log"], 2)


def test_by_default_a_log_under_the_os_policy_is_never_synced_for_its_age(
    tmp_path: Path, calls: SystemCalls
) -> None:
    log = open_log(tmp_path / "t-0", OS_SMALL)
    fill(log, 1)
    calls.taken()
    log.sync(NOW_MS + 10**12)
    assert calls.taken() == []


@pytest.mark.parametrize(
    ("config", "names", "synced"),
    [
        (SMALL, [], [f"fdatasync {SECOND}.log", "fsync t-0"]),
        (OS_SMALL, ["fsync t-0", "fsync ."], []),  # Names that no flush has synced so far.
    ],
    ids=["fsync", "os"],
)
def test_a_segment_is_synced_with_its_indexes_before_the_next_one_is_made(
    tmp_path: Path, calls: SystemCalls, config: LogConfig, names: list[str], synced: list[str]
) -> None:
    log = open_log(tmp_path / "t-0", config)
    fill_a_segment(log)
    calls.taken()
    stage(log)
    log.flush()
    assert (
        calls.taken()
        == [
            f"fdatasync {FIRST}.log",
            f"pwritev {FIRST}.timeindex",  # Its last entry.
            *SYNCING_THE_FIRST[1:],
            *names,
            *made(SECOND),
            f"pwritev {SECOND}.log",
            *synced,
        ]
    )


@pytest.mark.parametrize("config", [SMALL, OS_SMALL], ids=["fsync", "os"])
def test_closing_a_log_syncs_it_under_either_policy(
    tmp_path: Path, calls: SystemCalls, config: LogConfig
) -> None:
    log = open_log(tmp_path / "t-0", config)
    fill(log, 3)
    calls.taken()
    log.close()
    synced = [call for call in calls.taken() if call.startswith(("fdatasync", "fsync"))]
    assert synced[:3] == SYNCING_THE_FIRST
    assert "fsync t-0" in synced


def test_a_torn_tail_is_kept_aside_and_the_rest_synced_before_it_is_shown(
    tmp_path: Path, calls: SystemCalls
) -> None:
    fill(open_log(tmp_path / "t-0"), 2)
    with (tmp_path / f"{FIRST}.log").open("ab") as log_file:
        log_file.write(b"torn")
    calls.taken()
    assert open_log(tmp_path / "t-0").next_offset == 2
    torn, log = f"{FIRST}.log.torn-0", f"{FIRST}.log"
    found = [call for call in calls.taken() if call.endswith((".log", ".torn-0", " t-0", " ."))]
    assert found == [
        f"create {torn}",
        f"pwritev {torn}",
        f"fdatasync {torn}",
        f"ftruncate {log}",
        f"pwritev {log}",
        f"fdatasync {log}",
        "fsync t-0",
        "fsync .",
    ]


def test_a_compaction_is_synced_before_each_step_that_counts_on_it(
    tmp_path: Path, calls: SystemCalls
) -> None:
    log = open_compacted(tmp_path / "t-0")
    put(log, ("a", "1"), ("b", "x"))
    roll(log)
    put(log, ("a", "2"))
    roll(log)
    calls.taken()
    clean(log)
    draft, swap, old = f"{FIRST}.log.cleaned", f"{FIRST}.log.swap", "t-0/00000000000000000002"
    assert (
        calls.taken()
        == [
            f"create {draft}",
            f"ftruncate {draft}",
            f"pwritev {draft}",
            f"fdatasync {draft}",
            f"rename {draft} {Path(swap).name}",
            "fsync t-0",  # From here on the swap will happen.
            f"unlink {FIRST}.index",
            f"unlink {FIRST}.timeindex",
            f"unlink {old}.log",
            f"unlink {old}.index",
            f"unlink {old}.timeindex",
            "fsync t-0",  # Before the name that made them superfluous goes.
            f"rename {swap} {Path(FIRST).name}.log",
            *made(FIRST)[2:],
            f"fdatasync {FIRST}.index",
            f"fdatasync {FIRST}.timeindex",
            "fsync t-0",
        ]
    )


# The directory of all logs.


def test_a_checkpoint_syncs_what_the_sealed_segments_are_then_how_far_logs_are_synced(
    tmp_path: Path, calls: SystemCalls
) -> None:
    directory = LogDirectory.open(tmp_path, Files(), node_id=1)
    fill(directory.open_log("t", 0, SMALL), 1)
    calls.taken()
    directory.checkpoint()
    assert calls.taken() == [
        *atomically("sealed-segments.json"),
        *atomically("recovery-point-offset-checkpoint"),
        *atomically("log-start-offset-checkpoint"),
    ]
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    directory.close()


def test_the_marker_of_a_clean_shutdown_is_the_last_thing_and_goes_first(
    tmp_path: Path, calls: SystemCalls
) -> None:
    directory = LogDirectory.open(tmp_path, Files(), node_id=1)
    fill(directory.open_log("t", 0, SMALL), 1)
    calls.taken()
    assert directory.close() == []
    closing = calls.taken()
    marker = atomically(".kafka_cleanshutdown")
    assert closing[-len(marker) :] == marker
    assert closing.index(f"fdatasync {FIRST}.log") < closing.index(
        "create recovery-point-offset-checkpoint.tmp"
    )
    again = LogDirectory.open(tmp_path, Files(), node_id=1)
    assert calls.taken()[:2] == ["unlink .kafka_cleanshutdown", "fsync ."]
    again.close()


def test_a_deleted_log_is_gone_for_good_before_its_files_go(tmp_path: Path, calls: SystemCalls) -> None:
    directory = LogDirectory.open(tmp_path, Files(), node_id=1)
    fill(directory.open_log("t", 0, SMALL), 1)
    calls.taken()
    directory.delete_log("t", 0)
    first, second, *later = calls.taken()
    assert first.startswith("rename t-0 t-0.")
    assert second == "fsync ."
    assert all(call.startswith(("unlink", "rmdir")) for call in later)
    directory.close()


def test_deleted_records_are_gone_for_good_before_their_segments_go(
    tmp_path: Path, calls: SystemCalls
) -> None:
    directory = LogDirectory.open(tmp_path, Files(), node_id=1)
    log = directory.open_log("t", 0, SMALL)
    fill(log, 12)
    calls.taken()
    name = directory.partitions()[0]
    directory.delete_records(name, log, 11, NOW_MS)
    starts = atomically("log-start-offset-checkpoint")
    found = calls.taken()
    assert found[: len(starts)] == starts
    assert f"unlink {FIRST}.log" in found[len(starts) :]
    assert found[-1] == "fsync t-0"
    directory.close()
