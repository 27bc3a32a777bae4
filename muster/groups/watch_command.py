"""`muster groups watch`: a line for each change of groups, on any Kafka.

A Muster sends them over HTTP as they happen (`live_watch`). Others are asked again and again, so a state that is
shorter than the interval is not seen, and it says so.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from cyclopts import Parameter

from muster.connection import Connection
from muster.durations import parse_timeout, spoken
from muster.groups import tables
from muster.groups.live_watch import watch_live
from muster.groups.looking import Looking
from muster.groups.running import run
from muster.groups.selection import Several
from muster.groups.sights import Sight
from muster.groups.wait_command import told
from muster.http_api import NoHttp, find_http
from muster.sentences import remark
from muster.usage import UsageError

DEFAULT_INTERVAL: Final = "2s"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """The options that say how often to look."""

    interval: Annotated[
        str | None, Parameter(help=f"look so often: 500ms, 2s [default: {DEFAULT_INTERVAL}]")
    ] = None
    times: Annotated[int | None, Parameter(help="look so many times, then end; without: until Ctrl-C")] = None

    @property
    def is_given(self) -> bool:
        return self.interval is not None or self.times is not None

    def interval_ms(self) -> int:
        """Raises UsageError."""
        try:
            return parse_timeout(self.interval or DEFAULT_INTERVAL)
        except ValueError as error:
            raise UsageError(f"--interval {error}") from None

    async def rounds(self) -> AsyncIterator[int]:
        """Numbers from 0 on, one each interval."""
        every_s = self.interval_ms() / 1000
        began, number = time.monotonic(), 0
        while self.times is None or number < self.times:
            yield number
            number += 1
            if number != self.times:
                await asyncio.sleep(max(0.0, began + number * every_s - time.monotonic()))

    @property
    def caveat(self) -> str:
        return f"states shorter than {spoken(self.interval_ms())} are not seen"


def watch(
    *group: str,
    several: Several = Several(),
    polling: Polling = Polling(),
    jsonl: Annotated[
        bool, Parameter(name=("--jsonl", "--json"), negative="", help="a JSON line each")
    ] = False,
    connection: Connection = Connection(),
) -> int:
    """Show each change of groups' states and members as it happens, of all groups unless some are said.

    A Muster with HTTP sends them, with the reason of each. Others, and with --interval or --times, are asked again
    and again: states that are shorter than the interval are not seen. A cluster that is gone is waited for.
    """

    async def command() -> int:
        chosen = several if group or several.is_given else Several(all_groups=True)
        chosen.check(group)
        before: dict[str, Sight] = {}
        async with Looking(connection, chosen, group) as looking:
            assert looking.cluster is not None, "it is connected"
            api = None if polling.is_given else await find_http(looking.cluster)
            if api is not None:
                with suppress(NoHttp):  # It is not there for us: then it is asked as any other.
                    await watch_live(api, chosen, group, jsonl=jsonl)
            remark(polling.caveat)
            async for _ in polling.rounds():
                now = await looking.look(before)
                if now is None:
                    continue
                for group_id, sight in now.items():
                    former = before.get(group_id)
                    if former is None or former.changes != sight.changes:
                        _show(former, sight, jsonl)
                before = now
        return 0

    return run(command(), jsonl)


def _show(before: Sight | None, now: Sight, jsonl: bool) -> None:
    if jsonl:
        value: dict[str, Any] = {"before": None if before is None else asdict(before), "now": asdict(now)}
        print(json.dumps({"group_id": now.group_id, **value}, ensure_ascii=False), flush=True)
        return
    at = datetime.fromtimestamp(now.at_ms / 1000).strftime("%H:%M:%S")
    tables.show_line(f"{at} {tables.id_text(now.group_id)}: {change(before, now)}")


def change(before: Sight | None, now: Sight) -> str:
    """A change in words: "Stable -> Empty, 0 members, lag 4; app-1 left"."""
    former = f"{before.state} -> " if before is not None and before.state != now.state else ""
    parts = [f"{former}{told(now)}"]
    if before is not None:
        came = sorted(client for client, _ in set(now.members) - set(before.members))
        gone = sorted(client for client, _ in set(before.members) - set(now.members))
        parts += [f"{', '.join(came)} came"] if came else []
        parts += [f"{', '.join(gone)} left"] if gone else []
        if not came and not gone and before.group_epoch != now.group_epoch:
            parts.append(f"group epoch {now.group_epoch}")
    return "; ".join(parts)
