"""Shows groups to people, as tables, and to programs, as JSON. It asks nobody anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coordinator.groups.effects import GroupEvent
from muster.group_admin import GroupDescription, ListedGroup, Member, Move, TopicPartition
from protocol.errors import ErrorCode

_UNKNOWN: Final = "-"


def show(renderable: RenderableType) -> None:
    """Print to standard output. Into a pipe nothing is wrapped or cut: one row stays one line."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(renderable, highlight=False)


def show_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def list_table(groups: Iterable[ListedGroup]) -> Table:
    """One row per group."""
    table = _table("group", "state", "protocol type", "type", "coordinator")
    for group in groups:
        _row(table, group.group_id, group.state, group.protocol_type, group.group_type, group.coordinator)
    return table


def list_json(groups: Iterable[ListedGroup]) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [asdict(group) for group in groups]


def description(group: GroupDescription) -> Group:
    """A heading, the members, and the progress on each partition."""
    return Group(Text(_heading(group)), _members_table(group.members), _progress_table(group), Text())


def description_json(group: GroupDescription) -> dict[str, Any]:
    """The same as plain values, with the lag of each partition."""
    value = asdict(group)
    value["members"] = [
        asdict(member) | {"partitions": [_where(where) for where in member.partitions]}
        for member in group.members
    ]
    value["progress"] = [asdict(row) | {"lag": row.lag} for row in group.progress]
    return value


def moves_table(moves: Iterable[Move]) -> Table:
    """One row per partition of a reset."""
    table = _table("topic", "partition", "committed", "new offset")
    for move in moves:
        _row(table, move.topic, move.partition, move.from_offset, move.to_offset)
    return table


def moves_json(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [asdict(move) for move in moves]


def deletion_table(outcome: Mapping[str, ErrorCode]) -> Table:
    """One row per group that was to go."""
    table = _table("group", "outcome")
    for group_id, error in outcome.items():
        _row(table, group_id, "deleted" if error is ErrorCode.NONE else f"kept: {error.name}")
    return table


def history_table(events: Iterable[GroupEvent]) -> Table:
    """One row per event, oldest first; times are of the reader's own zone."""
    table = _table("time", "transition", "generation", "cause", "member", "client", "members", "took", "last")
    for event in events:
        _row(
            table,
            local_time(event.wall_ms),
            f"{event.from_state} -> {event.to_state}",
            event.generation_id,
            event.reason,
            event.group_instance_id or event.member_id,
            _client(event),
            event.member_count,
            _phases(event.phase_ms),
            event.last_member_id,
        )
    return table


def history_json(events: Iterable[GroupEvent]) -> list[dict[str, Any]]:
    """The same as plain values, under the names that the topic uses."""
    return [asdict(event) for event in events]


def local_time(wall_ms: int) -> str:
    """A time of day to the millisecond, in the reader's zone."""
    return datetime.fromtimestamp(wall_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _heading(group: GroupDescription) -> str:
    protocol = f"{group.protocol_type or _UNKNOWN}/{group.protocol or _UNKNOWN}"
    place = f"coordinator {group.coordinator} at {group.coordinator_address}"
    return (
        f"group {group.group_id}: {group.state}, {len(group.members)} members, protocol {protocol}, {place}"
    )


def _members_table(members: Iterable[Member]) -> Table:
    table = _table("member", "instance", "client", "host", "partitions")
    for member in members:
        partitions = " ".join(_where(where) for where in member.partitions)
        _row(
            table,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            partitions,
        )
    return table


def _progress_table(group: GroupDescription) -> Table:
    table = _table("topic", "partition", "committed", "log end", "lag", "member")
    for row in group.progress:
        _row(
            table, row.topic, row.partition, row.committed_offset, row.log_end_offset, row.lag, row.member_id
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Table, *cells: object) -> None:
    """Cells are shown as they are: a group id in brackets is no markup."""
    table.add_row(*(Text(_UNKNOWN if cell is None or cell == "" else str(cell)) for cell in cells))


def _where(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"


def _client(event: GroupEvent) -> str | None:
    if event.client_id is None:
        return event.client_host
    return f"{event.client_id}@{(event.client_host or _UNKNOWN).lstrip('/')}"


def _phases(phase_ms: Mapping[str, int]) -> str:
    return ", ".join(f"{phase} {took_ms} ms" for phase, took_ms in phase_ms.items())
