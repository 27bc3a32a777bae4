"""Formats a group's history: tables of rebalances or events for people, the topic's fields for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from rich.table import Table

from coordinator.effects import GroupEvent
from coordinator.history.events import encode_event
from coordinator.history.rebalances import (
    ASSIGNING,
    FIRST_PHASES,
    JOINING,
    LAST_PHASES,
    RECONCILING,
    SYNCING,
    Rebalance,
)
from muster.groups.history import GroupHistory
from muster.groups.rebalance_views import Phases, RebalanceView
from muster.groups.tables import UNKNOWN, add_row, new_table
from muster.sentences import shown_id

PHASE_WORDS: Final = {
    JOINING: "joining",
    SYNCING: "syncing",
    ASSIGNING: "assigning",
    RECONCILING: "reconciling",
}
NO_REBALANCE: Final = "no rebalance"


def rebalance_table(views: Iterable[RebalanceView]) -> Table:
    """One row per rebalance, and per event outside of one, oldest first; times are in the local zone.

    A classic group joins and syncs, a consumer group is assigning and reconciling: the cells say which it was.
    """
    table = new_table(
        "time",
        "cause",
        "member",
        "client",
        "outcome",
        "generation",
        "members",
        "first phase",
        "second phase",
        "waited for",
    )
    for view in views:
        rebalance = view.rebalance
        add_row(
            table,
            local_time(view.first.wall_ms if rebalance is None else rebalance.started_at),
            "; then ".join(view.causes) or None,
            *_member_and_client(view),
            _outcome(view),
            *_figures_of(view),
            None if rebalance is None else _last_arrival(rebalance),
        )
    return table


def event_table(events: Iterable[GroupEvent]) -> Table:
    """One row per event, oldest first."""
    table = new_table("time", "state", "generation", "cause", "member", "client", "members", "took", "last")
    for event in events:
        add_row(
            table,
            local_time(event.wall_ms),
            _transition(event),
            event.generation_id if event.group_id else None,
            event.reason,
            _member(event.group_instance_id, event.member_id),
            _client(event.client_id, event.client_host),
            event.member_count if event.group_id else None,
            ", ".join(f"{phase} {took_ms:,} ms" for phase, took_ms in event.phase_ms.items()),
            _last_arrival(event),
        )
    return table


def history_json(events: Iterable[GroupEvent]) -> list[dict[str, Any]]:
    """The events as plain values for JSON, as they are on the topic."""
    return [json.loads(encode_event(event)[1]) for event in events]


def remarks(group_id: str, history: GroupHistory) -> Iterator[str]:
    """Sentences for the reader about events that are missing from the output, and why."""
    if history.unreadable:
        yield f"{history.unreadable:,} records could not be read as events"
    if history.older:
        shown = len(history.events) + history.unreadable
        yield f"only the newest {shown:,} of {shown + history.older:,} events are shown: see --newest"
    if dropped := sum(event.dropped_count for event in history.events):
        yield f"{dropped:,} events, of this or other groups, were dropped where the history says so"
    if not history.has_events:
        yield f"there are no events of group {shown_id(group_id)}"


def local_time(wall_ms: int) -> str:
    """The date and time to the millisecond, in the local time zone."""
    return datetime.fromtimestamp(wall_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _figures_of(view: RebalanceView) -> tuple[object, ...]:
    """The table's cells for generation, members, join and sync time; None where one has no meaning."""
    last, rebalance = view.last, view.rebalance
    if not last.group_id:
        return (None, None, None, None)
    if rebalance is None:
        return (last.generation_id, last.member_count, None, None)
    shown = (_time_in(view, phases) for phases in (FIRST_PHASES, LAST_PHASES))
    return (rebalance.generation_id, rebalance.member_count, *shown)


def _time_in(view: RebalanceView, phases: Phases) -> str | None:
    """The time in these phases, with the name of the one that it was; without, if the group changed its kind."""
    spent_ms, only = view.spent_ms(phases), view.only_phase(phases)
    if spent_ms is None:
        return None
    return f"{spent_ms:,} ms" if only is None else f"{PHASE_WORDS[only]} {spent_ms:,} ms"


def _outcome(view: RebalanceView) -> str:
    """The state that it ended in; of one event outside of rebalances also that it is none."""
    if view.rebalance is None:
        return f"{view.last.to_state}, {NO_REBALANCE}" if view.last.group_id else ""
    return view.rebalance.outcome if view.is_over else f"{view.rebalance.outcome}, not over"


def _member_and_client(view: RebalanceView) -> tuple[str | None, str | None]:
    """The member that caused the view's first event, and its client; None if a rebalance's begin is missing."""
    if view.is_rebalance and not view.has_begin:
        return (None, None)
    first = view.first
    return (_member(first.group_instance_id, first.member_id), _client(first.client_id, first.client_host))


def _transition(event: GroupEvent) -> str:
    is_step = event.from_state != event.to_state
    return f"{event.from_state} -> {event.to_state}" if is_step else event.to_state


def _last_arrival(of: GroupEvent | Rebalance) -> str | None:
    """Who was waited for, with its client, for how long, and to give up what; None if not known."""
    who = _member(of.last_group_instance_id, of.last_member_id)
    if of.last_member_id is None or who is None:
        return None
    client = _client(of.last_client_id, of.last_client_host)
    after = "" if of.last_arrival_ms is None else f" after {of.last_arrival_ms:,} ms"
    more = of.last_given_up_count - len(of.last_given_up)
    given_up = ", ".join((*of.last_given_up, *((f"{more:,} more",) if more > 0 else ())))
    return who + (f" {client}" if client else "") + after + (f": {given_up}" if given_up else "")


def _member(group_instance_id: str | None, member_id: str | None) -> str | None:
    return group_instance_id or member_id


def _client(client_id: str | None, client_host: str | None) -> str | None:
    if client_id is None:
        return client_host
    return f"{client_id}@{(client_host or UNKNOWN).lstrip('/')}"
