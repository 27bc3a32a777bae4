"""100,000 random requests of every API and version against a live daemon, most of them damaged: about a minute.

MUSTER_FRAMES_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from harness.daemon import MusterDaemon
from tests.server.random_traffic import SETTINGS, RandomTraffic

FRAMES = 100_000
GROWTH_MAX = 1.1
"""Of memory, to what it was behind the first frames and a topic of the largest size: the pieces of the heap that
one took are kept for the next; the second and the tenth take little more."""

WARM_UP_FRAMES = 10_000


def test_100_000_random_frames_leave_no_trace(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("MUSTER_FRAMES_SEED", random.randrange(1 << 31)))
    print(f"MUSTER_FRAMES_SEED={seed}")
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        traffic = RandomTraffic(daemon, seed)
        traffic.send_intact()
        traffic.send(WARM_UP_FRAMES)
        traffic.make_largest_topic()
        traffic.clean()
        before = traffic.resident_bytes()
        traffic.send(FRAMES - WARM_UP_FRAMES)
        traffic.clean()
        traffic.check_honest()
        traffic.check_log()
        after = traffic.resident_bytes()
        record_property("resident_mb", f"{before / 1e6:.1f} to {after / 1e6:.1f}, seed {seed}")
        assert after < before * GROWTH_MAX, f"seed {seed}: {before:,} bytes before, {after:,} after"
