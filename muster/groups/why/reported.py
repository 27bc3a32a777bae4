"""What a member's own client said of itself (KIP-714), as evidence: `client_metrics` of its departure's event.

A sentence names the metric and how old its figure was. Only the client knows how long its poll loop took.
"""

from __future__ import annotations

from typing import Final

from muster.groups.why.cases import Case
from muster.groups.why.words import span

PREFIX: Final = "org.apache.kafka.consumer."
AGE: Final = "age_ms"
LAST_POLL: Final = "last_poll_ago_ms"
BETWEEN_POLLS: Final = "time_between_poll_max_ms"
LAST_HEARTBEAT: Final = "last_heartbeat_ago_ms"
REBALANCE_MAX: Final = "rebalance_latency_max_ms"

METRICS: Final = {
    LAST_POLL: "last.poll.seconds.ago",
    BETWEEN_POLLS: "time.between.poll.max",
    LAST_HEARTBEAT: "coordinator.last.heartbeat.seconds.ago",
    REBALANCE_MAX: "coordinator.rebalance.latency.max",
}
"""The metric that each figure is of, behind PREFIX."""

SECOND_MS: Final = 1_000
"""Java's client counts whole seconds since its last poll, and drops the rest."""


def polls(case: Case) -> str | None:
    """How long ago the client polled, and how long it took between polls."""
    return _sentence(
        case, {LAST_POLL: "{} since its last poll()", BETWEEN_POLLS: "at most {} between two polls"}
    )


def heartbeats(case: Case) -> str | None:
    """How long ago the client had sent a heartbeat, by its own clock, and how it polled."""
    words = {LAST_HEARTBEAT: "{} since its last heartbeat", LAST_POLL: "{} since its last poll()"}
    return _sentence(case, words)


def rebalances(case: Case) -> str | None:
    """How it polled, and how long its rebalances take."""
    words = {LAST_POLL: "{} since its last poll()", REBALANCE_MAX: "at most {} for a rebalance"}
    return _sentence(case, words)


def polled_too_slowly(case: Case) -> bool:
    """Whether max.poll.interval.ms is over since the last poll that the client reported.

    It may have polled since it reported: then it did not leave for that.
    """
    said, limit_ms = case.event.client_metrics or {}, case.event.rebalance_timeout_ms
    if limit_ms is None or LAST_POLL not in said:
        return False
    return said[LAST_POLL] + said.get(AGE, 0) + SECOND_MS > limit_ms


def _sentence(case: Case, words: dict[str, str]) -> str | None:
    said = case.event.client_metrics or {}
    parts = [
        f"{text.format(span(said[figure]))} ({PREFIX}{METRICS[figure]})"
        for figure, text in words.items()
        if figure in said
    ]
    if not parts:
        return None
    return f"Its client itself had reported {span(said.get(AGE, 0))} before: {', '.join(parts)}."
