"""The longest turn of the event loop in each scenario, as the watchdogs of its daemons report it when they stop.

A life that is killed reports none; the others do. The start is no turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.pairs.plan import Plan
from bench.pairs.rounds import COMPILED, MUSTER, Section
from bench.pairs.servers import LongestTurn
from bench.pairs.targets import judged

TABLE: Final = (
    "| server | longest turn, ms of CPU | longest turn, ms on the wall | daemons |\n|---|---|---|---|"
)


def sections(scenario: str, plan: Plan) -> list[Section]:
    """What a scenario says of its turns; nothing where it had no daemon that reported any."""
    reports: dict[str, list[LongestTurn]] = {MUSTER: [], COMPILED: []}
    for daemon in plan.daemons:
        reports[COMPILED if "compiled" in daemon.data_dir.name else MUSTER] += daemon.longest_turns
    longest = {
        build: (max(each.cpu_ms for each in turns), max(each.wall_ms for each in turns), len(turns))
        for build, turns in reports.items()
        if turns
    }
    if MUSTER not in longest:
        return []
    rows = [
        f"| {build} | {cpu_ms:.1f} | {wall_ms:.1f} | {lives} |"
        for build, (cpu_ms, wall_ms, lives) in longest.items()
    ]
    target = judged("turn", plan, [cpu_ms for cpu_ms, _, _ in longest.values()])
    named = replace(target, what=f"{target.what}, {scenario}")
    conditions = (
        "CPU is that of the loop's thread; the time on the wall has on top what others took of the cores."
    )
    return [Section(f"Turns of the event loop, {scenario}", [TABLE, *rows], [named], conditions)]
