"""The scenarios of `make bench`, in the order of the page, and about how long each takes.

`estimated_s` is of the whole on two quiet cores, with both builds; a run prints what it took beside it. The sum
has to stay within an hour and a quarter (`tests/test_bench_targets.py`): all figures of a page can be of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.pairs import (
    authorized,
    bursts,
    cold,
    consumers,
    encrypted,
    growth,
    handshakes,
    starts,
    steady,
    storms,
    storms_at_once,
    tls_cost,
    weight,
    wheel,
)
from bench.pairs.plan import Plan
from bench.pairs.rounds import Section

MOST_S: Final = 4_500


@dataclass(frozen=True, slots=True)
class Scenario:
    """One of them; some need no Kafka beside them, some the generator in C, and some of these OpenSSL."""

    play: Callable[[Plan], list[Section]]
    estimated_s: int
    has_kafka: bool = True
    is_generated: bool = False
    is_encrypted: bool = False


SCENARIOS: Final[dict[str, Scenario]] = {
    "wheel": Scenario(wheel.wheel, 110, has_kafka=False),
    "starts": Scenario(starts.starts, 30),
    "cold": Scenario(cold.cold, 50),
    "heartbeats": Scenario(steady.heartbeats, 340, is_generated=True),
    "commits": Scenario(steady.commits, 285, is_generated=True),
    "storms": Scenario(storms.storms, 260),
    "herd": Scenario(storms_at_once.herd, 40),
    "herd_beside_expiry": Scenario(storms_at_once.herd_beside_expiry, 520),
    "bursts": Scenario(bursts.bursts, 390),
    "restarts": Scenario(starts.restarts, 200),
    "idle": Scenario(weight.idle, 260),
    "memory": Scenario(weight.memory, 270),
    "consumer_heartbeats": Scenario(consumers.heartbeats, 100, is_generated=True),
    "consumer_storms": Scenario(consumers.storms, 120),
    "consumer_herd": Scenario(consumers.herd, 120),
    "consumer_memory": Scenario(consumers.memory, 190),
    "secured_heartbeats": Scenario(encrypted.heartbeats, 140, is_generated=True, is_encrypted=True),
    "secured_produce": Scenario(encrypted.produce, 210, is_generated=True, is_encrypted=True),
    "handshakes": Scenario(handshakes.handshakes, 70, is_generated=True, is_encrypted=True),
    "tls_memory": Scenario(tls_cost.memory, 40, has_kafka=False, is_generated=True, is_encrypted=True),
    "tls_request": Scenario(tls_cost.request, 80, has_kafka=False, is_generated=True, is_encrypted=True),
    "authorized_heartbeats": Scenario(authorized.heartbeats, 230, has_kafka=False),
    "authorized_commits": Scenario(authorized.commits, 200, has_kafka=False),
    "growth": Scenario(growth.growth, 190, has_kafka=False),
}
TOGETHER: Final = {"storms_at_once": ("herd", "herd_beside_expiry")}
"""Names for several of them."""


def named(names: Sequence[str]) -> list[str]:
    """The scenarios of these names, in the order of the page. Raises ValueError for one that is not there."""
    wanted = {each for name in names for each in TOGETHER.get(name, (name,))}
    if unknown := wanted - SCENARIOS.keys():
        there = ", ".join([*SCENARIOS, *TOGETHER])
        raise ValueError(f"no scenario {', '.join(sorted(unknown))}; there are {there}")
    return [name for name in SCENARIOS if name in wanted]


def listed(names: Sequence[str]) -> str:
    """Each with its estimate, and their sum."""
    rows = [
        f"{name:20}{SCENARIOS[name].estimated_s:6,} s{'' if SCENARIOS[name].has_kafka else '  without Kafka'}"
        f"{'  needs a C compiler' if SCENARIOS[name].is_generated else ''}"
        f"{' and OpenSSL 3' if SCENARIOS[name].is_encrypted else ''}"
        for name in names
    ]
    total_s = sum(SCENARIOS[name].estimated_s for name in names)
    return "\n".join([*rows, f"{'in all':20}{total_s:6,} s, {total_s / 60:.0f} minutes, as estimated"])
