"""The door to the disk, on the real one: whole writes, bounded reads, errors that name their place."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.files import MAX_BUFFERS_PER_WRITE, Files, StorageError


def test_more_buffers_than_one_call_takes_are_all_written(tmp_path: Path) -> None:
    file = Files().open(tmp_path / "f", create=True)
    buffers = [bytes([number % 256]) * 3 for number in range(2 * MAX_BUFFERS_PER_WRITE + 5)]
    file.write_at(buffers, 10)
    assert file.read_at(10**6, 0) == bytes(10) + b"".join(buffers)
    file.close()


@pytest.mark.parametrize("size_bytes", [1, 2, 7, 100])
def test_short_writes_are_finished(tmp_path: Path, size_bytes: int) -> None:
    files = FaultyFiles(tmp_path)
    files.write_short(size_bytes)
    file = files.open(tmp_path / "f", create=True)
    file.write_at([b"abc", b"", b"defgh", b"ij"], 5)
    assert file.read_at(100, 5) == b"abcdefghij"


def test_a_write_that_gets_nowhere_fails(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    files.write_short(0)
    file = files.open(tmp_path / "f", create=True)
    with pytest.raises(StorageError, match="the system wrote nothing"):
        file.write_at([b"abc"], 0)


def test_a_read_ends_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = Files().open(tmp_path / "f")
    assert (file.read_at(10, 1), file.read_at(10, 3), file.read_at(10, 9)) == (b"bc", b"", b"")
    assert file.read_at_nowait(10, 0) is None  # Not all of it can be had without waiting.


def test_errors_name_the_operation_the_path_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as missing:
        Files().open(tmp_path / "absent")
    assert str(missing.value) == f"open {tmp_path / 'absent'}: No such file or directory"
    assert missing.value.errno == errno.ENOENT


def test_a_file_replaced_atomically_is_the_old_or_the_new_one_after_any_fault(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    for nth in range(20):
        files = FaultyFiles(tmp_path)
        files.fail(nth)
        try:
            files.write_atomically(tmp_path / "f", b"new")
        except StorageError:
            files.fault = None
            files.crash()
            assert (tmp_path / "f").read_bytes() in (b"old", b"new")
        else:
            files.crash()
            assert (tmp_path / "f").read_bytes() == b"new"
            return
    pytest.fail("a replacement has fewer operations than this")
