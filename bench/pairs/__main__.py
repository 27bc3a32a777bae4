"""`make bench`: Muster beside Apache Kafka 4.3.1, scenario by scenario; writes docs/performance.md with --write.

python -m bench.pairs [--quick] [--only heartbeats,commits,...] [--rounds 5] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.pairs import bursts, growth, page, starts, steady, storms, weight, wheel
from bench.pairs.plan import Plan, builds, quick
from bench.pairs.rounds import Section

SCENARIOS: Final[dict[str, Callable[[Plan], list[Section]]]] = {
    "wheel": wheel.wheel,
    "starts": starts.starts,
    "heartbeats": steady.heartbeats,
    "commits": steady.commits,
    "storms": storms.storms,
    "bursts": bursts.bursts,
    "restarts": starts.restarts,
    "idle": weight.idle,
    "memory": weight.memory,
    "growth": growth.growth,
}
ALONE: Final = {"wheel", "growth"}  # Need no Kafka.


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="little of everything: for function, not for numbers"
    )
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md and its chart")
    asked = parser.parse_args(arguments)
    unknown = set(asked.only) - set(SCENARIOS)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    measured: dict[str, str] = {}
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="bench-"))
        plan = quick(Path(directory)) if asked.quick else Plan(Path(directory), builds=builds())
        if asked.rounds:
            plan = replace(plan, rounds=asked.rounds)
        if asked.quick and set(asked.only) - ALONE:
            plan = replace(plan, shared=stack.enter_context(plan.new_kafka()))
        for name in asked.only:
            measured[name] = _play(name, replace(plan, directory=Path(directory) / name))
    if asked.write:
        page.write(measured, list(SCENARIOS))


def _play(name: str, plan: Plan) -> str:
    plan.directory.mkdir()
    start = time.perf_counter()
    shown = f"{page.scenario(SCENARIOS[name](plan))}\n\n{page.surroundings(name not in ALONE)}"
    print(f"\n{shown}\n\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return shown


if __name__ == "__main__":
    main()
