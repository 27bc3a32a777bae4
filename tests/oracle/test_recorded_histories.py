"""The first histories of our drivers as Kafka 4.3.1 played them once: sixty of Histories, forty of Migrations.

They need no Java.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tests.oracle.heartbeat_histories import played

HERE = Path(__file__).parent


@pytest.mark.parametrize(("name", "count"), [("heartbeats", 60), ("migrations", 40)])
def test_recorded_histories_come_out_the_same(name: str, count: int) -> None:
    with lzma.open(HERE / f"{name}-4.3.1.txt.xz", "rt") as lines:
        assert [*played(lines)] == [*range(1, count + 1)]
