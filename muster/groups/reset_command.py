"""`muster groups reset-offsets`, with the options of kafka-consumer-groups --reset-offsets.

Of several groups those that have members are left as they are, as Kafka's tool leaves them, and make the status 1.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from muster.cluster import Cluster, RefusedError
from muster.connection import Connection
from muster.durations import parse_iso_duration, spoken
from muster.groups import tables
from muster.groups.descriptions import LiveMembersError, require_no_members
from muster.groups.offset_csv import CsvError, Plan, plan_lines, read_plan
from muster.groups.offsets import Move, commit_moves
from muster.groups.reset_offsets import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToPlanned,
    ToTimestamp,
    parse_datetime,
    parse_topics,
    plan_reset,
)
from muster.groups.running import AsJson, run
from muster.groups.selection import Several
from muster.observe.recent_commits import committed_ago_ms
from muster.sentences import remark, say, shown_id
from muster.usage import STATUS_FAILED, UsageError
from protocol.topic_partition import TopicPartition

WARNED_OF_MAX: Final = 10
"""Groups: each takes a connection of its own to read the log of offsets."""
ROWS_SUFFIXES: Final = frozenset({".jsonl", ".json", ".parquet"})
"""Files of rows as `muster log export` writes them; all others are CSV as Kafka's tool does."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """The options that say which partitions a reset is about."""

    topic: Annotated[list[str] | None, Parameter(negative="", help="TOPIC or TOPIC:0,2; may be repeated")] = (
        None
    )
    all_topics: Annotated[bool, Parameter(negative="", help="every topic the group has committed")] = False

    def check(self, has_plan: bool) -> None:
        """Raises UsageError unless either --topic or --all-topics is given, or a plan says it all."""
        if has_plan:
            if self.topic:
                raise UsageError("--from-file says by itself which partitions: --topic is one too many")
        elif bool(self.topic) == self.all_topics:
            raise UsageError("give either --topic or --all-topics")

    def topics(self) -> dict[str, frozenset[int] | None] | None:
        """The partitions to reset by topic, None for all of a topic; None for all topics. Raises UsageError."""
        try:
            return parse_topics(self.topic) if self.topic else None
        except ValueError as error:
            raise UsageError(f"--topic {error}") from None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSelection:
    """The options that say where a reset goes: exactly one of them has to be given."""

    to_earliest: Annotated[bool, Parameter(negative="", help="to the start of the log")] = False
    to_latest: Annotated[bool, Parameter(negative="", help="to its end")] = False
    to_current: Annotated[bool, Parameter(negative="", help="where it is; to the end if nowhere")] = False
    to_offset: Annotated[int | None, Parameter(help="to this offset")] = None
    to_datetime: Annotated[
        str | None, Parameter(help="to the first record from then on (ISO 8601, else UTC)")
    ] = None
    by_duration: Annotated[
        str | None, Parameter(help="to the first record of the last so long (ISO 8601: PT1H, P7D)")
    ] = None
    shift_by: Annotated[int | None, Parameter(help="so many records on, or back if negative")] = None
    from_file: Annotated[
        Path | None,
        Parameter(help="to the offsets of a file: CSV as of --export, or rows (.jsonl, .parquet)"),
    ] = None

    def target(self, now_ms: int) -> Target:
        """The one target that was given; a file's plan is read by `plan`. Raises UsageError."""
        targets: list[Target] = []
        targets += [ToEarliest()] if self.to_earliest else []
        targets += [ToLatest()] if self.to_latest else []
        targets += [ToCurrent()] if self.to_current else []
        targets += [ToOffset(self.to_offset)] if self.to_offset is not None else []
        targets += [ToTimestamp(_timestamp(self.to_datetime))] if self.to_datetime is not None else []
        targets += [ToTimestamp(now_ms - _duration(self.by_duration))] if self.by_duration is not None else []
        targets += [ShiftBy(self.shift_by)] if self.shift_by is not None else []
        targets += [ToPlanned({})] if self.from_file is not None else []
        if len(targets) != 1:
            raise UsageError(
                "give one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
                "--by-duration, --shift-by, --from-file"
            )
        return targets[0]

    def plan(self) -> Plan:
        """The offsets in the file, if one was given. Raises UsageError."""
        if self.from_file is None:
            return {}
        if self.from_file.suffix in ROWS_SUFFIXES:
            return _plan_of_rows(self.from_file)
        try:
            return read_plan(self.from_file)
        except CsvError as error:
            raise UsageError(f"--from-file {error}") from None


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMode:
    """The options that say whether a reset is committed or only shown, and how it is shown."""

    execute: Annotated[bool, Parameter(negative="", help="commit it; without, it is only shown")] = False
    dry_run: Annotated[bool, Parameter(negative="", help="only show it, which is the default")] = False
    export: Annotated[bool, Parameter(negative="", help="show it as CSV, for --from-file of both tools")] = (
        False
    )
    as_json: AsJson = False

    def check(self) -> None:
        """Raises UsageError for what contradicts itself."""
        if self.execute and self.dry_run:
            raise UsageError("give --execute or --dry-run, not both")
        if self.export and self.as_json:
            raise UsageError("give --export or --json, not both")


