"""Formats groups as tables for people and as JSON for programs. It sends no requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum, unique
from typing import Any, Final, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.durations import spoken
from muster.groups.admin import GroupListing
from muster.groups.descriptions import CONSUMER, GroupDescription, MemberDescription, Partitions
from muster.groups.offsets import Move
from muster.groups.time_lag import TimeLag
from muster.log.rows import OffsetRow
from muster.sentences import counted, shown_id, visible
from protocol.errors import ErrorCode
from protocol.topic_partition import TopicPartition

UNKNOWN: Final = "-"


def show(renderable: RenderableType) -> None:
    """Print to standard output. Into a pipe nothing is wrapped or cut: one row stays one line."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(renderable, highlight=False)


def show_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_line(line: str) -> None:
    """Print one line, whatever it has of markup or control characters."""
    show(Text(visible(line)))


def id_text(text: str | None) -> str | None:
    """An id or a name that a client chose as tables and lines have it: fit for a terminal, and cut if too long."""
    return None if text is None else shown_id(text)


def list_table(groups: Iterable[GroupListing]) -> Table:
    """One row per group."""
    table = new_table("group", "state", "protocol type", "type", "coordinator")
    for group in groups:
        add_row(
            table,
            id_text(group.group_id),
            group.state,
            id_text(group.protocol_type),
            group.group_type,
            group.coordinator,
        )
    return table


def list_json(groups: Iterable[GroupListing]) -> list[dict[str, Any]]:
    """The rows of `list_table` as plain values for JSON."""
    return [asdict(group) for group in groups]


@unique
class Section(Enum):
    """A part of a description, as kafka-consumer-groups divides it."""

    STATE = "state"
    MEMBERS = "members"
    OFFSETS = "offsets"


TimeLags: TypeAlias = Mapping[TopicPartition, TimeLag]


@dataclass(frozen=True, slots=True)
class View:
    """What of a group is shown; `time_lags` None where they were not asked for."""

    sections: frozenset[Section] = frozenset(Section)
    verbose: bool = False
    time_lags: TimeLags | None = None


ALL: Final = View()


def description(group: GroupDescription, view: View = ALL) -> Group:
    """A heading, a table of the members, and a table of the progress on each partition."""
    shown: list[RenderableType] = [Text(visible(_heading(group)))]
    if Section.MEMBERS in view.sections:
        is_consumer = group.group_type == CONSUMER
        shown.append(_consumer_members_table(group) if is_consumer else _members_table(group.members))
    if Section.OFFSETS in view.sections:
        shown.append(_progress_table(group, view))
    return Group(*shown, Text())


def description_json(group: GroupDescription, view: View = ALL) -> dict[str, Any]:
    """The description as plain values for JSON, with the lag of each partition."""
    value = asdict(group)
    del value["members"], value["progress"]
    value["member_count"] = len(group.members)
    if Section.MEMBERS in view.sections:
        value["members"] = [_member_json(member) for member in group.members]
    if Section.OFFSETS in view.sections:
        value["progress"] = [asdict(row) | {"lag": row.lag} for row in group.progress]
    if Section.OFFSETS in view.sections and view.time_lags is not None:
        for row in value["progress"]:
            lag = view.time_lags.get(TopicPartition(row["topic"], row["partition"]))
            row["time_lag"] = None if lag is None else asdict(lag)
    return value


def _member_json(member: MemberDescription) -> dict[str, Any]:
    target = None if member.target_partitions is None else _names(member.target_partitions)
    return asdict(member) | {"partitions": _names(member.partitions), "target_partitions": target}


def moves_table(moves: Mapping[str, Iterable[Move]], names_groups: bool) -> Table:
    """One row per partition of a reset, with its group if `names_groups`."""
    table = new_table(*(["group"] if names_groups else []), "topic", "partition", "committed", "new offset")
    for group_id, of_group in moves.items():
        for move in of_group:
            add_row(table, *([id_text(group_id)] if names_groups else []), *move)
    return table


def moves_json(moves: Mapping[str, Iterable[Move]]) -> list[dict[str, Any]]:
    """The rows of `moves_table` as plain values for JSON."""
    return [{"group_id": group_id} | move._asdict() for group_id, each in moves.items() for move in each]


def rows_table(rows: Iterable[OffsetRow]) -> Table:
    """One row per offset of a file."""
    table = new_table("group", "topic", "partition", "offset")
    for row in rows:
        add_row(table, id_text(row.group), row.topic, row.partition, row.offset)
    return table


def planned_deletion_table(group_ids: Iterable[str]) -> Table:
    """One row per group that would be deleted."""
    table = new_table("group")
    for group_id in group_ids:
        add_row(table, id_text(group_id))
    return table


