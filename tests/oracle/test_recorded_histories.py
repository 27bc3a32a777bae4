"""The first sixty histories of Histories.java, as Kafka 4.3.1 played them once: they need no Java."""

from __future__ import annotations

import lzma
from pathlib import Path

from tests.oracle.heartbeat_histories import played

RECORDED = Path(__file__).parent / "heartbeats-4.3.1.txt.xz"


def test_recorded_histories_come_out_the_same() -> None:
    with lzma.open(RECORDED, "rt") as lines:
        assert [*played(lines)] == [*range(1, 61)]
