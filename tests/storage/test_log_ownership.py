"""Whose a directory of logs is: one owner at a time, and an identity that Kafka knows as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.directory.log_directory import LogDirectory, LogDirectoryError
from storage.files import Files
from storage.log.checkpoints import new_uuid
from storage.log.partition_files import decode_uuid
from tests.storage.directories import take

HOLDER = """
import sys
from pathlib import Path
from storage.files import Files
from storage.directory.log_directory import LogDirectory
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
def test_a_disk_that_refuses_is_reported_in_one_sentence_and_the_lock_released(
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
def test_a_directory_of_another_broker_is_refused(tmp_path: Path, text: str, reason: str) -> None:
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


@pytest.mark.parametrize("text", ["", "\n", "node.id=1", "version=1\nnode.id=x\ncluster.id=c\n"])
def test_an_empty_or_garbled_meta_properties_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(LogDirectoryError, match=r"meta\.properties is no meta\.properties file"):
        take(tmp_path)
    assert (tmp_path / "meta.properties").read_text() == text
