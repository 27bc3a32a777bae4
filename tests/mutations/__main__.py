"""Breaks the daemon on purpose and looks what catches it: `python -m tests.mutations [--rotate] [NAME ...]`.

Each patch beside this file is one way to be wrong, and says in its first lines which tests must catch it and
which simulation must as well (mutants.py). It is applied to a copy of the checkout; there its tests run
until the first fails, then the simulation, two mutants at a time. All nets have to hold: the status is 1 if a
mutant gets through one, or if a net does not pass on a copy that nothing has broken. With --rotate run the
mutants of what changed and a twenty-fifth of the others (rotation.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.rotation import tree_id
from tests.mutations import nets, rotation
from tests.mutations.mutants import ROOT, Mutant, mutants

AT_A_TIME = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What caught a mutant: a test by its id, and a seed by what it saw. None: nothing did."""

    mutant: Mutant
    test: str | None
    seed: str | None
    took_s: float

    @property
    def is_caught(self) -> bool:
        return self.test is not None and (self.seed is not None or self.mutant.simulation is None)

    def __str__(self) -> str:
        seed = self.seed or ("not run, blind to it" if self.mutant.simulation is None else "NOT CAUGHT")
        test = self.test or "NOT CAUGHT"
        return f"{self.mutant.name} ({self.took_s:.0f} s)\n  test: {test}\n  simulation: {seed[:160]}"


def main(command: Sequence[str]) -> int:
    arguments = _parser().parse_args(command)
    every = mutants()
    if unknown := set(arguments.names) - {mutant.name for mutant in every}:
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [mutant for mutant in every if not arguments.names or mutant.name in arguments.names]
    if arguments.rotate:
        chosen = rotation.rotated(chosen, rotation.changed_files(ROOT, arguments.base), tree_id(ROOT))
        print(
            f"{len(chosen)} of {len(every)} mutants: of what changed, and a twenty-fifth of the others",
            flush=True,
        )
    if not chosen:
        print("none of these is in the share of this tree: without --rotate they are tried", file=sys.stderr)
        return 2
    return judge(chosen, arguments.at_a_time)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="these mutants; without a name all of them")
    parser.add_argument(
        "--rotate", action="store_true", help="those of what changed, and a twenty-fifth of the others"
    )
    parser.add_argument(
        "--base", metavar="REV", help="changed since when; else since the branch left origin/main"
    )
    parser.add_argument("--at-a-time", type=int, default=AT_A_TIME)
    return parser


def judge(chosen: Sequence[Mutant], at_a_time: int = AT_A_TIME) -> int:
    """Try the nets on a whole copy, then the mutants of those that pass there; 0 if all nets hold."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(at_a_time) as pool:
        whole = Path(folder, "whole")
        whole.mkdir()
        nets.copy_of(ROOT, whole)
        refused = _refused({mutant.net for mutant in chosen}, whole, pool)
        for net, why in refused.items():
            print(f"a net that does not pass unbroken: {' '.join(net)}: {why}")
        chosen = [mutant for mutant in chosen if mutant.net not in refused]
        print(f"their nets were tried, {time.monotonic() - start:.0f} s", flush=True)
        caught = 0
        for verdict in pool.map(lambda mutant: _judge(mutant, whole), chosen):
            caught += verdict.is_caught
            print(verdict, flush=True)
    print(f"{len(chosen)} mutants, {caught} caught, {time.monotonic() - start:.0f} s")
    return 0 if caught == len(chosen) and not refused else 1


def _refused(
    distinct: Iterable[tuple[str, ...]], whole: Path, pool: ThreadPoolExecutor
) -> dict[tuple[str, ...], str]:
    in_order = sorted(distinct)
    objections = pool.map(lambda net: nets.objection(whole, net), in_order)
    return {net: why for net, why in zip(in_order, objections, strict=True) if why}


def _judge(mutant: Mutant, whole: Path) -> Verdict:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{mutant.name}-") as folder:
        copy = Path(folder)
        nets.copy_of(whole, copy)
        nets.break_it(copy, mutant)
        test = nets.test_that_fails(copy, mutant.net)
        seed = None if mutant.simulation is None else _seed(copy, whole, mutant.simulation)
        return Verdict(mutant, test, seed, time.monotonic() - start)


def _seed(copy: Path, whole: Path, options: tuple[str, ...]) -> str | None:
    found = nets.seed_that_fails(copy, options, workers=1)
    if found is None or not nets.seed_passes(whole, options, found[0]):
        return None
    return f"seed {found[0]}: {found[1]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
