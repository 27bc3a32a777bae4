"""`muster top`: the groups of a cluster, live, those with most to read first; on any Kafka.

On a terminal the table is drawn again and again, and keys change it; elsewhere each round is a table of its own,
one unless more are asked for. It asks again and again, so a state that is shorter than the interval is not seen.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from muster.cluster import ClusterError
from muster.connection import Connection
from muster.groups import tables
from muster.groups.descriptions import describe_group
from muster.groups.live_figures import NOT_KNOWN, LiveFigures, live_figures
from muster.groups.looking import Looking
from muster.groups.running import AsJson, run
from muster.groups.selection import Several
from muster.groups.sights import Sight
from muster.groups.watch_command import Polling
from muster.groups.why.words import span
from muster.http_api import HttpApi, find_http
from muster.sentences import remark, visible

ROWS_MAX: Final = 500
"""Groups that are shown: those beyond are no table that anybody reads."""
HEADING_LINES: Final = 3
"""The line of what is shown, that of the keys, and the heading of the table."""
KEYS: Final = "s sort  / search  enter describe  up, down choose  q quit"


class Order(Enum):
    """What the rows are sorted by; the keys of each are in `ORDERS`."""

    LAG = "lag"
    GROWTH = "lag per second"
    MEMBERS = "members"
    STATE = "state"
    GROUP = "group"
    LOST = "time lost"
    MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class Row:
    """A group in the table; `growth` is how fast its lag changes, in records a second, once that is known."""

    sight: Sight
    growth: float | None
    figures: LiveFigures = NOT_KNOWN


ORDERS: Final[dict[Order, Callable[[Row], Any]]] = {
    Order.LAG: lambda row: (-row.sight.lag, row.sight.group_id),
    Order.GROWTH: lambda row: (-(row.growth or 0.0), row.sight.group_id),
    Order.MEMBERS: lambda row: (-len(row.sight.members), row.sight.group_id),
    Order.STATE: lambda row: (row.sight.state, row.sight.group_id),
    Order.GROUP: lambda row: row.sight.group_id,
    Order.LOST: lambda row: (-(row.figures.lost_ms or 0), row.sight.group_id),
    Order.MARGIN: lambda row: (2.0 if row.figures.margin is None else row.figures.margin, row.sight.group_id),
}


def rows_of(
    before: dict[str, Sight], now: dict[str, Sight], figures: Mapping[str, LiveFigures] = MappingProxyType({})
) -> list[Row]:
    """The rows of a round, with what has changed since the round before."""
    return [
        Row(sight, _growth(before.get(group_id), sight), figures.get(group_id, NOT_KNOWN))
        for group_id, sight in now.items()
    ]


def _growth(before: Sight | None, now: Sight) -> float | None:
    if before is None or now.at_ms <= before.at_ms or before.partitions != now.partitions:
        return None
    return (now.lag - before.lag) * 1000 / (now.at_ms - before.at_ms)


@dataclass(frozen=True, slots=True)
class Screen:
    """What a user has chosen by keys so far. `typed` is a search that is being typed, None if none is."""

    order: Order = Order.LAG
    search: str = ""
    typed: str | None = None
    chosen: int = 0
    is_described: bool = False
    is_over: bool = False

    def after(self, key: str) -> Screen:
        """The screen after a key; keys that mean nothing change nothing."""
        if self.typed is not None:
            return self._typing(key)
        match key:
            case "q" | "\x03" | "\x04":
                return replace(self, is_over=not self.is_described or key != "q", is_described=False)
            case "s":
                orders = list(Order)
                return replace(self, order=orders[(orders.index(self.order) + 1) % len(orders)])
            case "/":
                return replace(self, typed="")
            case "\r" | "\n":
                return replace(self, is_described=not self.is_described)
            case "\x1b[A" | "k":
                return replace(self, chosen=max(0, self.chosen - 1))
            case "\x1b[B" | "j":
                return replace(self, chosen=self.chosen + 1)
            case _:
                return self

    def _typing(self, key: str) -> Screen:
        assert self.typed is not None
        match key:
            case "\r" | "\n":
                return replace(self, search=self.typed, typed=None, chosen=0)
            case "\x1b" | "\x03":
                return replace(self, typed=None)
            case "\x7f" | "\b":
                return replace(self, typed=self.typed[:-1])
            case _:
                return replace(self, typed=self.typed + key) if key.isprintable() else self

    def shown(self, rows: list[Row]) -> list[Row]:
        """The rows that are searched for, in order."""
        found = [row for row in rows if self.search in row.sight.group_id]
        return sorted(found, key=ORDERS[self.order])[:ROWS_MAX]


def top(
    *group: str,
    several: Several = Several(),
    polling: Polling = Polling(),
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Show groups live, by lag, all unless some are said: s sorts otherwise, / searches, enter describes, q ends.

    It asks again and again: states that are shorter than --interval are not seen. Without a terminal one table
    is printed, or as many as --times says.
    """

    async def command() -> int:
        chosen = several if group or several.is_given else Several(all_groups=True)
        chosen.check(group)
        is_live = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
        rounds = polling if is_live or polling.times is not None else replace(polling, times=1)
        if is_live:
            await _Live(connection, chosen, group, rounds).run()
            return 0
        before: dict[str, Sight] = {}
        async with Looking(connection, chosen, group) as looking:
            api = await _http_of(looking)
            async for _ in rounds.rounds():
                now = await looking.look(before)
                if now is None:
                    continue
                rows = Screen().shown(rows_of(before, now, await live_figures(api)))
                if as_json:
                    tables.show_json(list(map(_json, rows)))
                else:
                    tables.show(table(rows))
                before = now
        remark(polling.caveat)
        return 0

    return run(command(), as_json)


