"""Runs a simulation for the command line, and prints its estimate and outcome. Bad options are refused first."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.log.progress import progress
from muster.sentences import remark
from storage.directory.log_directory import LogDirectoryError
from storage.files import StorageError
from tools.simulate.history import (
    Choice,
    NoRoom,
    Options,
    Simulated,
    Simulation,
    choose,
    refuse_without_room,
)
from tools.simulate.log_files import refuse_unless_empty
from tools.simulate.production import DAY_MS
from tools.simulate.sample import Estimate

GROUPS_MAX: Final = 10_000_000
DAYS_MAX: Final = 366.0
PARTITIONS_MAX: Final = 10_000


def simulate(options: Options, out: Path, as_json: bool) -> int:
    """Write the history; return 0, or 1 after printing a sentence on standard error."""
    begun_s = time.monotonic()
    if problem := problem_with(options):
        return _refuse(problem)
    try:
        refuse_unless_empty(out)
        choice = choose(options)
        refuse_without_room(choice, out)
        if not as_json:
            _print_estimate(choice)
        simulation = Simulation(options, choice, out)
        with progress("Simulating", len(simulation.slices()), is_bytes=False) as advance:
            done = simulation.run(advance)
    except (StorageError, LogDirectoryError) as error:
        sentence = f"cannot {error}" if isinstance(error, StorageError) else str(error)
        return _refuse(sentence)
    except NoRoom as error:
        return _refuse(str(error))
    _print_outcome(options, choice, done, out, time.monotonic() - begun_s, as_json)
    return 0


def problem_with(options: Options) -> str | None:
    """A sentence that says what is wrong with the options; None if nothing is."""
    numbers = (
        ("--groups", options.groups, 1, GROUPS_MAX),
        ("--days", options.days, 1 / 1_440, DAYS_MAX),
        ("--partitions", options.partitions, 1, PARTITIONS_MAX),
        ("--seed", options.seed, 0, 2**63 - 1),
        ("--commits", options.commits_max, 0, 10**12),
        ("--events", options.events_max, 0, 10**10),
        ("--log-ends", options.log_ends_every_ms // 1_000, 0, 86_400),
        ("--sample", 1.0 if options.sample is None else options.sample, 1e-7, 1.0),
    )
    for name, value, least, most in numbers:
        if not least <= value <= most:
            return f"{name} is {value:g}, and has to be from {least:g} to {most:g}"
    if options.commit_days is not None and not 0 < options.commit_days <= options.days:
        return f"--commit-days is {options.commit_days:g}, and has to be above 0 and no more than --days"
    if options.start_ms <= 0:
        return "--end is too early"
    return None


def parse_end(text: str | None) -> int:
    """The end of the history in ms since 1970: `text` in UTC, or the last midnight if None. Raises ValueError."""
    if text is None:
        now_ms = int(time.time() * 1_000)
        return now_ms - now_ms % DAY_MS
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def say(sentence: object) -> None:
    """Print the sentence to standard error under the program's name."""
    remark(f"simulate: {sentence}")


def _refuse(sentence: str) -> int:
    say(sentence)
    return 1


def _print_estimate(choice: Choice) -> None:
    print(f"all {len(choice.groups):,} groups: {_sizes(choice.whole)}")
    if len(choice.with_events) < len(choice.groups) or len(choice.committing) < len(choice.with_events):
        events, commits = len(choice.with_events), len(choice.committing)
        print(
            f"a sample, {events:,} groups with events, {commits:,} of them with commits: {_sizes(choice.chosen)}"
        )


def _sizes(sizes: Estimate) -> str:
    return (
        f"about {sizes.commits:,.0f} offset records ({sizes.commit_bytes / 1e9:,.2f} GB) "
        f"and {sizes.events:,.0f} events ({sizes.event_bytes / 1e9:,.2f} GB)"
    )


def _print_outcome(
    options: Options, choice: Choice, done: Simulated, out: Path, took_s: float, as_json: bool
) -> None:
    command = serve_command(options, out)
    if as_json:
        report = {"groups": len(choice.groups), "groups_told": len(choice.with_events)}
        report |= {"groups_committing": len(choice.committing), **asdict(done)}
        print(json.dumps({**report, "seconds": round(took_s, 3), "serve": command}))
        return
    print(
        f"{done.commits:,} commits, {done.group_records:,} group records and {done.events:,} events, "
        f"{done.bytes / 1e9:,.2f} GB, in {took_s:,.1f} s"
    )
    print(f"serve it as it is, not compacted and not expired, by:\n  {command}")


def serve_command(options: Options, out: Path) -> str:
    """The command line of a daemon that serves this history without expiring or compacting it."""
    settings = {
        "log.dirs": str(out.absolute()),
        "offsets.topic.num.partitions": str(options.partitions),
        "log.cleaner.enable": "false",
        "offsets.retention.minutes": str(2**31 - 1),
        "muster.history.topic.retention.ms": "-1",
        "muster.history.topic.retention.bytes": "-1",
    }
    overrides = (part for name, value in settings.items() for part in ("--override", f"{name}={value}"))
    return shlex.join(["muster", "serve", *overrides])
