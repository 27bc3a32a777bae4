"""Judges a group's progress by Burrow's rules, and by limits. Pure: samples in, a verdict out.

Burrow reads commits from `__consumer_offsets` as they come; here the committed offset is looked at now and then:
whether anybody commits the same offset again cannot be seen. What tells a consumer that stands still (STALL) from
one that is not there (STOP) is whether a member has the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from itertools import pairwise
from typing import NamedTuple

from muster.durations import spoken
from protocol.topic_partition import TopicPartition


@unique
class Status(Enum):
    """Burrow's names, from well to worst."""

    OK = "OK"
    WARN = "WARN"  # It reads, and falls behind.
    LIMIT = "LIMIT"  # Ours: a limit that was given is exceeded.
    STOP = "STOP"  # Nobody reads it, and there is something to read.
    STALL = "STALL"  # A member has it, and does not get on.
    REWIND = "REWIND"  # It was put back.
    BEYOND = "BEYOND"  # Ours: the commit is beyond the log's end, as after a topic was made anew.


class Sample(NamedTuple):
    """A partition at one moment; `is_owned`: a member has it."""

    committed: int | None
    log_end: int | None
    is_owned: bool

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end is None:
            return None
        return self.log_end - self.committed


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a group, and where; `partition` None: with the whole of it."""

    status: Status
    what: str
    partition: TopicPartition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a group may not exceed; None: no limit."""

    lag: int | None = None
    time_lag_ms: int | None = None
    rebalances: int | None = None
    rebalances_within_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupSamples:
    """All that was seen of one group: samples of each partition, oldest first, and what limits are about.

    `time_lags_ms` and `rebalances` are None unless they were asked for.
    """

    samples: Mapping[TopicPartition, Sequence[Sample]]
    time_lags_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    rebalances: int | None = None


def judge(samples: Sequence[Sample]) -> Status:
    """Burrow's verdict on one partition, in the order of its rules.

    A commit beyond the log's end is none of Burrow's: one look shows it. What lags not at all is well. What
    stopped is not well even if it was up to date before; every other rule is only about one that was behind all
    the time. Where the lag is not known nothing is said.
    """
    lags = [sample.lag for sample in samples]
    known = [sample for sample in samples if sample.lag is not None]
    if known and lags[-1] is not None and lags[-1] < 0:
        return Status.BEYOND
    if len(known) < 2 or not known[-1].lag or lags[-1] is None:
        return Status.OK
    offsets = [sample.committed or 0 for sample in known]
    stands_still = len(set(offsets)) == 1
    if stands_still and not any(sample.is_owned for sample in known):
        return Status.STOP
    if any((sample.lag or 0) <= 0 for sample in known):
        return Status.OK
    if any(after < before for before, after in pairwise(offsets)):
        return Status.REWIND
    if stands_still:
        return Status.STALL
    if all((after.lag or 0) >= (before.lag or 0) for before, after in pairwise(known)):
        return Status.WARN
    return Status.OK


def findings(seen: GroupSamples, limits: Limits, window_ms: int) -> list[Finding]:
    """All that is wrong with a group, partitions in order."""
    found = []
    for where, samples in sorted(seen.samples.items()):
        status = judge(samples)
        if status is not Status.OK:
            found.append(Finding(status, _in_words(status, samples, window_ms), where))
    return found + list(_exceeded(seen, limits))


def _in_words(status: Status, samples: Sequence[Sample], window_ms: int) -> str:
    first, last = samples[0], samples[-1]
    lag = f"lag {last.lag:,}"
    match status:
        case Status.BEYOND:
            return f"{last.committed:,} is committed, and the log ends at {last.log_end:,}"
        case Status.WARN:
            return f"{lag}, from {first.lag or 0:,} in {spoken(window_ms)}, though it reads"
        case Status.STOP:
            return f"{lag}, and no member has it"
        case Status.STALL:
            return f"{lag}, and nothing committed beyond {last.committed:,} for {spoken(window_ms)}"
        case _:
            highest = max(sample.committed or 0 for sample in samples)
            return f"{lag}, and put back from {highest:,} to {last.committed:,}"


def _exceeded(seen: GroupSamples, limits: Limits) -> Iterable[Finding]:
    for where, samples in sorted(seen.samples.items()):
        lag = samples[-1].lag if samples else None
        if limits.lag is not None and lag is not None and lag > limits.lag:
            yield Finding(Status.LIMIT, f"lag {lag:,}, more than {limits.lag:,}", where)
    for where, time_lag_ms in sorted(seen.time_lags_ms.items()):
        if limits.time_lag_ms is not None and time_lag_ms > limits.time_lag_ms:
            what = f"time lag {spoken(time_lag_ms)}, more than {spoken(limits.time_lag_ms)}"
            yield Finding(Status.LIMIT, what, where)
    if limits.rebalances is not None and (seen.rebalances or 0) > limits.rebalances:
        within = spoken(limits.rebalances_within_ms)
        yield Finding(
            Status.LIMIT, f"{seen.rebalances} rebalances in {within}, more than {limits.rebalances}"
        )


def worst(found: Iterable[Finding]) -> Status:
    """The worst status of these, OK of none."""
    order = list(Status)
    return max((finding.status for finding in found), key=order.index, default=Status.OK)
