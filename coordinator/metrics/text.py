"""Prometheus' text format, version 0.0.4: names, labels and values become lines. Knows no metric."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Final, Literal

from storage.latencies import Latencies

Type = Literal["counter", "gauge", "histogram"]
Labels = tuple[tuple[str, str], ...]

MAX_LABEL_CHARS: Final = 256
"""A group id may have 32 KB, and is in some 20 lines: a longer value is cut, and ends in a hash of all of it."""

LABELS_KEPT: Final = 2048
"""Label texts that are kept: those of the daemon are some hundred, the same at each scrape."""

_HASH_CHARS: Final = 32
"""128 bits: with half as many, somebody who wants two ids with one label finds them in an hour."""

_CUT_END: Final = re.compile(rf"…[0-9a-f]{{{_HASH_CHARS}}}\Z")


def head(name: str, kind: Type, about: str) -> str:
    """The two lines before the samples of one metric."""
    about = about.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def cut(text: str, reserved: str | None = None) -> str:
    """The text if it is short, else its begin and a hash of all of it: no two texts become one.

    So one that ends as if it had been cut is cut as well, and so is the one that is `reserved` for something else.
    """
    if len(text) <= MAX_LABEL_CHARS and text != reserved and _CUT_END.search(text) is None:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{text[: MAX_LABEL_CHARS - _HASH_CHARS - 1]}…{digest}"


def label_value(text: str, reserved: str | None = None) -> str:
    """The text as it stands between the quotes of a label, cut as `cut` does."""
    text = cut(text, reserved)
    if '"' in text or "\\" in text or "\n" in text:
        text = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return text


@lru_cache(LABELS_KEPT)
def labels_text(labels: Labels) -> str:
    """The labels with their braces; nothing if there are none."""
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{label_value(value)}"' for name, value in labels]) + "}"


def sample(name: str, labels: Labels, value: float) -> str:
    """One line."""
    return f"{name}{labels_text(labels)} {number(value)}\n"


def number(value: float) -> str:
    """A value as the format has it: whole numbers without a point."""
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def histogram(name: str, labels: Labels, latencies: Latencies) -> str:
    """The lines of one histogram."""
    return buckets(
        name, labels, zip(latencies.bounds_s, latencies.counts, strict=False), latencies.counts[-1]
    ) + (
        f"{name}_sum{labels_text(labels)} {number(latencies.sum_s)}\n"
        f"{name}_count{labels_text(labels)} {sum(latencies.counts)}\n"
    )


def buckets(name: str, labels: Labels, counts: Iterable[tuple[float, int]], above: int) -> str:
    """The lines of a histogram's buckets: from counts between bounds, cumulative ones."""
    lines: list[str] = []
    total = 0
    for bound_s, count in counts:
        total += count
        lines.append(sample(f"{name}_bucket", (*labels, ("le", number(bound_s))), total))
    lines.append(sample(f"{name}_bucket", (*labels, ("le", "+Inf")), total + above))
    return "".join(lines)
