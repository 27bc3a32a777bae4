"""Events of a group for the tests of `why`: made by hand, so that each has just what a rule asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind

K = CauseKind
NOON_MS: Final = 1_700_049_600_000
MINUTE_MS: Final = 60_000
STABLE, PREPARING, COMPLETING = "Stable", "PreparingRebalance", "CompletingRebalance"
POLL_TIMEOUT, CLOSED = "consumer poll timeout has expired.", "the consumer is being closed"
WITHIN: Final = (PREPARING, PREPARING)
LATE: Final[dict[str, Any]] = {"session_timeout_ms": 45_000, "session_left_ms": 42_000}


def event(kind: CauseKind, client: str = "app-3", said: str | None = None, **more: Any) -> GroupEvent:
    """An event of a classic group that begins a rebalance, behind which `client` is."""
    about: dict[str, Any] = {
        "member_id": f"{client}-91d2",
        "client_id": client,
        "client_host": "/10.0.0.9",
        "client_reason": said,
        "cause": kind.slug,
        "reason": ": ".join(filter(None, (kind.text, more.pop("detail", None), said))),
        "wall_ms": NOON_MS,
        "rebalance_timeout_ms": 300_000,
    }
    states = more.pop("states", (STABLE, PREPARING))
    return GroupEvent("billing", 7, *states, **{**about, **more})


def before(minutes: float, each: GroupEvent) -> GroupEvent:
    return replace(each, wall_ms=NOON_MS - round(minutes * MINUTE_MS))


def gone(kind: CauseKind, *others: str, said: str | None = None, **more: Any) -> GroupEvent:
    """A member that is removed, and others with it."""
    removed = ("app-3-91d2", *others)
    fields: dict[str, Any] = {"removed_count": len(removed), "removed_member_ids": removed, **LATE}
    return event(kind, said=said, **{**fields, **more})


def joined(client: str = "app-3", **more: Any) -> GroupEvent:
    return event(K.MEMBER_JOINED, client, **more)


def static(kind: CauseKind, **more: Any) -> GroupEvent:
    return event(kind, group_instance_id="i-3", **more)


def nobody(kind: CauseKind, **more: Any) -> GroupEvent:
    """An event behind which no client is."""
    unnamed = {"member_id": None, "client_id": None, "client_host": None, "rebalance_timeout_ms": None}
    return event(kind, **{**unnamed, **more})


@contextmanager
def local_zone(monkeypatch: pytest.MonkeyPatch, zone: str) -> Iterator[None]:
    """Have `zone` be the local one, as in the variable TZ."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        yield
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times are shown in the local zone, which has to be the same everywhere."""
    with local_zone(monkeypatch, "UTC"):
        yield