async def _http_of(looking: Looking) -> HttpApi | None:
    assert looking.cluster is not None, "it is connected"
    return await find_http(looking.cluster)


def _json(row: Row) -> dict[str, Any]:
    return asdict(row.sight) | {"lag_per_s": row.growth} | asdict(row.figures)


def table(rows: list[Row], chosen: int | None = None) -> Table:
    """The rows as a table, the chosen one marked; with the figures that only a Muster has, where there are any."""
    has_figures = any(row.figures is not NOT_KNOWN for row in rows)
    is_beyond = any(row.sight.beyond_end for row in rows)
    more = [*(["beyond end"] if is_beyond else []), *(["time lost", "margin"] if has_figures else [])]
    made = tables.new_table("", "group", "state", "members", "partitions", "lag", "lag/s", "unknown", *more)
    for number, row in enumerate(rows):
        sight = row.sight
        growth = None if row.growth is None else f"{row.growth:+,.1f}"
        mark = ">" if number == chosen else " "
        figures = (len(sight.members), sight.partitions, f"{sight.lag:,}", growth, sight.unmeasured)
        lost_ms, margin = row.figures.lost_ms, row.figures.margin
        lost = None if lost_ms is None else span(lost_ms)
        own: tuple[object, ...] = (sight.beyond_end,) if is_beyond else ()
        own += (lost, None if margin is None else f"{margin:.0%}") if has_figures else ()
        group_id = _line(tables.id_text(sight.group_id) or "")  # One row stays one line, so that it scrolls.
        tables.add_row(made, mark, group_id, sight.state, *figures, *own)
    return made


class _Live:
    """The table on a terminal: one task looks at the groups, keys come in between."""

    def __init__(
        self, connection: Connection, chosen: Several, named: tuple[str, ...], polling: Polling
    ) -> None:
        self._looking = Looking(connection, chosen, named, lambda _: None)  # The heading has it.
        self._polling = polling
        self._rows: list[Row] = []
        self._screen = Screen()
        self._detail: Any = None
        self._keyed = asyncio.Event()

    async def run(self) -> None:
        async with self._looking:
            await self._run()

    async def _run(self) -> None:
        api = await _http_of(self._looking)
        with Live(screen=True, auto_refresh=False) as live, _keys_as_typed() as read_keys:
            loop = asyncio.get_running_loop()
            loop.add_reader(sys.stdin, lambda: self._on_keys(read_keys()))
            looking = asyncio.ensure_future(self._look(api))
            try:
                while not self._screen.is_over and not looking.done():
                    self._keyed.clear()
                    await self._describe()
                    live.update(self._drawn(live.console.height), refresh=True)
                    waiting = asyncio.ensure_future(self._keyed.wait())
                    await asyncio.wait([waiting, looking], return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
            finally:
                loop.remove_reader(sys.stdin)
                looking.cancel()
            if looking.done() and not looking.cancelled():
                looking.result()  # Raises what has ended it.

    async def _look(self, api: HttpApi | None) -> None:
        before: dict[str, Sight] = {}
        async for _ in self._polling.rounds():
            now = await self._looking.look(before)
            if now is not None:
                self._rows, before = rows_of(before, now, await live_figures(api)), now
            self._keyed.set()

    def _on_keys(self, typed: str) -> None:
        for key in keys_in(typed):
            self._screen = self._screen.after(key)
        self._keyed.set()

    async def _describe(self) -> None:
        rows = self._screen.shown(self._rows)
        self._screen = replace(self._screen, chosen=min(self._screen.chosen, max(0, len(rows) - 1)))
        if not self._screen.is_described or not rows:
            self._detail = None
            return
        group_id = rows[self._screen.chosen].sight.group_id
        cluster = self._looking.cluster
        if cluster is None:
            return  # What was described last stays; the heading says that nobody answers.
        try:
            self._detail = tables.description(await describe_group(cluster, group_id))
        except ClusterError as error:  # It is gone, or the cluster is.
            self._detail = Text(visible(str(error)))

    def _drawn(self, height: int) -> Group:
        screen = self._screen
        typed = f"/{screen.typed}" if screen.typed is not None else KEYS
        searched = f", with {screen.search!r}" if screen.search else ""
        caveat = self._polling.caveat if self._looking.problem is None else "the cluster does not answer"
        head = f"{len(self._rows)} groups by {screen.order.value}{searched}; {caveat}"
        body = self._detail or table(
            *scrolled(screen.shown(self._rows), screen.chosen, height - HEADING_LINES)
        )
        return Group(_line(head), _line(typed, "dim"), body)


def _line(text: str, style: str = "") -> Text:
    """A line that stays one however narrow the terminal is."""
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def scrolled(rows: list[Row], chosen: int, height: int) -> tuple[list[Row], int]:
    """As many of the rows as the terminal has lines for, the chosen one among them, and its place in these."""
    first = max(0, chosen - max(1, height) + 1)
    return rows[first : first + max(1, height)], chosen - first


def keys_in(typed: str) -> list[str]:
    """The keys of what a terminal gave at once: characters, and sequences as of arrows."""
    return re.findall(r"\x1b\[[A-Z]|.", typed, re.DOTALL)


@contextmanager
def _keys_as_typed() -> Iterator[Callable[[], str]]:
    """Let the terminal give keys as they are typed; what is yielded reads them."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda: os.read(descriptor, 64).decode(errors="replace")
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