def deletion_table(outcome: Mapping[str, ErrorCode]) -> Table:
    """One row per group that was to be deleted, with its result."""
    table = new_table("group", "outcome")
    for group_id, error in outcome.items():
        add_row(table, id_text(group_id), _outcome("deleted", error))
    return table


def removal_table(members: Iterable[MemberDescription], outcome: Mapping[str, ErrorCode]) -> Table:
    """One row per member that was to be removed, with its result."""
    table = new_table("member", "instance", "client", "host", "outcome")
    for member in members:
        error = outcome[member.member_id]
        add_row(table, *_who(member), _outcome("removed", error))
    return table


def deleted_offsets_table(rows: Iterable[tuple[tuple[str, int | None], ErrorCode]]) -> Table:
    """One row per partition whose offset was to be deleted, with its result."""
    table = new_table("topic", "partition", "outcome")
    for (topic, partition), error in rows:
        add_row(table, topic, partition, _outcome("deleted", error))
    return table


_REFUSALS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "kept: it has members",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "kept: a member is subscribed to the topic",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.UNKNOWN_MEMBER_ID: "there is no such member any more",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "kept: not allowed for this user on this group",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "kept: not allowed for this user on this topic",
}
"""Why something was not done, in words; JSON has the names of the errors."""


def _outcome(done: str, error: ErrorCode) -> str:
    """What became of something that was to be removed."""
    return done if error is ErrorCode.NONE else _REFUSALS.get(error, f"kept: {error.name}")


def _heading(group: GroupDescription) -> str:
    if group.group_type == CONSUMER:
        epochs = f"group epoch {group.group_epoch}, target assignment epoch {group.target_assignment_epoch}"
        kind = f"type {CONSUMER}, assignment strategy {group.protocol or UNKNOWN}, {epochs}"
    else:
        kind = f"protocol {id_text(group.protocol_type) or UNKNOWN}/{id_text(group.protocol) or UNKNOWN}"
    place = f"coordinator {group.coordinator} at {group.coordinator_address}"
    members = counted(len(group.members), "member")
    return f"group {id_text(group.group_id)}: {group.state}, {members}, {kind}, {place}"


def _members_table(members: Iterable[MemberDescription]) -> Table:
    table = new_table("member", "instance", "client", "host", "partitions")
    for member in members:
        add_row(table, *_who(member), " ".join(_names(member.partitions)))
    return table


def _consumer_members_table(group: GroupDescription) -> Table:
    """The members; `upgraded` is shown as Kafka's tool does, where members of both protocols are in the group."""
    names = ["current epoch", "current assignment", "target epoch", "target assignment"]
    is_mixed = {member.upgraded for member in group.members} >= {True, False}
    table = new_table("member", "instance", "client", "host", *names, *(["upgraded"] if is_mixed else ()))
    for member in group.members:
        upgraded = None if member.upgraded is None else str(member.upgraded).lower()
        add_row(
            table,
            *_who(member),
            member.member_epoch,
            " ".join(_names(member.partitions)),
            group.target_assignment_epoch,
            " ".join(_names(member.target_partitions or ())),
            *([upgraded] if is_mixed else ()),
        )
    return table


def _who(member: MemberDescription) -> tuple[str | None, ...]:
    names = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
    return tuple(map(id_text, names))


def _progress_table(group: GroupDescription, view: View) -> Table:
    committed = ["committed", "leader epoch", "metadata"] if view.verbose else ["committed"]
    time_lag = [] if view.time_lags is None else ["time lag"]
    is_alone = Section.MEMBERS not in view.sections  # Else the members' own table has it.
    owner = ["member", "client", "host"] if is_alone else ["member"]
    table = new_table("topic", "partition", *committed, "log end", "lag", *time_lag, *owner)
    for row in group.progress:
        cells: list[object] = [row.topic, row.partition, row.committed_offset]
        cells += [row.leader_epoch, row.metadata] if view.verbose else []
        cells += [row.log_end_offset, row.lag]
        if view.time_lags is not None:
            cells.append(time_lag_text(view.time_lags.get(TopicPartition(row.topic, row.partition))))
        who = (row.member_id, row.client_id, row.client_host)
        add_row(table, *cells, *map(id_text, who if is_alone else who[:1]))
    return table


def time_lag_text(lag: TimeLag | None) -> str | None:
    """A time lag for people."""
    return None if lag is None else f"{'at least ' if lag.at_least else ''}{spoken(lag.lag_ms)}"


def new_table(*columns: str) -> Table:
    """An empty table with these columns and no lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: object) -> None:
    """Add a row of cells: brackets are not markup, and what would move the cursor or turn the text is escaped."""
    table.add_row(*map(_cell, cells))


def _cell(cell: object) -> Text:
    if isinstance(cell, Text):
        return cell
    return Text(UNKNOWN if cell is None or cell == "" else visible(str(cell)))


def _names(partitions: Partitions) -> list[str]:
    return [f"{where.topic}-{where.partition}" for where in partitions]
