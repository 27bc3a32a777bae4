"""Makes all figures of a page as one document of columns that fit into JSON; texts are numbers of a list.

Times are ms since 1970. The group -1 stands for all groups together, the text -1 for no text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from muster.spark.report.dead_letters import dead_letters
from muster.spark.report.errors import ReportError
from muster.spark.report.membership import LENGTHS_MS, churners, sessions
from muster.spark.report.reading import GROUP, MISSING_NAMED_MAX, Selection, TablesReader
from muster.spark.report.rebalancing import rebalancing, storms
from muster.spark.report.series import AT, BAR_STEPS_MAX, LINE_STEPS_MAX, Steps, series
from muster.spark.report.survey import GroupSurvey, survey, unknown_groups
from muster.spark.report.texts import REASON_MAX_CHARS, Texts
from muster.spark.report.totals import KEYS_MAX, ROWS

GROUP_FIGURES: Final = (
    "rebalances", "lost_ms", "unknown_lengths", "lag_records", "lag_seconds", "commits", "per_second",
    "noisy_minutes", "storms", "sessions", "churn",
)  # fmt: skip

Document = dict[str, Any]
Column = tuple[str, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Report:
    """A page's figures, and sentences about what they lack."""

    document: Document
    problems: list[str]
    groups: int
    rebalances: int


def make_report(folder: Path, selection: Selection) -> Report:
    """Make a report of the tables under `folder`. Raises ReportError, a sentence, if there is nothing in them."""
    reader = TablesReader(folder, selection)
    found = survey(reader)
    missing = unknown_groups(reader, found)
    if missing and len(missing) == len(selection.groups):
        raise ReportError(f"no table knows {_listed(missing)}{_within(selection)}")
    texts = Texts()
    document = _figures(reader, found, texts)
    document["texts"] = texts.shown
    problems = [f"No table knows {_listed(missing)}{_within(selection)}."] if missing else []
    if found.is_cut:
        problems.append(
            f"There are more groups than the {KEYS_MAX:,} that are counted; the least are left out."
        )
    document["problems"] = problems = problems + reader.problems
    return Report(document, problems, len(found.groups), document["headline"]["rebalances"])


def _figures(reader: TablesReader, found: GroupSurvey, texts: Texts) -> Document:
    groups = found.detailed()
    positions = {group: texts.position(group) for group in groups}
    lines = Steps.over(found.span_ms or (0, 0), LINE_STEPS_MAX)
    bars = Steps.over(found.span_ms or (0, 0), BAR_STEPS_MAX)
    letters, dead_letter_count = dead_letters(reader)
    of_group = texts.position
    return {
        "span": list(found.span_ms) if found.span_ms else None,
        "headline": _headline(found, texts, dead_letter_count),
        "groups": _groups(found, positions),
        "group_count": len(found.groups),
        "lag": _lines(reader, "lag", lines, groups, {"lag_records": "sum", "lag_seconds": "max"}, of_group),
        "noisy": _noisy(found, texts),
        **_rebalances(reader, bars, groups, texts),
        "storms": _storms(reader, groups, texts),
        **_members(reader, groups, texts),
        "letters": columns(
            letters, ("job", texts.position), ("source_topic", texts.position), ("reason", _reason_of(texts)),
            (ROWS, number), ("seen_at", number),
        ),
        "is_cut": found.is_cut,
    }  # fmt: skip


def _headline(found: GroupSurvey, texts: Texts, dead: int) -> Document:
    groups = found.groups
    worst = {
        name: {
            "value": number(row[name]),
            "group": texts.position(row[GROUP]),
            "topic": texts.position(row["topic"]),
            "partition": row["partition"],
            "at": row["minute"],
        }
        for name, row in found.worst.items()
    }
    totals = {
        name: int(groups[name].sum())
        for name in ("rebalances", "lost_ms", "unknown_lengths", "storms", "sessions")
    }
    return {**totals, "groups": len(groups), "worst": worst, "dead_letters": dead}


def _groups(found: GroupSurvey, positions: Mapping[str, int]) -> Document:
    rows = found.groups.reindex(list(positions))
    figures = {name: [number(value) for value in rows[name]] for name in GROUP_FIGURES}
    return {"group": list(positions.values()), **figures}


def _lines(
    reader: TablesReader, table: str, steps: Steps, groups: Sequence[str], how: dict[str, str], of_group: Any
) -> Document:
    frame = series(reader, table, steps, groups, how)
    if len(frame):
        # Steps without a row are drawn as 0, so rows of zeros can be left out; null, for unknown, stays.
        frame = frame[(frame[list(how)] != 0).any(axis=1)].copy()
        frame["step"] = steps.position(frame[AT])
    found = columns(frame, (GROUP, of_group), ("step", number), *((name, number) for name in how))
    return {"begin": steps.begin_ms, "end": steps.end_ms, "width": steps.width_ms, **found}


