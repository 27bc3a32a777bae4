"""`muster groups`: list, describe, delete, history and validate-regex, and where the other commands are.

Every command that reads can answer in JSON. A failure is a sentence on standard error and status 1.
This module holds what users type; `admin` knows what is asked, `tables` how it looks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from coordinator.groups.consumer.expressions import InvalidExpression, compiled
from muster.cluster import Cluster
from muster.connection import Connection
from muster.groups import history_tables, tables
from muster.groups.admin import delete_groups, list_groups
from muster.groups.descriptions import DEAD, GroupDescription, NoSuchGroupError, describe_members
from muster.groups.history import MAX_EVENTS, GroupHistory, read_history
from muster.groups.many import describe_groups
from muster.groups.rebalance_views import rebalance_views
from muster.groups.running import AsJson, each, run
from muster.groups.selection import ListFilter, Several, names
from muster.groups.tables import Section, View
from muster.groups.time_lag import CREATE_TIME, time_lags
from muster.observe.reading import read_stored_history
from muster.observe.store import StoreError
from muster.sentences import counted, remark, shown_id
from muster.usage import STATUS_FAILED, UsageError
from protocol.errors import ErrorCode

app = App(name="groups", help="Look at groups, and change them: works on any Kafka cluster.")
for _name, _place, _help in (
    ("reset-offsets", "reset_command:reset_offsets", "Move the committed offsets of groups without members."),
    (
        "delete-offsets",
        "offset_commands:delete_offsets_command",
        "Delete what a group has committed of topics.",
    ),
    (
        "copy-offsets",
        "offset_commands:copy_offsets_command",
        "Commit for one group what another has committed.",
    ),
    ("export", "offset_commands:export", "Write what groups have committed to a file."),
    ("import", "offset_commands:import_command", "Commit offsets from a file."),
    ("remove-member", "member_command:remove_member", "Remove members from a group."),
    ("why", "why_command:why", "Say why a group rebalanced, with evidence and advice."),
    ("wait", "wait_command:wait", "Wait until a group is as it should be."),
    ("check", "check_command:check", "Judge the progress of groups, for cron and monitoring."),
    ("watch", "watch_command:watch", "Show changes of groups as they happen."),
):
    app.command(f"muster.groups.{_place}", name=_name, help=_help)  # Imported only when it is called.

NEWEST_EVENTS = 1_000
"""The default of --newest: the events of some hundred rebalances."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The options that say what of a group is described."""

    section: Annotated[
        list[str] | None, Parameter(negative="", help="only these parts: state,members,offsets")
    ] = None
    state: Annotated[bool, Parameter(negative="", help="the same as --section state")] = False
    members: Annotated[bool, Parameter(negative="", help="the same as --section members")] = False
    offsets: Annotated[bool, Parameter(negative="", help="the same as --section offsets")] = False
    verbose: Annotated[
        bool, Parameter(negative="", help="also leader epochs and metadata of committed offsets")
    ] = False
    time_lag: Annotated[
        bool, Parameter(negative="", help="also the age of the next record of each partition, read from it")
    ] = False

    def sections(self) -> frozenset[Section]:
        """The parts that were asked for, else all. Raises UsageError."""
        given = names("section", self.section, [section.value for section in Section])
        flags = {"state": self.state, "members": self.members, "offsets": self.offsets}
        chosen = given | {name for name, is_given in flags.items() if is_given}
        return frozenset(map(Section, chosen)) or frozenset(Section)

    async def view(self, cluster: Cluster, group: GroupDescription) -> View:
        """What is shown of this group; reads the records that time lags are about. Raises ClusterError."""
        if not self.time_lag:
            return View(self.sections(), self.verbose)
        now_ms = time.time_ns() // 1_000_000
        return View(self.sections(), self.verbose, await time_lags(cluster, group.progress, now_ms))


