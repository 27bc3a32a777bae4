"""Names, spans and times as sentences of `why` have them; text that clients chose is made visible and cut."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from coordinator.groups.causes import listed
from muster.sentences import ID_CHARACTERS_MAX as NAME_MAX_CHARS
from muster.sentences import visible

REASON_MAX_CHARS: Final = 240
"""The most characters of a reason that a client gave; the others are counted."""

NAMES_MAX: Final = 5
"""The most members or partitions that one sentence names; it counts the others."""

_ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000, 60_000, 3_600_000


def name(text: str) -> str:
    """A name that a client chose, fit for a terminal: no control and no bidi character in it stays one."""
    return _presentable(text, NAME_MAX_CHARS)


def quoted(text: str) -> str:
    """What a client said, in quotation marks and fit for a terminal, as the end of a sentence."""
    shown = _presentable(text, REASON_MAX_CHARS)
    return f'"{shown}"' if shown.endswith(".") else f'"{shown}".'


def _presentable(text: str, max_chars: int) -> str:
    """`text` with its first characters, and how many it has if there are more; never empty."""
    if not text:
        return "(empty)"
    shown = visible(text[:max_chars])
    return shown if len(text) <= max_chars else f"{shown}… ({len(text):,} characters)"


def member_name(
    group_instance_id: str | None, client_id: str | None, client_host: str | None, member_id: str | None
) -> str:
    """A member as people know it: "app-3 at 10.0.0.9", a static one under its instance id, else by its id."""
    host = name(client_host.lstrip("/")) if client_host else None
    client = None if client_id is None else name(client_id) + (f" at {host}" if host else "")
    if group_instance_id is not None:
        return name(group_instance_id) + (f" ({client})" if client else "")
    return client or (f"member {name(member_id)}" if member_id else "a member that is not named")


def poll_interval_is(timeout_ms: int) -> str:
    """A member's max.poll.interval.ms, as a sentence after one about it."""
    return f"Its max.poll.interval.ms is {timeout_ms} (what it sends as its rebalance timeout)."


def names(every: Sequence[str]) -> str:
    """The first few of these names, in words; "" for none."""
    return listed(every[:NAMES_MAX], len(every)) if every else ""


def span(ms: int) -> str:
    """A span of time as people say it: "41 ms", "4.2 s", "5 min", "1 h 10 min"."""
    if ms < _SECOND_MS:
        return f"{ms} ms"
    if ms < _MINUTE_MS:
        return f"{ms / _SECOND_MS:.1f} s"
    minutes, seconds = divmod(ms // _SECOND_MS, 60)
    if ms < _HOUR_MS:
        return f"{minutes} min" + (f" {seconds} s" if seconds else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")


def ordinal(number: int) -> str:
    """ "third" for 3; figures from ten on."""
    if number < len(_ORDINALS):
        return _ORDINALS[number]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def clock(wall_ms: int, now_ms: int) -> str:
    """The local time of day; with its date if that is not the day of `now_ms`."""
    at, now = local(wall_ms), local(now_ms)
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def local(wall_ms: int) -> datetime:
    """The time in the local zone."""
    return datetime.fromtimestamp(wall_ms / 1000).astimezone()


def sentence(clause: str) -> str:
    """The clause with a capital letter and a full stop; one that begins with a name keeps it as it is."""
    return clause if clause.endswith((".", "?")) else f"{clause}."
