"""The standalone cluster as a command: it prints its master, listens on loopback alone, and leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.daemon import ROOT

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

COMMAND = [sys.executable, "-m", "muster.spark.standalone", "--workers", "2"]
END_TIMEOUT_S = 120


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_starts_a_cluster_on_loopback_and_ends_all_of_it(
    java: None, tmp_path: Path, ended_by: signal.Signals
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = subprocess.Popen(COMMAND, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert command.stdout is not None
        line = command.stdout.readline()  # Comes when both workers have registered, or never.
        assert re.match(r"spark://127\.0\.0\.1:\d+ has 2 workers", line)
        processes = psutil.Process(command.pid).children(recursive=True)
        listening = [
            connection.laddr.ip.removeprefix("::ffff:")
            for process in processes
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listening) >= 3
        assert set(listening) == {"127.0.0.1"}
        command.send_signal(ended_by)
        assert command.wait(END_TIMEOUT_S) == 0
    finally:
        command.kill()
        command.wait()
    _, still_running = psutil.wait_procs(processes, timeout=END_TIMEOUT_S)
    assert still_running == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("muster-")]
