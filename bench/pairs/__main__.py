"""`make bench`: Muster beside Apache Kafka 4.3.1, scenario by scenario; writes docs/performance.md with --write.

python -m bench.pairs [--quick] [--only heartbeats,commits,...] [--rotate] [--rounds 5] [--write] [--list]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pairs import generator, page, turns
from bench.pairs.plan import Plan, builds, quick
from bench.pairs.scenarios import SCENARIOS, listed, named
from bench.pairs.secured import secured
from harness.daemon import ROOT
from harness.rotation import share_of, tree_id


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="little of everything: for function, not for numbers"
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, help="of what counts, in each scenario")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md and its chart")
    parser.add_argument("--list", action="store_true", help="the scenarios, and about how long each takes")
    parser.add_argument("--rotate", action="store_true", help="half of the scenarios, by the tree's id")
    asked = parser.parse_args(arguments)
    try:
        names: Sequence[str] = named(asked.only)
    except ValueError as unknown:
        parser.error(str(unknown))
    if asked.rotate:
        names = share_of(names, tree_id(ROOT), 2)
    if asked.list:
        print(listed(names))
        return
    if any(SCENARIOS[name].is_generated for name in names):
        try:
            generator.program()
        except generator.NoCompiler as missing:
            raise SystemExit(str(missing)) from None
    if not (names := _without_openssl(names)):
        raise SystemExit("nothing is left to play")
    measured = _play_all(names, quick_one=asked.quick, rounds=asked.rounds)
    if asked.write:
        page.write(measured, list(SCENARIOS))


def _without_openssl(names: Sequence[str]) -> list[str]:
    """Leave out what needs OpenSSL, and say so, if that is not here."""
    try:
        if any(SCENARIOS[name].is_encrypted for name in names):
            generator.find_openssl()
    except generator.NoOpenSsl as missing:
        skipped = [name for name in names if SCENARIOS[name].is_encrypted]
        print(f"skipped: {', '.join(skipped)}: {missing}", flush=True)
        return [name for name in names if name not in skipped]
    return list(names)


def _play_all(names: Sequence[str], *, quick_one: bool, rounds: int | None) -> dict[str, str]:
    measured: dict[str, str] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
        plan = quick(directory) if quick_one else Plan(directory, builds=builds())
        if rounds:
            plan = plan.of_rounds(rounds)
        if quick_one and any(SCENARIOS[name].has_kafka for name in names):
            is_secured = any(SCENARIOS[name].is_encrypted for name in names)
            started = (secured(plan) if is_secured else plan).new_kafka()
            plan = replace(plan, shared=stack.enter_context(started))
        for name in names:
            measured[name] = _play(name, replace(plan, directory=directory / name, daemons=[]))
    return measured


def _play(name: str, plan: Plan) -> str:
    plan.directory.mkdir()
    start, scenario = time.perf_counter(), SCENARIOS[name]
    sections = [*scenario.play(plan), *turns.sections(name, plan)]
    shown = f"{page.scenario(sections)}\n\n{page.surroundings(scenario.has_kafka)}"
    took_s = time.perf_counter() - start
    print(f"\n{shown}\n\n{name}: {took_s:.0f} s ({scenario.estimated_s} s as estimated)", flush=True)
    return shown


if __name__ == "__main__":
    main()
