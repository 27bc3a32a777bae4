"""A share of what `tests/long/test_random_frames.py` sends: every API and version, with damaged bodies."""

from __future__ import annotations

from pathlib import Path

from harness.daemon import MusterDaemon
from protocol.messages import REQUESTS
from tests.server.random_traffic import SETTINGS, RandomTraffic

SEED = 20_261
FRAMES = 2_000


def test_random_frames_do_no_harm(tmp_path: Path) -> None:
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        traffic = RandomTraffic(daemon, SEED)
        print(f"seed {SEED}")
        assert {key for key, _ in traffic.pairs} == set(REQUESTS), "every API that has a codec"
        traffic.send(FRAMES)
        assert min(traffic.answered, traffic.closed) > FRAMES / 10, "some are understood, some are refused"
        traffic.check_log()
        traffic.clean()
