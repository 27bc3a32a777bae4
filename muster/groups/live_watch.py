"""`muster groups watch` on a Muster with HTTP: each event of the history as it happens, so no state is too short.

The stream is gone on with after a restart of the daemon, from where it was. It shows what changed and why; the lag
is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from muster.groups import tables
from muster.groups.selection import Several, matcher
from muster.groups.why.words import member_name, name
from muster.http_api import HttpApi, StreamedEvent
from muster.sentences import remark

_NAMING: Final = ("group_instance_id", "client_id", "client_host", "member_id")
GONE_ON: Final = "the daemon is gone; what happens meanwhile is shown when it is back"


async def watch_live(api: HttpApi, chosen: Several, named: tuple[str, ...], *, jsonl: bool) -> None:
    """Show the events of the chosen groups until it is interrupted. Raises NoHttp if there is no stream."""
    is_wanted = _wanted(chosen, named)
    query = {"group": named[0]} if len(named) == 1 else {}
    async for event in api.events(**query):
        if event is None:
            remark(GONE_ON)
        elif event.kind != "group" or is_wanted(str(event.data.get("group_id"))):
            _show(event, jsonl=jsonl)


def _wanted(chosen: Several, named: tuple[str, ...]) -> Callable[[str], bool]:
    if named:
        return set(named).__contains__
    return matcher(chosen.match) if chosen.match is not None else lambda group_id: True


def _show(event: StreamedEvent, *, jsonl: bool) -> None:
    if jsonl:
        value = {"group_id": event.data.get("group_id"), "kind": event.kind, "offset": event.offset}
        print(json.dumps({**value, "event": event.data}, ensure_ascii=False), flush=True)
    elif (line := line_of(event)) is not None:
        tables.show_line(line)


def line_of(event: StreamedEvent) -> str | None:
    """An event in a line: "14:02:11 billing: Stable -> PreparingRebalance, generation 7: member left (app-3)"."""
    data = event.data
    if event.kind == "gap":
        return _gap(data)
    if event.kind == "dropped":
        return f"{data.get('dropped_count')} events, of these or other groups, were dropped"
    states = [str(data.get(each)) for each in ("from_state", "to_state")]
    change = " -> ".join(dict.fromkeys(states))
    who = member_name(
        *(data.get(each) for each in ("group_instance_id", "client_id", "client_host", "member_id"))
    )
    by = f" ({who})" if data.get("client_id") or data.get("member_id") else ""
    at = datetime.fromtimestamp(int(data.get("wall_ms", 0)) / 1000).strftime("%H:%M:%S")
    group = tables.id_text(str(data.get("group_id")))
    return f"{at} {group}: {change}, generation {data.get('generation_id')}: {_reason(data)}{by}"


def _reason(data: dict[str, Any]) -> str:
    return name(str(data.get("reason") or data.get("cause")))


def _gap(data: dict[str, Any]) -> str | None:
    if data.get("why") == "slow":
        return None  # What follows is late, and all of it comes.
    return f"events {data.get('from')} to {data.get('to')} are not there any more"
