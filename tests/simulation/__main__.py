"""Plays seeds: `python -m tests.simulation [--two-nodes | --mixed | --backing] [--seed N | --seeds COUNT]`.

With --seed one history is played and its steps are shown; else COUNT of them, on all processors. The status is 1
if one fails. With --two-nodes the shards move between two nodes, with --mixed groups have members of both
protocols, with --backing the shards are models whose logs are on another Kafka.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial

from tests.simulation import mixed_marks, parameters
from tests.simulation.backing import marks as backing_marks
from tests.simulation.backing.history import BackingHistory, BackingSummary
from tests.simulation.backing.marks import BACKING_MARKS
from tests.simulation.marks import ENOUGH_SEEDS, MARKS, counted, not_reached, report
from tests.simulation.mixed_groups import MixedGroups
from tests.simulation.mixed_marks import ENOUGH_FOR_FREQUENT, FREQUENT, MIXED_MARKS
from tests.simulation.simulation import Failure, Simulation, Summary
from tests.simulation.story import Story
from tests.simulation.two_nodes import TwoNodes

SEEDS_AT_A_TIME = 50
FAILURES_SHOWN = 20
Kind = type[Simulation] | type[BackingHistory]
Outcome = Summary | BackingSummary | str
"""What a seed came to, or what it broke."""
MARKS_OF: dict[Kind, tuple[tuple[Mapping[str, str], int], ...]] = {
    Simulation: ((MARKS, ENOUGH_SEEDS),),
    MixedGroups: ((MIXED_MARKS, mixed_marks.ENOUGH_SEEDS), (FREQUENT, ENOUGH_FOR_FREQUENT)),
    BackingHistory: ((BACKING_MARKS, backing_marks.ENOUGH_SEEDS),),
}
"""The marks of each kind that has some, all of them first, and how many seeds have to reach these."""


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    kind = _kind(arguments)
    if arguments.seed is not None:
        return _one(kind(arguments.seed))
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return _many(kind, seeds, arguments.workers, arguments.until_failure)


def _kind(arguments: argparse.Namespace) -> Kind:
    if arguments.backing:
        return BackingHistory
    return TwoNodes if arguments.two_nodes else MixedGroups if arguments.mixed else Simulation


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="play this one, and show what happens")
    parser.add_argument("--two-nodes", action="store_true", help="shards move between two nodes")
    parser.add_argument("--mixed", action="store_true", help="groups have members of both protocols")
    parser.add_argument("--backing", action="store_true", help="models of shards, with logs on another Kafka")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many, from the first on")
    parser.add_argument("--until-failure", action="store_true", help="stop when one has failed")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    return parser


def _one(simulation: Simulation | BackingHistory) -> int:
    if isinstance(simulation, BackingHistory):
        simulation.show(print)
    else:
        simulation.witness.story = Story(simulation.timeline, print)
    try:
        summary = simulation.run()
    except Failure as failure:
        print(failure)
        return 1
    if isinstance(simulation, Simulation):
        print(parameters.described(simulation))
    print(summary)
    return 0


def _many(kind: Kind, seeds: range, workers: int, until_failure: bool) -> int:
    start = time.monotonic()
    figures = fields(BackingSummary if kind is BackingHistory else Summary)[:-1]
    totals = [0] * len(figures)
    reached: list[frozenset[str]] = []
    failures: list[str] = []
    starts = range(seeds.start, seeds.stop, SEEDS_AT_A_TIME)
    with ProcessPoolExecutor(workers) as pool:
        for outcomes in pool.map(partial(play, stop=seeds.stop, kind=kind), starts):
            for outcome in outcomes:
                if isinstance(outcome, str):
                    failures.append(outcome)
                else:
                    totals = [sum(pair) for pair in zip(totals, outcome.plain(), strict=True)]
                    reached.append(outcome.marks)
            if failures and until_failure:
                pool.shutdown(cancel_futures=True)
                break
    for failure in failures[:FAILURES_SHOWN]:
        print(failure)
    happened = ", ".join(f"{total:,} {field.name}" for total, field in zip(totals, figures, strict=True))
    print(f"{len(seeds):,} seeds, {len(failures)} failed, {time.monotonic() - start:.0f} s: {happened}")
    if failures or kind not in MARKS_OF:
        return 1 if failures else 0
    return 0 if are_reached(kind, reached) else 1


def are_reached(kind: Kind, reached: list[frozenset[str]]) -> bool:
    """Whether every mark was, of which so many seeds have to reach it; prints how many did."""
    missing = False
    for known, enough in MARKS_OF[kind]:
        counts = counted(reached, known)
        print("\n".join(report(counts, len(reached), known, enough)))
        missing |= bool(not_reached(counts, len(reached), known, enough))
    return not missing


def play(first: int, stop: int, kind: Kind = Simulation) -> list[Outcome]:
    """The seeds from `first` on, some at a time: what each came to, or what it broke."""
    return list(_outcomes(kind, range(first, min(first + SEEDS_AT_A_TIME, stop))))


def _outcomes(kind: Kind, seeds: range) -> Iterator[Outcome]:
    for seed in seeds:
        try:
            yield kind(seed).run()
        except Failure as failure:
            yield str(failure)


if __name__ == "__main__":
    sys.exit(main())
