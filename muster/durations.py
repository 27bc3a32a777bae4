"""Lengths of time as users write them: `500ms`, `5s`, `2m`, `1h`, `7d`, and `P1DT2H` as for Kafka's tools."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS_S: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SHORT: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_ISO: Final = re.compile(
    r"([+-]?)P(?=.*\d)(?:([+-]?\d{1,18})D)?"
    r"(?:T(?=.)(?:([+-]?\d{1,18})H)?(?:([+-]?\d{1,18})M)?(?:([+-]?\d{1,18}(?:[.,]\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
MAX_MS: Final = 2**53  # Some 285,000 years: beyond it nothing adds up.


def parse_duration(text: str) -> int:
    """The length of time in ms. Raises ValueError, also for a bare number, which says no unit."""
    found = _SHORT.fullmatch(text)
    if not found:
        raise ValueError(f"{text} must be a length of time with its unit, as in 500ms, 5s, 2m, 1h or 7d")
    return _bounded(text, float(found[1]) * _UNITS_MS[found[2]])


def parse_timeout(text: str) -> int:
    """As `parse_duration`; a bare number is in ms, as for Kafka's tools. Raises ValueError, also for zero."""
    value = parse_duration(f"{text}ms" if text.isascii() and text.isdigit() else text)
    if value < 1:
        raise ValueError(f"{text} must be longer than that")
    return value


def parse_iso_duration(text: str) -> int:
    """The length in ms of a duration as java.time.Duration reads it; it may be negative. Raises ValueError."""
    found = _ISO.fullmatch(text)
    if not found:
        raise ValueError(f"{text} must be an ISO 8601 duration, as in P7D or PT1H30M")
    days, hours, minutes = (int(part or 0) for part in found.group(2, 3, 4))
    seconds = float((found[5] or "0").replace(",", "."))
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return _bounded(text, (-1 if found[1] == "-" else 1) * total * 1_000)


def _bounded(text: str, milliseconds: float) -> int:
    if abs(milliseconds) > MAX_MS:
        raise ValueError(f"{text} is too long")
    return round(milliseconds)


def spoken(milliseconds: int) -> str:
    """A length of time for people, in its two largest units: "340 ms", "12 s", "3 min 20 s", "2 h", "4 d 1 h"."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1_000
    for (large, large_s), (small, small_s) in pairwise(_UNITS_S):
        if seconds >= large_s:
            rest = seconds % large_s // small_s
            return f"{seconds // large_s} {large}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"
