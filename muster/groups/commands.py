"""`muster groups`: list, describe, delete, reset-offsets, history and why, against any Kafka cluster.

Every command that reads can answer in JSON. A failure is a sentence on standard error and status 1.
This module holds what users type; `admin` knows what is asked, `tables` how it looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from cyclopts import App, Parameter
from rich.text import Text

from muster.cluster import DEFAULT_BOOTSTRAP, ClusterError, connected
from muster.groups import history_tables, tables
from muster.groups.admin import commit_moves, delete_groups, list_groups
from muster.groups.descriptions import describe_group, require_no_members
from muster.groups.history import MAX_EVENTS, read_history
from muster.groups.rebalance_views import rebalance_views
from muster.groups.reset_offsets import (
    ShiftBy,
    Target,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTimestamp,
    parse_datetime,
    parse_topics,
    plan_reset,
)
from muster.groups.why import tables as why_tables
from muster.groups.why.answers import Question
from muster.groups.why.asking import ask
from muster.sentences import remark, say
from protocol.errors import ErrorCode

app = App(name="groups", help="Look at groups, and change them: works on any Kafka cluster.")

Bootstrap: TypeAlias = Annotated[str, Parameter(name="--bootstrap", help="host:port of any broker")]
AsJson: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", help="print JSON")]

NEWEST_EVENTS = 1_000
"""The default of --newest: the events of some hundred rebalances."""
STATUS_FAILED = 1
STATUS_NOT_UNDERSTOOD = 2


class UsageError(Exception):
    """The arguments contradict each other; the message is a sentence for the user."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """The options that say which partitions a reset is about."""

    topic: Annotated[list[str] | None, Parameter(help="TOPIC or TOPIC:0,2; may be repeated")] = None
    all_topics: Annotated[bool, Parameter(negative="", help="every topic the group has committed")] = False

    def check(self) -> None:
        """Raises UsageError unless either --topic or --all-topics is given."""
        if bool(self.topic) == self.all_topics:
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
    to_offset: Annotated[int | None, Parameter(help="to this offset")] = None
    to_datetime: Annotated[
        str | None, Parameter(help="to the first record from then on (ISO 8601, else UTC)")
    ] = None
    shift_by: Annotated[int | None, Parameter(help="so many records on, or back if negative")] = None

    def target(self) -> Target:
        """The one target that was given. Raises UsageError for none, several, or a time that does not parse."""
        targets: list[Target] = []
        if self.to_earliest:
            targets.append(ToEarliest())
        if self.to_latest:
            targets.append(ToLatest())
        if self.to_offset is not None:
            targets.append(ToOffset(self.to_offset))
        if self.to_datetime is not None:
            targets.append(ToTimestamp(_timestamp("--to-datetime", self.to_datetime)))
        if self.shift_by is not None:
            targets.append(ShiftBy(self.shift_by))
        if len(targets) != 1:
            raise UsageError("give one of --to-earliest, --to-latest, --to-offset, --to-datetime, --shift-by")
        return targets[0]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMode:
    """The options that say whether a reset is committed or only shown."""

    execute: Annotated[bool, Parameter(negative="", help="commit it; without, it is only shown")] = False
    dry_run: Annotated[bool, Parameter(negative="", help="only show it, which is the default")] = False

    def check(self) -> None:
        """Raises UsageError if both were given."""
        if self.execute and self.dry_run:
            raise UsageError("give --execute or --dry-run, not both")


@app.command(name="list")
def list_command(*, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> int:
    """List the groups of the cluster."""

    async def run() -> int:
        async with connected(bootstrap) as cluster:
            groups = await list_groups(cluster)
        if as_json:
            tables.show_json(tables.list_json(groups))
        else:
            tables.show(tables.list_table(groups))
        return 0

    return _status(run())


@app.command
def describe(
    group: str, *more: str, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False
) -> int:
    """Show members, committed offsets, log ends and lag of one or more groups.

    Of a consumer group also its epochs, and what each member is to have: as kafka-consumer-groups names them.
    """

    async def run() -> int:
        async with connected(bootstrap) as cluster:
            groups = [await describe_group(cluster, group_id) for group_id in (group, *more)]
        if as_json:
            tables.show_json([tables.description_json(found) for found in groups])
        for found in () if as_json else groups:
            tables.show(tables.description(found))
        return 0

    return _status(run())


@app.command
def delete(group: str, *more: str, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> int:
    """Delete groups that have no members, with their committed offsets."""

    async def run() -> int:
        async with connected(bootstrap) as cluster:
            outcome = await delete_groups(cluster, (group, *more))
        if as_json:
            tables.show_json({group_id: error.name for group_id, error in outcome.items()})
        else:
            tables.show(tables.deletion_table(outcome))
        return STATUS_FAILED if any(error is not ErrorCode.NONE for error in outcome.values()) else 0

    return _status(run())


@app.command
def reset_offsets(
    group: str,
    *,
    selected: TopicSelection = TopicSelection(),
    moved: TargetSelection = TargetSelection(),
    mode: ResetMode = ResetMode(),
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> int:
    """Move a group's committed offsets. The group must have no members.

    One that does not exist is given offsets by --topic, so that its first member goes on from there; by
    --all-topics there is nothing to move. Neither is a failure, while --shift-by needs an offset of each
    partition that is named: all as kafka-consumer-groups has it.
    """

    async def run() -> int:
        selected.check()
        mode.check()
        target, topics = moved.target(), selected.topics()
        async with connected(bootstrap) as cluster:
            await require_no_members(cluster, group)
            moves = await plan_reset(cluster, group, topics, target)
            if mode.execute and moves:
                await commit_moves(cluster, group, moves)
        if as_json:
            tables.show_json({"executed": mode.execute, "moves": tables.moves_json(moves)})
            return 0
        tables.show(tables.moves_table(moves))
        if not moves:
            remark(f"nothing to move: group {group} has committed no offset")
        elif not mode.execute:
            remark("nothing was changed: add --execute to commit this")
        return 0

    return _status(run())


@app.command
def history(
    group: str,
    *,
    events: Annotated[bool, Parameter(negative="", help="one row per event, not per rebalance")] = False,
    newest: Annotated[int, Parameter(help=f"so many events at most, up to {MAX_EVENTS:,}")] = NEWEST_EVENTS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> int:
    """Show what happened to a group: every rebalance with its cause, its member and how long it took."""

    async def run() -> int:
        if not 1 <= newest <= MAX_EVENTS:
            raise UsageError(f"--newest {newest} must be from 1 to {MAX_EVENTS}")
        async with connected(bootstrap) as cluster:
            found = await read_history(cluster, group, newest)
        for sentence in history_tables.remarks(group, found):
            remark(sentence)
        if as_json:
            tables.show_json(history_tables.history_json(found.by_time()))
        elif events:
            tables.show(history_tables.event_table(found.by_time()))
        else:
            tables.show(history_tables.rebalance_table(rebalance_views(found.as_it_happened())))
        return 0

    return _status(run())


@app.command
def why(
    group: str,
    *,
    at: Annotated[str | None, Parameter(help="the rebalance at this time (ISO 8601, else UTC)")] = None,
    newest: Annotated[int, Parameter(help=f"look at so many events, up to {MAX_EVENTS:,}")] = NEWEST_EVENTS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> int:
    """Say why a group rebalanced last, or why it does now: the cause with its evidence, and what to do.

    While it rebalances also who is waited for; that needs no history, so it works on any cluster.
    """

    async def run() -> int:
        if not 1 <= newest <= MAX_EVENTS:
            raise UsageError(f"--newest {newest} must be from 1 to {MAX_EVENTS}")
        question = Question(
            group, None if at is None else _timestamp("--at", at), time.time_ns() // 1_000_000
        )
        async with connected(bootstrap) as cluster:
            found = await ask(cluster, question, newest)
        for sentence in found.remarks:
            remark(sentence)
        if as_json:
            tables.show_json(why_tables.answer_json(found.answer))
        else:
            tables.show(Text("\n".join(why_tables.lines(found.answer))))
        return 0

    return _status(run())


def _timestamp(option: str, text: str) -> int:
    try:
        return parse_datetime(text)
    except ValueError:
        raise UsageError(f"{option} {text} must be an ISO 8601 time, as in 2026-01-31T12:00:00Z") from None


def _status(command: Coroutine[None, None, int]) -> int:
    """Run a command and return its exit status; a failure is printed as a sentence on standard error."""
    try:
        return asyncio.run(command)
    except UsageError as error:
        say(error)
        return STATUS_NOT_UNDERSTOOD
    except ClusterError as error:
        say(error)
        return STATUS_FAILED
