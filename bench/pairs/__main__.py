"""`make bench`: Muster beside Apache Kafka 4.3.1, scenario by scenario; writes docs/performance.md with --write.

python -m bench.pairs [--quick] [--only heartbeats,commits,...] [--rounds 5] [--write]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.pairs import page, starts, steady, storms, weight, wheel
from bench.pairs.plan import Plan, quick
from bench.pairs.rounds import Section

SCENARIOS: Final[dict[str, Callable[[Plan], list[Section]]]] = {
    "wheel": wheel.wheel,
    "starts": starts.starts,
    "heartbeats": steady.heartbeats,
    "commits": steady.commits,
    "storms": storms.storms,
    "restarts": starts.restarts,
    "idle": weight.idle,
    "memory": weight.memory,
}


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
    sections: list[Section] = []
    with TemporaryDirectory(prefix="bench-") as directory:
        plan = quick(Path(directory)) if asked.quick else Plan(Path(directory))
        if asked.rounds:
            plan = replace(plan, rounds=asked.rounds)
        for name in asked.only:
            sections += _play(name, replace(plan, directory=Path(directory) / name))
    print(page.measured(sections, plan))
    if asked.write:
        page.write(sections, plan)


def _play(name: str, plan: Plan) -> list[Section]:
    plan.directory.mkdir()
    start = time.perf_counter()
    sections = SCENARIOS[name](plan)
    for section in sections:
        print(
            f"\n{section.title}\n",
            *section.lines,
            *(target.row for target in section.targets),
            sep="\n",
            flush=True,
        )
    print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return sections


if __name__ == "__main__":
    main()
