"""Writes a synthetic history of groups, for trying analytics at a scale that no test cluster has.

    python -m tools.simulate --groups 1000 --days 7 --out DIR

docs/scale.md says what is drawn, and how. numpy is needed: it comes with the extra `spark`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from muster.closed_output import status_of
from tools.simulate import command
from tools.simulate.history import Options

STATUS_FAILED = 1
STATUS_NOT_UNDERSTOOD = 2

app = App(name="simulate", version_flags=[], result_action="return_int_as_exit_code_else_zero")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The options that say how many groups there are, over which time, and by which seed."""

    groups: Annotated[int, Parameter(help="groups of the population")] = 1_000
    days: Annotated[float, Parameter(help="length of the history")] = 7.0
    seed: Annotated[int, Parameter(help="the same seed, options and end give the same bytes")] = 0
    end: Annotated[str | None, Parameter(help="ISO time (UTC) of its end; else the last midnight")] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The options that say how much of it is written."""

    sample: Annotated[
        float | None, Parameter(help="share of the groups that are written; else as many as --events allows")
    ] = None
    events: Annotated[int, Parameter(help="without --sample, about so many events at most")] = 1_000_000
    commits: Annotated[int, Parameter(help="about so many offset records at most")] = 20_000_000
    commit_days: Annotated[
        float | None, Parameter(help="write commits of the last days only, of more groups therefore")
    ] = None
    log_ends: Annotated[
        int, Parameter(help="seconds between two records that show topics' log ends; 0: none")
    ] = 0
    partitions: Annotated[int, Parameter(help="partitions of __consumer_offsets")] = 50


@app.default
def simulate(
    *,
    out: Annotated[Path, Parameter(help="log directory to write; it must be empty, or not there yet")],
    span: Span = Span(),
    extent: Extent = Extent(),
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="print one JSON line")] = False,
) -> int:
    """Write a synthetic history of groups: offsets and events as a daemon's log directory, seeded."""
    try:
        end_ms = command.parse_end(span.end)
    except ValueError:
        command.say(f"--end {span.end} is no ISO date or time")
        return STATUS_FAILED
    options = Options(
        groups=span.groups,
        days=span.days,
        end_ms=end_ms,
        seed=span.seed,
        partitions=extent.partitions,
        sample=extent.sample,
        events_max=extent.events,
        commits_max=extent.commits,
        commit_days=extent.commit_days,
        log_ends_every_ms=extent.log_ends * 1_000,
    )
    return command.simulate(options, out, as_json)


def run(arguments: Sequence[str]) -> int:
    """Write one history; 0, 1 after a sentence on standard error, or 2 for arguments that are not understood."""
    try:
        status = app(list(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        command.say(error)
        return STATUS_NOT_UNDERSTOOD
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    sys.exit(status_of(lambda: run(sys.argv[1:])))
