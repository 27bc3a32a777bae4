"""The page: what each scenario measured, the targets met and missed, and a chart of the ratios.

A scenario has a place of its own on the page, so that one can be measured anew without the others; what is said of
all of them is read from those places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.pairs import curves, growth_chart
from bench.pairs.plan import Plan
from bench.pairs.rounds import Section, Target
from bench.pairs.servers import IS_COMPILED

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = ROOT / "docs" / "images" / "performance.svg"
GROWTH: Final = ROOT / "docs" / "images" / "growth.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PLACE: Final = re.compile(r"<!-- scenario: (\w+) -->\n(.*?)\n<!-- end of (?:\w+) -->", re.DOTALL)
TARGETS: Final = (
    "| ratio in the same run, to Kafka where nothing else is said | measured | asked | met |\n"
    "|---|---|---|---|"
)
ROW: Final = re.compile(
    r"^\| (.+) \| ([\d.]+) \| at (least|most) ([\d.]+) \| (?:yes|\*\*no\*\*) \|$", re.MULTILINE
)

WIDTH, BAR, GAP, LABELS = 900, 16, 8, 470


def scenario(sections: Sequence[Section]) -> str:
    """What one scenario has to say, as Markdown."""
    lines: list[str] = []
    for section in sections:
        lines += [f"### {section.title}", "", *section.lines, ""]
    targets = [target.row for section in sections for target in section.targets]
    return "\n".join([*lines, TARGETS, *targets])


def conditions(plan: Plan, with_kafka: bool = True) -> str:
    build = "compiled (`make compiled`)" if IS_COMPILED else "in pure Python"
    here = f"{datetime.now(UTC):%d %B %Y}, {machine()}. Muster {build}."
    if not with_kafka:
        return here
    return (
        f"{here} Kafka with its production defaults and a heap of 1 GB; "
        f"{plan.rounds} rounds in turns, of {plan.seconds:g} s where a load is steady, after {plan.warm_s:g} s "
        f"under the same load."
    )


def write(measured: dict[str, str], names: Sequence[str]) -> None:
    """Put the scenarios that were measured into their places; `names` is the order of all there are."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    places = dict(PLACE.findall(old)) | measured
    blocks = [f"<!-- scenario: {n} -->\n{places[n]}\n<!-- end of {n} -->" for n in names if n in places]
    targets = targets_in("\n".join(blocks))
    met = sum(target.is_met for target in targets)
    figure = "![How each ratio stands to its target](images/performance.svg)"
    summary = f"{met} of {len(targets)} targets are met.\n\n{figure}"
    PAGE.write_text("\n\n".join([head + BEGIN, summary, *blocks, END + tail]))
    CHART.write_text(chart(targets))
    if lines := curves.read_back("\n".join(blocks)):
        GROWTH.write_text(growth_chart.chart(lines))


def targets_in(text: str) -> list[Target]:
    """The targets whose rows are in `text`."""
    return [
        Target(what, float(ratio), float(bound), at_least=side == "least")
        for what, ratio, side, bound in ROW.findall(text)
    ]


def chart(targets: Sequence[Target]) -> str:
    """How each ratio stands to what was asked: the line is the target, green keeps to it."""
    height = len(targets) * (BAR + GAP) + 40
    marks = "\n".join(_bar(target, 30 + index * (BAR + GAP)) for index, target in enumerate(targets))
    line = LABELS + (WIDTH - LABELS - 60) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
        f'<text x="{line}" y="16" text-anchor="middle" fill="#555">what was asked</text>\n{marks}\n'
        f'<line x1="{line}" x2="{line}" y1="22" y2="{height - 8}" stroke="#555" stroke-dasharray="4 3"/>\n</svg>\n'
    )


def _bar(target: Target, y: int) -> str:
    """Half the width is the target; less cost and more throughput than asked both reach further right."""
    margin = target.ratio / target.bound if target.at_least else target.bound / max(target.ratio, 1e-9)
    width = min(2.0, margin) * (WIDTH - LABELS - 60) / 2
    colour = "#3a8f5c" if target.is_met else "#c2543d"
    return (
        f'<text x="{LABELS - 8}" y="{y + 12}" text-anchor="end">{escape(target.what)}</text>'
        f'<rect x="{LABELS}" y="{y}" width="{width:.0f}" height="{BAR}" fill="{colour}"/>'
        f'<text x="{LABELS + width + 5:.0f}" y="{y + 12}" fill="#333">{target.ratio:.2f}</text>'
    )
