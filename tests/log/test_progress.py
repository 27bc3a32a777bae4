"""How far a command is, is shown on a terminal and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import unread
from muster.closed_output import STATUS_NOT_READ
from tests.log.directories import history, make_directory

ROOT = Path(__file__).parents[2]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "logs", history())


def errors_of(command: list[str], stderr: int) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "muster", "log", *command],
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
    )
    assert b"0 errors" in done.stdout
    return done.returncode


def test_a_terminal_sees_a_bar(directory: Path) -> None:
    ours, theirs = pty.openpty()
    assert errors_of(["verify", str(directory)], theirs) == 0
    os.close(theirs)
    assert b"checking" in os.read(ours, 65536)
    os.close(ours)


def test_a_pipe_sees_nothing(directory: Path) -> None:
    ours, theirs = os.pipe()
    assert errors_of(["verify", str(directory)], theirs) == 0
    os.close(theirs)
    assert os.read(ours, 65536) == b""
    os.close(ours)


def test_a_reader_that_has_seen_enough_ends_it_quietly(directory: Path) -> None:
    command = [sys.executable, "-m", "muster", "log", "inspect", str(directory), "--json"]
    assert unread(command) == (STATUS_NOT_READ, "")
