"""Files that settings name are read without waiting, and within a bound: a pipe is none, nor is a device (F8)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.http.token import TokenError, bearer_token
from coordinator.security.regular_file import UnusableFile, read_regular
from coordinator.security.tls.problems import TlsProblem
from coordinator.security.tls.stores import read_key_store, read_trust_store
from coordinator.security.tokens.fetching import fetch
from coordinator.security.tokens.key_url import parse_key_url
from coordinator.security.tokens.keys import KeysUnusable
from coordinator.settings.operators import OperatorSettings
from coordinator.settings.providers import Directories, PropertiesFiles, ProviderError


@pytest.fixture(params=["pipe", "device", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


def test_a_file_is_read_up_to_its_bound_and_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"12345")
    link.symlink_to(path)
    assert read_regular(link, 5) == b"12345"
    with pytest.raises(UnusableFile, match="it has more than 4 bytes"):
        read_regular(path, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent", 5)


READERS: dict[str, tuple[Callable[[Path], object], type[Exception]]] = {
    "key store": (lambda path: read_key_store(path, "PEM", None, None), TlsProblem),
    "trust store": (lambda path: read_trust_store(path, "PKCS12", None), TlsProblem),
    "keys": (lambda path: fetch(parse_key_url(path.as_uri())), KeysUnusable),
    "token": (lambda path: bearer_token(OperatorSettings(muster_http_token_file=str(path))), TokenError),
    "properties": (lambda path: PropertiesFiles(())(str(path), "key"), ProviderError),
    "directory": (lambda path: Directories(())(str(path.parent), path.name), ProviderError),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_at_once(odd: Path, reader: str) -> None:
    read, problem = READERS[reader]
    with pytest.raises(problem, match="it is no file"):
        read(odd)


@pytest.mark.parametrize("reader", READERS)
def test_a_path_with_a_nul_is_refused(tmp_path: Path, reader: str) -> None:
    """Python raises ValueError for it, where it raises OSError for all else."""
    read, problem = READERS[reader]
    with pytest.raises(problem, match="no file can have that name"):
        read(tmp_path / "a\0b")


def test_a_path_that_the_file_systems_encoding_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="no file can have that name"):
        read_regular(tmp_path / "a\ud800b", 5)
