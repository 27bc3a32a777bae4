"""Plays the properties for minutes, each with new cases all the time, and counts them: `make fuzz-security`.

`--only NAME` takes one; `--seed` repeats a run. A case that shows a defect is shrunk, printed, and ends the run.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections import Counter
from typing import Final

import structlog
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.security.fuzz.all_properties import PROPERTIES
from tests.security.fuzz.properties import Property

BATCH: Final = 500
"""Cases between two looks at the clock."""


def play(fuzzed: Property, until_s: float, seeds: random.Random) -> Counter[str]:
    """Play a property until the time is over; return how often each outcome came up."""
    outcomes: Counter[str] = Counter()
    while time.monotonic() < until_s:

        @seeded(seeds.randrange(1 << 62))
        @settings(
            max_examples=BATCH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            print_blob=True,
        )
        @given(fuzzed.cases)
        def batch(case: object) -> None:
            outcomes[fuzzed.check(case)] += 1

        batch()
    return outcomes


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--only", choices=sorted(PROPERTIES))
    arguments.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    chosen = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for name, fuzzed in PROPERTIES.items():
        if chosen.only not in (None, name):
            continue
        print(f"{name}: {chosen.minutes:g} minutes, --seed {chosen.seed}", flush=True)
        began_s = time.monotonic()
        outcomes = play(fuzzed, began_s + chosen.minutes * 60, random.Random(chosen.seed))
        took_s = time.monotonic() - began_s
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
        print(f"{name}: {outcomes.total()} cases in {took_s:.0f} s: {counts}", flush=True)
        missed = fuzzed.outcomes - set(outcomes)
        if missed:
            raise SystemExit(f"{name}: never {', '.join(sorted(missed))}")


if __name__ == "__main__":
    main()