@app.command(name="list")
def list_command(
    *,
    shown: ListFilter = ListFilter(),
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """List the groups of the cluster."""

    async def command() -> int:
        is_wanted = shown.wanted()
        async with connection.connected() as cluster:
            groups = [group for group in await list_groups(cluster) if is_wanted(group)]
        if as_json:
            tables.show_json(tables.list_json(groups))
        else:
            tables.show(tables.list_table(groups))
        return 0

    return run(command(), as_json)


@app.command
def describe(
    *group: str,
    several: Several = Several(),
    shown: Shown = Shown(),
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Show members, committed offsets, log ends and lag of groups.

    Of a consumer group also its epochs, and what each member is to have: as kafka-consumer-groups names them.
    """

    async def command() -> int:
        several.check(group)
        shown.sections()  # It complains before the cluster is asked.
        async with connection.connected() as cluster:
            chosen = await several.chosen(cluster, group)
            found = await describe_groups(cluster, chosen)
            for group_id in (each_id for each_id in chosen if each_id not in found):
                if not several.is_given:
                    raise NoSuchGroupError(f"there is no group {shown_id(group_id)}")
                remark(f"group {shown_id(group_id)} is gone meanwhile")

            async def viewed(of: GroupDescription) -> tuple[GroupDescription, View]:
                return of, await shown.view(cluster, of)

            groups = await each(viewed, found.values())
        if as_json:
            tables.show_json([tables.description_json(*described) for described in groups])
        for described in () if as_json else groups:
            tables.show(tables.description(*described))
        if any(
            lag.timestamp_type == CREATE_TIME for _, view in groups for lag in (view.time_lags or {}).values()
        ):
            remark("time lag by CreateTime: the producers' clocks, not the broker's")
        return 0

    return run(command(), as_json)


@app.command
def delete(
    *group: str,
    several: Several = Several(),
    execute: Annotated[
        bool,
        Parameter(negative="", help="with --match or --all-groups: delete them; without, only show them"),
    ] = False,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Delete groups that have no members, with their committed offsets.

    Groups that are named are deleted at once; those of --match and --all-groups only with --execute.
    """

    async def command() -> int:
        several.check(group)
        async with connection.connected() as cluster:
            chosen = await several.chosen(cluster, group)
            if several.is_given and not execute:
                if as_json:
                    tables.show_json(dict.fromkeys(chosen))
                else:
                    tables.show(tables.planned_deletion_table(chosen))
                remark(f"nothing was changed: add --execute to delete {counted(len(chosen), 'group')}")
                return 0
            outcome = await delete_groups(cluster, chosen)
        if as_json:
            tables.show_json({group_id: error.name for group_id, error in outcome.items()})
        else:
            tables.show(tables.deletion_table(outcome))
        return STATUS_FAILED if any(error is not ErrorCode.NONE for error in outcome.values()) else 0

    return run(command(), as_json)


@app.command
def history(
    group: str,
    *,
    events: Annotated[bool, Parameter(negative="", help="one row per event, not per rebalance")] = False,
    newest: Annotated[int, Parameter(help=f"so many events at most, up to {MAX_EVENTS:,}")] = NEWEST_EVENTS,
    store: Annotated[Path | None, Parameter(help="read what `muster observe` keeps in DIR")] = None,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Show what happened to a group: every rebalance with its cause, its member and how long it took."""

    async def read() -> GroupHistory:
        if store is None:
            async with connection.connected() as cluster:
                return await _history_of(cluster, group, newest)
        stored = read_stored_history(store, group, newest)
        for sentence in stored.remarks():
            remark(sentence)
        if not stored.history.has_events:
            raise StoreError(f"the history of group {shown_id(group)} is not in {store}")
        return stored.history

    async def command() -> int:
        if not 1 <= newest <= MAX_EVENTS:
            raise UsageError(f"--newest {newest} must be from 1 to {MAX_EVENTS}")
        connection.refuse_beside_a_store(store)
        found = await read()
        for sentence in history_tables.remarks(group, found):
            remark(sentence)
        if as_json:
            tables.show_json(history_tables.history_json(found.by_time()))
        elif events:
            tables.show(history_tables.event_table(found.by_time()))
        else:
            tables.show(history_tables.rebalance_table(rebalance_views(found.as_it_happened())))
        return 0

    return run(command(), as_json)


async def _history_of(cluster: Cluster, group_id: str, newest: int) -> GroupHistory:
    """The history of the group. Raises ClusterError, also if there is neither that group nor a history of it."""
    found = await read_history(cluster, group_id, newest)
    if not found.has_events and (await describe_members(cluster, group_id)).state == DEAD:
        raise NoSuchGroupError(f"there is no group {shown_id(group_id)}")
    return found


@app.command
def validate_regex(expression: str, *, as_json: AsJson = False) -> int:
    """Check a regular expression of a subscription as brokers do (RE2). No cluster is asked."""
    try:
        compiled(expression)
        problem = None
    except InvalidExpression as error:
        problem = str(error)
    if as_json:
        tables.show_json({"expression": expression, "valid": problem is None, "problem": problem})
    else:
        verdict = "valid" if problem is None else f"invalid: {problem}"
        tables.show_line(f"The regular expression `{expression}` is {verdict}.")
    return 0 if problem is None else STATUS_FAILED
