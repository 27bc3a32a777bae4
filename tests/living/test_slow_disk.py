"""A disk that hangs is reported to clients within `offsets.commit.timeout.ms`, as the setting says."""

from __future__ import annotations

import time
from pathlib import Path

from harness.faulty_daemon import FaultyDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from tests.server.asking import commit, committed, fetch, make_topic

TIMEOUT_S = 0.4
BY_DEFAULT_S = 5.0
DEADLINE_S = 60


def test_a_commit_waits_for_the_disk_as_long_as_the_setting_says(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.commit.timeout.ms": str(int(TIMEOUT_S * 1000))}
    with FaultyDaemon(tmp_path, settings) as daemon, WireClient(daemon.bootstrap) as client:
        make_topic(client)
        wait_until(
            lambda: committed(client.ask(commit(1), 8)) == ErrorCode.NONE, "a commit in time", DEADLINE_S
        )
        daemon.slow_down()
        began_s = time.monotonic()
        assert committed(client.ask(commit(2), 8)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        waited_s = time.monotonic() - began_s
        assert TIMEOUT_S <= waited_s < BY_DEFAULT_S
        daemon.speed_up()
        wait_until(lambda: committed(client.ask(commit(3), 8)) == ErrorCode.NONE, "a commit", DEADLINE_S)
        answer = client.ask(fetch(), 8).groups[0].topics[0].partitions[0]
        assert answer.committed_offset == 3
        assert daemon.terminate() == 0