def _rebalances(reader: TablesReader, steps: Steps, groups: Sequence[str], texts: Texts) -> Document:
    found, text = rebalancing(reader, steps, groups), texts.position
    of_bars: list[Column] = [
        (name, text) for name in ("cause", "client_id", "client_host", "member_id", "outcome")
    ]
    of_bars += [(f"last_{name}", text) for name in ("client_id", "client_host", "member_id")]
    numbers = ("started_at", "ended_at", "join_ms", "sync_ms", "attempts", "generation_id", "member_count")
    counts = ((ROWS, number), ("unknown", number), ("duration_ms", number))
    bars = columns(
        found.bars, (GROUP, text), *of_bars, ("reason", _reason_of(texts)), ("causes", _causes_of(texts)),
        *((name, number) for name in (*numbers, "last_arrival_ms")),
    )  # fmt: skip
    pace = columns(found.pace, (GROUP, text), (AT, number), ("cause", text), *counts)
    causes = columns(found.causes, (GROUP, text), ("cause", text), *counts, ("longest_ms", number))
    return {
        "causes": causes,
        "pace": {"begin": steps.begin_ms, "end": steps.end_ms, "width": steps.width_ms, **pace},
        "rebalances": {"seen": found.seen, **bars},
    }


def _storms(reader: TablesReader, groups: Sequence[str], texts: Texts) -> Document:
    rows, storm_count = storms(reader, groups)
    numbers = ("window_start", "window_end", "rebalances", "rebalancing_ms", "share")
    return {
        "seen": storm_count,
        **columns(rows, (GROUP, texts.position), *((name, number) for name in numbers)),
    }


def _members(reader: TablesReader, groups: Sequence[str], texts: Texts) -> Document:
    found, text = sessions(reader, groups), texts.position
    named = ("member_id", "client_id", "client_host", "group_instance_id", "joined_by", "ended_by")
    times = ("started_at", "ended_at", "duration_ms")
    bars = columns(
        found.bars, (GROUP, text), *((name, text) for name in named), *((name, number) for name in times)
    )
    churn, churn_is_cut = churners(reader, groups)
    who = ((GROUP, text), ("client_id", text), ("client_host", text))
    counts = ("total", "joined", "left", "expired")
    return {
        "sessions": {"seen": found.seen, **bars},
        "lengths": {
            "limits": list(LENGTHS_MS),
            **columns(found.lengths, (GROUP, text), ("length", number), ("ended_by", text), (ROWS, number)),
        },
        "churn": {"is_cut": churn_is_cut, **columns(churn, *who, *((name, number) for name in counts))},
    }


def _noisy(found: GroupSurvey, texts: Texts) -> Document:
    """The groups that commit most often, of all groups, be they in detail or not."""
    foremost = found.groups[found.groups["per_second"] > 0].nlargest(25, "per_second").reset_index()
    return columns(
        foremost,
        (GROUP, texts.position),
        ("per_second", number),
        ("commits", number),
        ("noisy_minutes", number),
    )


def columns(rows: pd.DataFrame | Sequence[Mapping[str, Any]], *wanted: Column) -> Document:
    """The rows as a list of values per wanted column, each value converted by the column's function."""
    if isinstance(rows, pd.DataFrame):
        return {
            name: [as_json(value) for value in rows[name]] if len(rows) else [] for name, as_json in wanted
        }
    return {name: [as_json(row[name]) for row in rows] for name, as_json in wanted}


def number(value: Any) -> int | float | None:
    """A number in a short form for JSON: an int if whole, else four digits; None for None, nan and infinity."""
    if value is None or not math.isfinite(value):
        return None
    if value == int(value):
        return int(value)
    return float(f"{value:.4g}") if abs(value) < 1_000 else round(float(value), 1)


def _reason_of(texts: Texts) -> Callable[[Any], int]:
    return lambda reason: texts.position(reason, REASON_MAX_CHARS)


def _causes_of(texts: Texts) -> Callable[[Iterable[str] | None], list[int]]:
    """A function that turns a list of causes into text numbers: the first eight different ones, in order."""
    return lambda causes: [texts.position(cause) for cause in list(dict.fromkeys(causes or ()))[:8]]


def _listed(groups: Sequence[str]) -> str:
    shown = Texts()
    names = [repr(shown.shown[shown.position(group)]) for group in groups[:MISSING_NAMED_MAX]]
    more = len(groups) - MISSING_NAMED_MAX
    return f"the group{'s' * (len(groups) > 1)} {', '.join(names)}" + (
        f" and {more} others" if more > 0 else ""
    )


def _within(selection: Selection) -> str:
    return "" if selection.from_ms is None and selection.to_ms is None else " in that time"
