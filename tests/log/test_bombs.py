"""`muster log` on a directory with a batch that inflates to a gigabyte: that is reported, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.config import LogConfig
from tests.log.directories import OFFSETS, OFFSETS_ID, TIME_MS, history, make_directory
from tests.storage.bombs import BOMB_BYTES, bomb

ROOT = Path(__file__).parents[2]
MOST_BYTES = 450 << 20  # A load inflates 256 MiB at most, and the interpreter has some 60.
ALL_IN_ONE = """
import json, sys
from harness.own_memory import peak_kib
from muster.cli import run
statuses = [run(["log", *command]) for command in json.loads(sys.argv[1])]
print("peak", peak_kib(), *statuses)
"""


def test_the_tools_report_a_bomb_and_do_not_inflate_it(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "logs", history())
    held = LogDirectory.open(directory, Files(), node_id=0)
    log = held.open_log(OFFSETS, 1, LogConfig(), topic_id=OFFSETS_ID)
    where = log.append(bytearray(bomb()), wall_ms=TIME_MS)
    log.flush()
    assert held.close() == []
    rows = tmp_path / "rows.jsonl"
    commands = [
        ["verify", str(directory)],
        ["inspect", str(directory)],
        ["export", str(directory), str(rows)],
    ]
    ran = subprocess.run(
        [sys.executable, "-c", ALL_IN_ONE, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    *shown, last = ran.stdout.splitlines()
    _, peak_kib, *statuses = last.split()
    assert statuses == ["1", "1", "2"], ran.stdout
    assert int(peak_kib) << 10 < MOST_BYTES < BOMB_BYTES // 2
    (error_line,) = [line for line in shown if line.startswith("error: ")]
    assert f"offset {where.base_offset}" in error_line
    assert "inflate to more than 104857600" in error_line
    assert "group=группа" in ran.stdout, "the records around it are shown"
    assert f"{OFFSETS}-1 holds what cannot be read" in ran.stderr
    assert not rows.exists()
