"""Runs the scenarios: `python -m tests.conformance [--target muster|kafka|both|muster-on-kafka] [--only 3.16]`.

With both targets their answers are compared; with one, only what the scripts themselves expect is checked. With
muster-on-kafka Kafka's answers are compared with those of nodes whose log is on another Kafka.
The status is 1 if anything was not as expected.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import cast

from bench.against_commit import unpack
from harness.daemon import ROOT
from tests.conformance.coverage import lines_elsewhere
from tests.conformance.earlier import EARLIER, questions, table_differences
from tests.conformance.nodes import ON_KAFKA
from tests.conformance.nodes_run import report, run_on_kafka, wrong_on_kafka
from tests.conformance.on_kafka import elsewhere, of_groups
from tests.conformance.registry import Case, all_scenarios, is_about
from tests.conformance.report import lines_of
from tests.conformance.secured import SECURED
from tests.conformance.served import Open, ask_served, compare_served, listener, missing
from tests.conformance.suite import Outcome, play_all
from tests.conformance.targets import CONFIGURATIONS, MUSTER, TELEMETRY, Target, new_target, start_all
from tests.conformance.verdict import Played, objections

KINDS = {"both": ("kafka", MUSTER), "kafka": ("kafka",), "muster": (MUSTER,), ON_KAFKA: ("kafka", MUSTER)}


def main() -> int:
    arguments = _parser().parse_args()
    cases = _chosen(arguments.only)
    kinds = KINDS[arguments.target]
    if arguments.target == ON_KAFKA:
        cases = of_groups(cases)
    if arguments.against:
        cases, kinds = [case for case in cases if case.scenario.on != SECURED], (EARLIER, MUSTER)
    if arguments.list:
        for case in cases:
            print(f"{case.name}: {', '.join(case.lines)}")
        return 0
    if not cases:
        print(f"no scenario is about {arguments.only}", file=sys.stderr)
        return 2
    if arguments.target == ON_KAFKA:
        return _main_on_kafka(cases, arguments)
    start = time.monotonic()
    outcomes, unlike = asyncio.run(_run(cases, kinds, arguments.keep, arguments.against))
    for line in lines_of(outcomes, verbose=arguments.verbose):
        print(line)
    is_complete = not (arguments.only or arguments.against)
    for line in lines_elsewhere() if is_complete else ():
        print(line)
    for line in unlike:
        print(line)
    print(f"took {time.monotonic() - start:.0f} s, started brokers included")
    played = Played(outcomes, unlike, kinds, is_complete=is_complete)
    wrong = list(objections(played))
    for objection in wrong:
        print(objection)
    return 1 if wrong else 0


def _main_on_kafka(cases: list[Case], arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        data_dir = arguments.keep or Path(folder)
        played = asyncio.run(run_on_kafka(cases, data_dir, is_complete=not arguments.only))
    for line in report(played, verbose=arguments.verbose):
        print(line)
    for line in elsewhere(_chosen([])) if played.is_complete else ():
        print(line)
    print(f"took {time.monotonic() - start:.0f} s, started brokers included")
    wrong = list(wrong_on_kafka(played))
    for objection in wrong:
        print(objection)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n")[0])
    parser.add_argument("--target", choices=KINDS, default="both")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="a line (3.16), a part (2.2) or a scenario; may be repeated",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="in place of Kafka the Muster of an earlier commit, without the configuration with security",
    )
    parser.add_argument("--list", action="store_true", help="show what would be run")
    parser.add_argument("--verbose", action="store_true", help="also show every wanted difference")
    parser.add_argument("--keep", type=Path, help="keep the brokers' data and logs in this folder")
    return parser


def _chosen(only: list[str]) -> list[Case]:
    return [
        case
        for scenario in all_scenarios()
        for case in scenario.cases()
        if not only
        or any(scenario.name == each or any(is_about(line, each) for line in case.lines) for each in only)
    ]


async def _run(
    cases: list[Case], kinds: tuple[str, ...], keep: Path | None, against: str | None
) -> tuple[list[Outcome], list[str]]:
    """Play `cases`; also return in what the tables of ApiVersions differ."""
    needed = [name for name in CONFIGURATIONS if any(case.scenario.on == name for case in cases)]
    async with AsyncExitStack() as stack:
        data_dir = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        tree = data_dir / "source" if against else ROOT
        if against:
            unpack(against, tree)
        targets = [new_target(kind, name, data_dir, tree) for name in needed for kind in kinds]
        await start_all(targets, stack)
        for version in sorted({target.version for target in targets}):
            print(f"against {version}, configurations {', '.join(needed)}", flush=True)
        unlike = await (_compare_earlier(targets) if against else _compare_served(targets))
        start = time.monotonic()
        outcomes = await play_all(cases, targets)
        print(f"played {len(outcomes)} scenarios x versions in {time.monotonic() - start:.0f} s", flush=True)
        return outcomes, unlike


async def _compare_served(targets: list[Target]) -> list[str]:
    """Beside a running Kafka only; prints what is not served, and what comes of the comparison.

    Tables differ between configurations only in what comes with a receiver of clients' metrics; each listener has
    the same.
    """
    unlike: list[str] = []
    for what, brokers in _to_compare(targets).items():
        if len(brokers) < 2:
            continue
        found = await compare_served(brokers["kafka"], brokers[MUSTER])
        table = await ask_served(brokers[MUSTER])
        for line in missing(table):
            print(line, flush=True)
        served = f"{len(table.api_keys)} keys served{what}"
        print(f"ApiVersions: {served}, differences from Kafka's table: {len(found)}", flush=True)
        unlike += [f"{line}{what}" for line in found]
    return unlike


def _to_compare(targets: list[Target]) -> dict[str, dict[str, Open]]:
    """What has a table of its own, in words, and the listeners of each kind of broker that show it."""
    found: dict[str, dict[str, Open]] = {}
    for target in targets:
        where = " where metrics are taken" if target.configuration == TELEMETRY else ""
        found.setdefault(where, {})[target.kind] = listener(target.bootstrap)
        for name, bootstrap in target.other_bootstraps.items():
            found.setdefault(f" on {name}", {})[target.kind] = listener(bootstrap, name)
    return found


async def _compare_earlier(targets: list[Target]) -> list[str]:
    """Compare the tables of each configuration, and note what the earlier commit does not serve."""
    unlike: list[str] = []
    for earlier in targets:
        if earlier.kind != EARLIER:
            continue
        (now,) = [
            each for each in targets if each.kind == MUSTER and each.configuration == earlier.configuration
        ]
        before, after = [await ask_served(listener(each.bootstrap)) for each in (earlier, now)]
        earlier.unserved = questions(after) - questions(before)
        new = sorted({key for key, _ in earlier.unserved})
        print(f"{earlier.configuration}: new API keys {', '.join(map(str, new)) or 'none'}", flush=True)
        unlike += table_differences(before, after)
    return unlike


if __name__ == "__main__":
    cast(TextIOWrapper, sys.stdout).reconfigure(line_buffering=True)
    os.umask(0o077)
    sys.exit(main())
