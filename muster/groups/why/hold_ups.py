"""Advice about a member that holds a rebalance up: what its poll loop has to do with it.

A member joins again as it polls, and until then the others wait for it. While they do, its coordinator says that
it heartbeats and does not poll; afterwards the history shows who came last, and after how long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from coordinator.history.rebalances import Rebalance
from muster.groups.why.cases import Case
from muster.groups.why.kinds import ARRIVALS
from muster.groups.why.waiting import Waiting
from muster.groups.why.words import names, span

LATE_MS: Final = 5_000
"""A member that polls joins again sooner: it hears of a rebalance by its next heartbeat, 3 s by default."""

LATE_SHARE: Final = 0.5
"""So large a part of the join phase was over when one came that the others waited for."""


def while_it_waits(waiting: Waiting | None) -> Iterator[str]:
    """What to do about members that heartbeat and do not poll."""
    busy = [] if waiting is None else [each.member for each in waiting.missing if each.poll_interval_ms]
    if busy:
        yield (
            f"fewer records per poll on {names(busy)} (max.poll.records), or a longer max.poll.interval.ms there; "
            "a shorter one lets the others go on sooner"
        )


def once_it_is_over(rebalance: Rebalance, case: Case) -> Iterator[str]:
    """What to do about a member for whose JoinGroup the others waited for long, unless it was new."""
    late_ms, join_ms = rebalance.last_arrival_ms, rebalance.join_ms
    if case.is_of_consumer_group or late_ms is None or not join_ms:
        return
    new = {event.member_id for event in (case.event, *case.rest) if event.cause in ARRIVALS}
    if late_ms > LATE_MS and late_ms >= join_ms * LATE_SHARE and rebalance.last_member_id not in new:
        last = case.namesakes.last_of(rebalance)
        yield (
            f"see how long {last} takes between two polls, for a member joins again as it polls, and the others "
            f"waited {span(late_ms)} for it: fewer records per poll there (max.poll.records) make that shorter"
        )
