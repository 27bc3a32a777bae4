"""What a start says of a journal that it cannot take: one sentence, with the file and what an operator can do."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.faulty_daemon import FaultyDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from storage.files import Files
from storage.journal.files import DIRECTORY
from storage.journal.frames import Part, encode_frame
from storage.journal.scan import Place, read_whole, scan_file
from tests.server.test_start_and_stop import FEW, PATIENCE_S, commit, fetched, find, refusal
from tests.topics.world import batch

ADVICE = "`muster log verify {}` says what is wrong with it. To start without, move {} aside"


def commit_once(daemon: MusterDaemon, offset: int) -> int:
    with WireClient(daemon.bootstrap) as client:
        wait_until(lambda: fetched(client) is not None, "the offsets are loaded", PATIENCE_S)
        client.send(commit(offset), 8)
        return int(client.receive().topics[0].partitions[0].error_code)


def killed(scratch: Path) -> MusterDaemon:
    """A daemon that was killed after a commit; its journal has a frame."""
    daemon = MusterDaemon(scratch, FEW)
    with daemon:
        topic = CreatableTopic(name="topic", num_partitions=1, replication_factor=1)
        with WireClient(daemon.bootstrap) as client:
            assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
        assert commit_once(daemon, 7) == ErrorCode.NONE
        assert commit_once(daemon, 8) == ErrorCode.NONE
        daemon.kill()
    return daemon


@pytest.fixture
def daemon(tmp_path: Path) -> MusterDaemon:
    return killed(tmp_path / "daemon")


def newest(daemon: MusterDaemon) -> Path:
    return max((daemon.log_dir / DIRECTORY).iterdir())


def frames(path: Path) -> list[int]:
    data, _ = read_whole(Files().open_to_read(path))
    scan = scan_file(Place(path, int(path.stem), None, True, None), data)
    return [frame.position for frame in scan.frames]


def starts_with(daemon: MusterDaemon, offset: int) -> None:
    with daemon, WireClient(daemon.bootstrap) as client:
        assert wait_until(lambda: fetched(client), "the offsets are loaded", PATIENCE_S) == offset
        assert daemon.terminate() == 0
    assert not (daemon.log_dir / DIRECTORY).exists()


def test_a_damaged_journal_is_named_with_file_and_byte_and_left_as_it_is(
    daemon: MusterDaemon, tmp_path: Path
) -> None:
    path = newest(daemon)
    data = bytearray(path.read_bytes())
    at = frames(path)[0]
    data[at + 30] ^= 1
    path.write_bytes(data)
    sentence = refusal(tmp_path, daemon.log_dir)
    assert f"cannot read {path}: corrupt at byte {at}: the checksum of a frame is wrong" in sentence
    assert ADVICE.format(daemon.log_dir, path.parent) in sentence
    assert path.read_bytes() == data
    path.parent.rename(tmp_path / "aside")  # As it says.
    with daemon:
        assert daemon.terminate() == 0


def test_a_journal_that_cannot_be_read_is_named(daemon: MusterDaemon, tmp_path: Path) -> None:
    path = newest(daemon)
    path.rename(tmp_path / path.name)
    path.mkdir()
    sentence = refusal(tmp_path, daemon.log_dir)
    assert f"{path}: {os.strerror(errno.EISDIR)}" in sentence
    assert ADVICE.format(daemon.log_dir, path.parent) in sentence
    path.rmdir()
    (tmp_path / path.name).rename(path)
    starts_with(daemon, 8)


def test_the_journal_of_another_directory_is_refused_and_kept(daemon: MusterDaemon, tmp_path: Path) -> None:
    other = killed(tmp_path / "other")
    own = tmp_path / "own"
    (daemon.log_dir / DIRECTORY).rename(own)
    shutil.copytree(other.log_dir / DIRECTORY, daemon.log_dir / DIRECTORY)
    before = newest(daemon).read_bytes()
    sentence = refusal(tmp_path, daemon.log_dir)
    assert "the journal of directory " in sentence
    assert "but meta.properties says" in sentence
    assert str(daemon.log_dir / DIRECTORY) in sentence
    assert newest(daemon).read_bytes() == before
    shutil.rmtree(daemon.log_dir / DIRECTORY)
    own.rename(daemon.log_dir / DIRECTORY)
    starts_with(daemon, 8)


def test_records_of_a_partition_that_the_catalogue_does_not_know_refuse_the_start(
    daemon: MusterDaemon, tmp_path: Path
) -> None:
    path = newest(daemon)
    whole = path.read_bytes()
    data, _ = read_whole(Files().open_to_read(path))
    scan = scan_file(Place(path, int(path.stem), None, True, None), data)
    assert scan.next_sequence is not None
    assert scan.header is not None
    strange = encode_frame(
        scan.header.mark, scan.next_sequence, [Part("__consumer_offsets-9", [batch(b"v")])]
    )
    path.write_bytes(whole + b"".join(map(bytes, strange)))
    sentence = refusal(tmp_path, daemon.log_dir)
    assert f"cannot be opened: use {path.parent}: it has records of __consumer_offsets-9" in sentence
    assert f"{daemon.log_dir / 'topics.json'} does not know" in sentence
    assert ADVICE.format(daemon.log_dir, path.parent) in sentence
    assert newest(daemon).exists()
    path.write_bytes(whole)
    starts_with(daemon, 8)


def test_a_torn_end_is_cut_and_said(daemon: MusterDaemon) -> None:
    path = newest(daemon)
    last = frames(path)[-1]
    path.write_bytes(path.read_bytes() + path.read_bytes()[last : last + 40])
    starts_with(daemon, 8)
    assert "the end of the journal was torn, and cut" in daemon.log_path.read_text()


def test_a_journal_on_a_full_disk_refuses_commits_and_says_so_and_comes_back(tmp_path: Path) -> None:
    daemon = FaultyDaemon(tmp_path, FEW)
    with daemon:
        topic = CreatableTopic(name="topic", num_partitions=1, replication_factor=1)
        with WireClient(daemon.bootstrap) as client:
            assert client.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0].error_code == 0
            assert client.ask(find("committer"), 3).error_code == 0
        assert commit_once(daemon, 7) == ErrorCode.NONE
        daemon.fill_disk()
        assert commit_once(daemon, 8) != ErrorCode.NONE
        wait_until(lambda: daemon.has_said("no room on the disk"), "it is said", PATIENCE_S)
        said = daemon.log_path.read_text()
        assert f"{daemon.log_dir / DIRECTORY}" in said
        daemon.make_room()
        wait_until(lambda: commit_once(daemon, 9) == ErrorCode.NONE, "there is room", PATIENCE_S)
        assert "Traceback" not in daemon.log_path.read_text()
        assert daemon.terminate() == 0
    assert not (daemon.log_dir / DIRECTORY).exists()
