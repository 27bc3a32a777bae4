"""Our own small files: every flipped byte and every cut length is noticed, or changes nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from harness.doubles.faulty_files import FaultyFiles
from storage.directory.disk_space import PROBE, probe_disk_space
from storage.files import Files, StorageError
from storage.sealed_json import read_sealed, write_sealed

DOCUMENT = {"format": 1, "topics": [{"name": "t", "id": "00ff", "partitions": 3, "configs": {"a": "ü"}}]}


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x10, 0x41, 0x80])
def test_every_flipped_byte_is_noticed_or_changes_nothing(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "f.json"
    write_sealed(Files(), path, DOCUMENT)
    data = path.read_bytes()
    noticed = 0
    for byte in range(len(data)):
        path.write_bytes(data[:byte] + bytes([data[byte] ^ mask]) + data[byte + 1 :])
        try:
            found = read_sealed(Files(), path, "file", dict)
        except StorageError:
            noticed += 1
        else:
            assert found is not None
            assert {name: found.get(name) for name in DOCUMENT} == DOCUMENT
    assert noticed > len(data) // 2


def test_every_cut_length_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_sealed(Files(), path, DOCUMENT)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(StorageError, match="not a file"):
            read_sealed(Files(), path, "file", dict)


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    assert read_sealed(Files(), path, "file", dict) is None
    path.write_text(json.dumps(DOCUMENT))
    assert read_sealed(Files(), path, "file", dict) == DOCUMENT


def test_another_format_and_what_cannot_be_parsed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    write_sealed(Files(), path, DOCUMENT)
    assert read_sealed(Files(), path, "file", lambda document: len(document["topics"]), 1) == 1
    with pytest.raises(StorageError, match=r"not a file: ValueError\('format 1, known is 2'\)"):
        read_sealed(Files(), path, "file", dict, 2)
    with pytest.raises(StorageError, match=r"not a file: KeyError\('levels'\)"):
        read_sealed(Files(), path, "file", lambda document: document["levels"])


@pytest.mark.parametrize("operation", ["create", "write", "sync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_the_probe_for_room_says_what_the_disk_says_and_leaves_nothing(
    tmp_path: Path, operation: str, number: int
) -> None:
    files = FaultyFiles(tmp_path)
    probe_disk_space(files, tmp_path)
    files.fail_always(operation, number)
    with pytest.raises(StorageError) as refused:
        probe_disk_space(files, tmp_path)
    assert refused.value.is_no_room == (number != errno.EIO)
    assert not (tmp_path / PROBE).exists()