def reset_offsets(
    *group: str,
    several: Several = Several(),
    selected: TopicSelection = TopicSelection(),
    moved: TargetSelection = TargetSelection(),
    mode: ResetMode = ResetMode(),
    connection: Connection = Connection(),
) -> int:
    """Move the committed offsets of groups that have no members.

    One that does not exist is given offsets by --topic, so that its first member goes on from there; by
    --all-topics there is nothing to move. Neither is a failure, while --shift-by needs an offset of each
    partition that is named: all as kafka-consumer-groups has it. --all-groups wants --match beside it.
    """

    async def command() -> int:
        chosen = _groups_by_expression(group, several)
        mode.check()
        selected.check(moved.from_file is not None)
        target, topics, plan = moved.target(time.time_ns() // 1_000_000), selected.topics(), moved.plan()
        async with connection.connected() as cluster:
            found = await chosen.chosen(cluster, group)
            targets = {group_id: _planned(target, plan, group_id, len(found)) for group_id in found}
            warnings = await _warnings(cluster, found)  # Before what is committed here.
            moves, refused = await _reset(cluster, targets, topics, mode.execute)
        _show(moves, refused, mode, names_groups=len(group) != 1)
        for group_id in moves.keys() & warnings.keys():
            remark(warnings[group_id])
        return STATUS_FAILED if refused else 0

    return run(command(), mode.as_json)


def _groups_by_expression(named: tuple[str, ...], several: Several) -> Several:
    """--all-groups says by --match which ones: nobody means to reset all that there are. Raises UsageError."""
    if not several.all_groups:
        several.check(named)
        return several
    if several.match is None or named:
        raise UsageError("--all-groups wants --match beside it, and no names: --match '.*' is every group")
    return Several(match=several.match)


async def _warnings(cluster: Cluster, groups: Collection[str]) -> dict[str, str]:
    """What is to be said of groups that have committed lately; of many nothing, as each has to be read for."""
    found = {}
    for group_id in groups if len(groups) <= WARNED_OF_MAX else ():
        ago_ms = await committed_ago_ms(cluster, group_id, time.time_ns() // 1_000_000)
        if ago_ms is not None:
            found[group_id] = (
                f"group {shown_id(group_id)} has committed {spoken(ago_ms)} ago: unless its members have "
                "left since, a consumer that assigns its partitions itself goes on, and commits over what is set"
            )
    return found


def _planned(target: Target, plan: Plan, group_id: str, groups: int) -> Target:
    """The target of one group: its own rows of a plan, or those that name no group if there is only one."""
    if not isinstance(target, ToPlanned):
        return target
    if None in plan and groups != 1:
        raise UsageError("--from-file: its lines name no group, and there are several")
    offsets: dict[TopicPartition, int] = plan.get(None, {}) | plan.get(group_id, {})
    if not offsets:
        raise UsageError(f"--from-file: it has no line of group {shown_id(group_id)}")
    return ToPlanned(offsets)


async def _reset(
    cluster: Cluster,
    targets: dict[str, Target],
    topics: dict[str, frozenset[int] | None] | None,
    is_executed: bool,
) -> tuple[dict[str, list[Move]], dict[str, str]]:
    """What is moved by group, and why other groups are refused; one that is alone raises it: ClusterError."""
    moves: dict[str, list[Move]] = {}
    refused: dict[str, str] = {}
    for group_id, target in targets.items():
        try:
            await require_no_members(cluster, group_id)
            moves[group_id] = await plan_reset(cluster, group_id, topics, target)
        except LiveMembersError as error:
            if len(targets) == 1:
                raise
            refused[group_id] = str(error)
    for group_id, planned in list(moves.items()) if is_executed else ():
        try:
            if planned:
                await commit_moves(cluster, group_id, planned)
        except RefusedError as error:  # As where a member has joined meanwhile.
            if len(targets) == 1:
                raise
            refused[group_id] = f"group {shown_id(group_id)}: {error}"
            del moves[group_id]
    return moves, refused


def _show(moves: dict[str, list[Move]], refused: dict[str, str], mode: ResetMode, names_groups: bool) -> None:
    for sentence in refused.values():
        say(sentence, mode.as_json)
    if mode.as_json:
        tables.show_json({"executed": mode.execute, "moves": tables.moves_json(moves), "refused": refused})
        return
    if mode.export:
        for line in plan_lines(moves, names_groups):
            print(line)
    else:
        tables.show(tables.moves_table(moves, names_groups))
    for group_id, planned in moves.items():
        if not planned:
            remark(f"nothing to move: group {shown_id(group_id)} has committed no offset")
    if any(moves.values()) and not mode.execute:
        remark("nothing was changed: add --execute to commit this")


def _plan_of_rows(path: Path) -> Plan:
    from muster.log.places import LogToolError
    from muster.log.rows import read_rows

    plan: Plan = {}
    try:
        for row in read_rows(path):
            plan.setdefault(row.group, {})[TopicPartition(row.topic, row.partition)] = row.offset
    except LogToolError as error:
        raise UsageError(f"--from-file {error}") from None
    return plan


def _timestamp(text: str) -> int:
    try:
        return parse_datetime(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--to-datetime {text} must be an ISO 8601 time, as in 2026-01-31T12:00:00Z"
        ) from None


def _duration(text: str) -> int:
    try:
        return parse_iso_duration(text)
    except ValueError as error:
        raise UsageError(f"--by-duration {error}") from None
