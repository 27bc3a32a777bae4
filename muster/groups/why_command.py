"""`muster groups why`: what users type."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from muster.connection import Connection
from muster.groups import tables
from muster.groups.history import MAX_EVENTS
from muster.groups.running import AsJson, run
from muster.groups.why import tables as why_tables
from muster.groups.why.answers import Question
from muster.groups.why.asking import Answered, ask, ask_store
from muster.groups.why.moments import parse_moment
from muster.sentences import remark
from muster.usage import UsageError

NEWEST_EVENTS = 1_000
"""The default of --newest: the events of some hundred rebalances."""


def why(
    group: str,
    *,
    at: Annotated[
        str | None, Parameter(help="the rebalance at this time (HH:MM:SS or ISO 8601; local without a zone)")
    ] = None,
    newest: Annotated[int, Parameter(help=f"look at so many events, up to {MAX_EVENTS:,}")] = NEWEST_EVENTS,
    store: Annotated[
        Path | None, Parameter(help="read what `muster observe` keeps in DIR; no cluster is asked")
    ] = None,
    connection: Connection = Connection(),
    as_json: AsJson = False,
) -> int:
    """Say why a group rebalanced last, or why it does now: the cause with its evidence, and what to do.

    While it rebalances also who is waited for; that needs no history, so it works on any cluster.
    """

    async def answered(question: Question) -> Answered:
        if store is not None:
            return ask_store(store, question, newest)
        async with connection.connected() as cluster:
            return await ask(cluster, question, newest)

    async def command() -> int:
        if not 1 <= newest <= MAX_EVENTS:
            raise UsageError(f"--newest {newest} must be from 1 to {MAX_EVENTS}")
        connection.refuse_beside_a_store(store)
        now_ms = time.time_ns() // 1_000_000
        question = Question(group, None if at is None else _timestamp(at, now_ms), now_ms)
        found = await answered(question)
        for sentence in found.remarks:
            remark(sentence)
        if as_json:
            tables.show_json(why_tables.answer_json(found.answer))
        else:
            tables.show(Text("\n".join(why_tables.lines(found.answer))))
        return 0

    return run(command(), as_json)


def _timestamp(text: str, now_ms: int) -> int:
    try:
        return parse_moment(text, now_ms)
    except (ValueError, OverflowError):
        example = "14:02:11 or 2026-01-31T12:00:00Z"
        raise UsageError(f"--at {text} must be a time of day or an ISO 8601 time, as in {example}") from None
