"""The time that `muster groups why --at` is given: local as the times that it shows, which can be given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest

from muster.groups.why.answers import Question, answer
from muster.groups.why.moments import parse_moment
from muster.groups.why.tables import headline
from tests.why_events import COMPLETING, STABLE, K, joined, local_zone, nobody

NOW: Final = "2026-01-31T12:00:00"
DAY_MS: Final = 86_400_000


@pytest.fixture(autouse=True)
def east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local zone two hours east of UTC."""
    with local_zone(monkeypatch, "EAST-2"):
        yield


def utc_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("13:59:58", "2026-01-31T11:59:58.999"),  # Now it is 14:00:00 there.
        ("14:00:00", "2026-01-31T12:00:00.999"),
        ("14:00:01", "2026-01-30T12:00:01.999"),
        ("00:30", "2026-01-30T22:30:00.999"),
        ("01:00:00.250", "2026-01-30T23:00:00.250"),
        ("11:00:00+00:00", "2026-01-31T11:00:00.999"),
        ("23:00:00+00:00", "2026-01-30T23:00:00.999"),
        ("2026-01-31T13:00:00", "2026-01-31T11:00:00.999"),
        ("2026-01-31 13:00:00", "2026-01-31T11:00:00.999"),
        ("2026-01-31T13:00:00Z", "2026-01-31T13:00:00.999"),
        ("2026-01-31T13:00:00.250+01:00", "2026-01-31T12:00:00.250"),
        ("2026-01-31", "2026-01-30T22:00:00.999"),
    ],
)
def test_a_time_without_a_zone_is_local_and_without_a_date_of_the_last_day(text: str, meant: str) -> None:
    assert parse_moment(text, utc_ms(NOW)) == utc_ms(meant)


@pytest.mark.parametrize("text", ["yesterday", "", "25:00:00", "1:2", "0001-01-01T00:00:00", "14"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_moment(text, utc_ms(NOW))


@pytest.mark.parametrize("days", [0, 1, 40])
def test_the_time_that_is_shown_is_the_one_to_ask_about(days: int) -> None:
    """Be it of today or with its date, and although the rebalance began within that second."""
    now_ms = utc_ms(NOW)
    begin = joined(wall_ms=now_ms - days * DAY_MS - 3_600_700)
    over = nobody(K.ASSIGNMENT_STORED, states=(COMPLETING, STABLE), wall_ms=begin.wall_ms + 100)
    events = [begin, replace(over, generation_id=8)]
    shown = headline(answer(Question("billing", None, now_ms), events, None))
    at = shown.removeprefix("billing rebalanced at ").partition(" (")[0]
    asked = answer(Question("billing", parse_moment(at, now_ms), now_ms), events, None)
    assert asked.rebalance is not None
