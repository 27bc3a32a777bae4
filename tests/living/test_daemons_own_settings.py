"""Retention and new segments of topics that say nothing themselves: by the daemon's settings, out of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.processes import wait_until
from tests.living.conftest import SETTINGS, started
from tests.living.peer import DEADLINE_S, Peer, connected, wall_ms

pytestmark = pytest.mark.xdist_group("living")

MINUTE_MS = 60_000
BATCH_BYTES = 700_000
OF_ITS_OWN = {
    "log.retention.ms": str(60 * MINUTE_MS),
    "log.roll.ms": str(10 * MINUTE_MS),
    "log.segment.bytes": str(1 << 20),  # A batch to a segment.
    "log.retention.bytes": "1200000",
}


def await_start(peer: Peer, topic: str, offset: int) -> None:
    wait_until(lambda: peer.earliest(topic) >= offset, f"{topic} begins at {offset}", DEADLINE_S)
    assert peer.earliest(topic) == offset


def test_topics_follow_what_the_file_says(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    with (
        started(str(pytestconfig.getoption("--target")), tmp_path, SETTINGS | OF_ITS_OWN) as server,
        connected(server) as peer,
    ):
        for topic in ("rolled", "sized", "aged"):
            peer.make_topic(topic)
        now_ms = wall_ms()
        peer.write_at("rolled", now_ms - 30 * MINUTE_MS, now_ms)
        assert peer.segments("rolled") == [0, 1]
        peer.write_at("sized", *[now_ms] * 4, size_bytes=BATCH_BYTES)
        peer.write_at("aged", now_ms - 120 * MINUTE_MS, now_ms - 5 * MINUTE_MS, now_ms)
        await_start(peer, "sized", 2)
        await_start(peer, "aged", 1)
        assert peer.earliest("rolled") == 0, "half an hour is no age"
