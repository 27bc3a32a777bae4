"""Formats groups as tables for people and as JSON for programs. It sends no requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.groups.admin import GroupListing, Move
from muster.groups.descriptions import CONSUMER, GroupDescription, MemberDescription, Partitions
from muster.sentences import counted
from protocol.errors import ErrorCode

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


def list_table(groups: Iterable[GroupListing]) -> Table:
    """One row per group."""
    table = new_table("group", "state", "protocol type", "type", "coordinator")
    for group in groups:
        add_row(table, group.group_id, group.state, group.protocol_type, group.group_type, group.coordinator)
    return table


def list_json(groups: Iterable[GroupListing]) -> list[dict[str, Any]]:
    """The rows of `list_table` as plain values for JSON."""
    return [asdict(group) for group in groups]


def description(group: GroupDescription) -> Group:
    """A heading, a table of the members, and a table of the progress on each partition."""
    members = (
        _consumer_members_table(group) if group.group_type == CONSUMER else _members_table(group.members)
    )
    return Group(Text(_heading(group)), members, _progress_table(group), Text())


def description_json(group: GroupDescription) -> dict[str, Any]:
    """The description as plain values for JSON, with the lag of each partition."""
    value = asdict(group)
    value["members"] = [
        asdict(member)
        | {
            "partitions": _names(member.partitions),
            "target_partitions": None
            if member.target_partitions is None
            else _names(member.target_partitions),
        }
        for member in group.members
    ]
    value["progress"] = [asdict(row) | {"lag": row.lag} for row in group.progress]
    return value


def moves_table(moves: Iterable[Move]) -> Table:
    """One row per partition of a reset."""
    table = new_table("topic", "partition", "committed", "new offset")
    for move in moves:
        add_row(table, move.topic, move.partition, move.from_offset, move.to_offset)
    return table


def moves_json(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """The rows of `moves_table` as plain values for JSON."""
    return [asdict(move) for move in moves]


def deletion_table(outcome: Mapping[str, ErrorCode]) -> Table:
    """One row per group that was to be deleted, with its result."""
    table = new_table("group", "outcome")
    for group_id, error in outcome.items():
        add_row(table, group_id, "deleted" if error is ErrorCode.NONE else f"kept: {error.name}")
    return table


def _heading(group: GroupDescription) -> str:
    if group.group_type == CONSUMER:
        epochs = f"group epoch {group.group_epoch}, target assignment epoch {group.target_assignment_epoch}"
        kind = f"type {CONSUMER}, assignment strategy {group.protocol or UNKNOWN}, {epochs}"
    else:
        kind = f"protocol {group.protocol_type or UNKNOWN}/{group.protocol or UNKNOWN}"
    place = f"coordinator {group.coordinator} at {group.coordinator_address}"
    return f"group {group.group_id}: {group.state}, {counted(len(group.members), 'member')}, {kind}, {place}"


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
    return member.member_id, member.group_instance_id, member.client_id, member.client_host


def _progress_table(group: GroupDescription) -> Table:
    table = new_table("topic", "partition", "committed", "log end", "lag", "member")
    for row in group.progress:
        add_row(
            table, row.topic, row.partition, row.committed_offset, row.log_end_offset, row.lag, row.member_id
        )
    return table


def new_table(*columns: str) -> Table:
    """An empty table with these columns and no lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *cells: object) -> None:
    """Add a row of cells, shown as they are: brackets in a group id are not markup."""
    table.add_row(*(Text(UNKNOWN if cell is None or cell == "" else str(cell)) for cell in cells))


def _names(partitions: Partitions) -> list[str]:
    return [f"{where.topic}-{where.partition}" for where in partitions]
