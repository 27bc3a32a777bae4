"""A directory that Muster has left, and what `muster log to-kafka` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli import run


def content(directory: Path) -> dict[str, bytes]:
    """The small files of a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence with which it is refused; nothing is changed."""
    before = content(directory) if directory.is_dir() else {}
    assert run(["log", "to-kafka", str(directory)]) == 2
    assert (content(directory) if directory.is_dir() else {}) == before
    return capsys.readouterr().err
