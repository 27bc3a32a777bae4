"""How a job is to run, and which jobs there are: what can be checked, and refused, before Spark is imported."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

Number = TypeVar("Number", int, float)

JOBS: Final[Mapping[str, str]] = {
    "commits": "muster.spark.jobs.commits",
    "lag": "muster.spark.jobs.lag",
    "members": "muster.spark.jobs.members",
    "rebalances": "muster.spark.jobs.rebalances",
}
"""The module of each job, by the job's name, which has it as `JOB`. It is imported when the job runs."""

JOBS_OF_EVENTS: Final = ("members", "rebalances")
"""The jobs that may read another topic than their own: one of events, which `muster observe export` wrote."""

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class RefusedRunError(Exception):
    """The job cannot run like this; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a job is to run. The options that concern single jobs are the last."""

    bootstrap: str
    out: str  # An absolute path, as Spark resolves relative ones where its JVM was started.
    watermark_ms: int = 60_000  # How late a record may be; after that its minute or window is over.
    max_offsets_per_batch: int | None = None  # None: the job's default.
    every_ms: int | None = None  # How often a continuous run looks for new records; None: run once.
    kafka: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # Of librdkafka's clients, by its names.
    source: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # Of Spark's Kafka source, by Java's names.
    topic: str | None = None  # None: the job's own.
    noisy_per_second: float = 1.0  # commits: a group is noisy above this, per partition.
    storm_window_ms: int = 300_000  # rebalances: length of the windows.
    storm_share: float = 0.2  # rebalances: a window with a larger share spent rebalancing is a storm.


def parse_duration_ms(option: str, text: str, at_least: str, at_most: str) -> int:
    """Milliseconds of a number with unit: 500ms, 90s, 1m, 2h, 7d. Raises RefusedRunError, naming `option`."""
    duration_ms = _in_ms(text)
    if duration_ms is None:
        raise RefusedRunError(
            f"--{option} {text}: a whole number with its unit is wanted, as 500ms, 90s, 1m, 2h"
        )
    lowest, highest = _in_ms(at_least), _in_ms(at_most)
    assert lowest is not None
    assert highest is not None
    if not lowest <= duration_ms <= highest:
        raise RefusedRunError(f"--{option} {text}: it has to be between {at_least} and {at_most}")
    return duration_ms


def _in_ms(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)", text)
    return int(found[1]) * _UNIT_MS[found[2]] if found else None


def require_topic(job: str, topic: str | None) -> str | None:
    """The topic, if the job may read another than its own. Raises RefusedRunError."""
    if topic is not None and job not in JOBS_OF_EVENTS:
        raise RefusedRunError(f"--topic goes with {' and '.join(JOBS_OF_EVENTS)}")
    return topic


def parse_every_ms(continuous: bool, every: str | None) -> int | None:
    """The interval in ms of a continuous run; None for a single run. Raises RefusedRunError."""
    if not continuous:
        if every is not None:
            raise RefusedRunError("--every goes with --continuous")
        return None
    return parse_duration_ms("every", every or "1m", "1s", "1d")


def require_positive(option: str, value: Number) -> Number:
    """Return `value`. Raises RefusedRunError if it is not above 0."""
    if not value > 0:
        raise RefusedRunError(f"--{option} {value}: it has to be above 0")
    return value


def require_positive_or_none(option: str, value: Number | None) -> Number | None:
    """Return `value`, which may be None. Raises RefusedRunError if it is not above 0."""
    return None if value is None else require_positive(option, value)


def parse_share(option: str, value: float) -> float:
    """Return `value`. Raises RefusedRunError unless it is at least 0 and below 1, which no share can exceed."""
    if not 0 <= value < 1:
        raise RefusedRunError(f"--{option} {value}: it has to be at least 0 and below 1")
    return value


def parse_window_ms(option: str, text: str) -> int:
    """The length in ms of windows of which a whole number make a day. Raises RefusedRunError."""
    window_ms = parse_duration_ms(option, text, "1m", "1h")
    if _UNIT_MS["d"] % window_ms:
        raise RefusedRunError(f"--{option} {text}: windows have to fill a day, as 5m and 10m do")
    return window_ms


def parse_kafka_options(pairs: Sequence[str]) -> dict[str, str]:
    """Kafka clients' settings from texts NAME=VALUE. Raises RefusedRunError."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise RefusedRunError(f"--kafka-option {pair}: NAME=VALUE is wanted")
        settings[name] = value
    return settings


def require_job(name: str) -> None:
    """Raises RefusedRunError, which lists the jobs, unless there is a job of that name."""
    if name not in JOBS:
        raise RefusedRunError(f"there is no job {name}; there are {', '.join(sorted(JOBS))}")


def require_writable(out: Path) -> None:
    """Create the folder if it does not exist. Raises RefusedRunError if it cannot be written to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(prefix="_probe", dir=out)
        os.close(handle)
        os.unlink(probe)
    except OSError as error:
        raise RefusedRunError(f"--out {out} cannot be written: {error.strerror}") from None
