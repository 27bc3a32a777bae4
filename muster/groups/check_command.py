"""`muster groups check`: one line for each group, and status 1 unless all are well; for cron and Nagios.

Committed offsets and log ends are looked at several times over a window, for the rules are about how they move.
Rebalances are counted in the history that Muster keeps (`rebalances`, as for all that counts them), so on another
cluster --max-rebalances is refused; all else works on any Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.cluster import Cluster
from muster.connection import Connection
from muster.durations import parse_duration
from muster.groups import tables
from muster.groups.check_rules import Finding, GroupSamples, Limits, Sample, Status, findings, worst
from muster.groups.descriptions import GroupDescription, NoSuchGroupError
from muster.groups.history import read_histories
from muster.groups.many import describe_groups
from muster.groups.rebalance_views import rebalance_views
from muster.groups.running import AsJson, each, run
from muster.groups.selection import Several
from muster.groups.time_lag import time_lags
from muster.sentences import shown_id
from muster.usage import STATUS_FAILED, UsageError
from protocol.topic_partition import TopicPartition

SAMPLES: Final = 6
DEFAULT_WINDOW: Final = "30s"
"""Longer than the 5 s after which consumers commit by default, so that one that gets on is seen to."""
_PERIODS: Final = {"m": "1m", "h": "1h", "d": "1d"}


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options that say what is well."""

    window: Annotated[str, Parameter(help="look so long how offsets move; 0s: only at the limits")] = (
        DEFAULT_WINDOW
    )
    max_lag: Annotated[int | None, Parameter(help="records, on any partition")] = None
    max_time_lag: Annotated[str | None, Parameter(help="age of the next record, on any partition: 5m")] = None
    max_rebalances: Annotated[str | None, Parameter(help="in a time: 4/h, 10/2h; needs Muster")] = None

    def window_ms(self) -> int:
        return _duration("window", self.window)

    def limits(self) -> Limits:
        """The limits that were given. Raises UsageError."""
        time_lag_ms = None if self.max_time_lag is None else _duration("max-time-lag", self.max_time_lag)
        if self.max_rebalances is None:
            return Limits(lag=self.max_lag, time_lag_ms=time_lag_ms)
        count, _, period = self.max_rebalances.partition("/")
        if not count.isascii() or not count.isdigit():
            raise UsageError(f"--max-rebalances {self.max_rebalances} must be NUMBER/TIME, as in 4/h")
        return Limits(
            lag=self.max_lag,
            time_lag_ms=time_lag_ms,
            rebalances=int(count),
            rebalances_within_ms=_duration("max-rebalances", _PERIODS.get(period, period)),
        )


def check(
    *group: str,
    several: Several = Several(),
    options: CheckOptions = CheckOptions(),
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Judge the progress of groups, all unless some are said: one line each, status 1 unless all are well.

    OK; WARN: reads and falls behind; STALL: a member has it and does not get on; STOP: no member has it, and
    there is something to read; REWIND: was put back; BEYOND: committed beyond the log's end; LIMIT: exceeds what
    was given.
    """

    async def command() -> int:
        chosen = several if group or several.is_given else Several(all_groups=True)
        chosen.check(group)
        limits, window_ms = options.limits(), options.window_ms()
        async with connection.connected() as cluster:
            group_ids = await chosen.chosen(cluster, group)
            seen = await observed(cluster, group_ids, limits, window_ms)
        if group and (missing := sorted(set(group_ids) - seen.keys())):
            raise NoSuchGroupError(f"there is no group {shown_id(missing[0])}")
        verdicts = {group_id: findings(found, limits, window_ms) for group_id, found in seen.items()}
        if as_json:
            tables.show_json([_verdict_json(group_id, found) for group_id, found in verdicts.items()])
        for group_id, found in () if as_json else verdicts.items():
            tables.show_line(_line(group_id, found))
        return STATUS_FAILED if any(verdicts.values()) else 0

    return run(command(), as_json)


async def observed(
    cluster: Cluster, group_ids: list[str], limits: Limits, window_ms: int
) -> dict[str, GroupSamples]:
    """What rules and limits are about, of each group; one that is gone meanwhile is left out.

    Raises ClusterError.
    """
    rounds = SAMPLES if window_ms else 1
    samples: dict[str, dict[TopicPartition, list[Sample]]] = {}
    began = time.monotonic()
    described: list[GroupDescription] = []
    for number in range(rounds):
        if number:
            due = began + window_ms / 1000 * number / (rounds - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        described = await _described(cluster, group_ids)
        for found in described:
            of_group = samples.setdefault(found.group_id, defaultdict(list))
            for row in found.progress:
                sample = Sample(row.committed_offset, row.log_end_offset, row.member_id is not None)
                of_group[TopicPartition(row.topic, row.partition)].append(sample)

    now_ms = time.time_ns() // 1_000_000
    rebalances: dict[str, int] = {}
    if limits.rebalances is not None:
        present = [found.group_id for found in described]
        rebalances = await _rebalances_since(cluster, present, now_ms - limits.rebalances_within_ms)

    async def ask(found: GroupDescription) -> GroupSamples:
        ages: dict[TopicPartition, int] = {}
        if limits.time_lag_ms is not None:
            lags = await time_lags(cluster, found.progress, now_ms)
            ages = {where: lag.lag_ms for where, lag in lags.items()}
        return GroupSamples(samples[found.group_id], ages, rebalances.get(found.group_id))

    seen = await each(ask, described)
    return {found.group_id: of_group for found, of_group in zip(described, seen, strict=True)}


async def _described(cluster: Cluster, group_ids: list[str]) -> list[GroupDescription]:
    return list((await describe_groups(cluster, group_ids)).values())


async def _rebalances_since(cluster: Cluster, group_ids: list[str], since_ms: int) -> dict[str, int]:
    """The number of rebalances of each group that went on at that time or began later."""
    return {
        group_id: sum(
            view.is_rebalance and view.last.wall_ms >= since_ms
            for view in rebalance_views(history.as_it_happened())
        )
        for group_id, history in (await read_histories(cluster, group_ids)).items()
    }


def _duration(option: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--{option} {error}") from None


def _line(group_id: str, found: list[Finding]) -> str:
    """The verdict on a group in one line, the worst first."""
    if not found:
        return f"{tables.id_text(group_id)}: {Status.OK.value}"
    order = list(Status)
    parts = [
        f"{finding.status.value} {_place(finding)}{finding.what}"
        for finding in sorted(found, key=lambda finding: -order.index(finding.status))
    ]
    return f"{tables.id_text(group_id)}: {'; '.join(parts)}"


def _place(finding: Finding) -> str:
    return f"{finding.partition.topic}-{finding.partition.partition}: " if finding.partition else ""


def _verdict_json(group_id: str, found: list[Finding]) -> dict[str, Any]:
    rows = [
        {
            "status": finding.status.value,
            "topic": finding.partition.topic if finding.partition else None,
            "partition": finding.partition.partition if finding.partition else None,
            "what": finding.what,
        }
        for finding in found
    ]
    return {"group_id": group_id, "status": worst(found).value, "findings": rows}
