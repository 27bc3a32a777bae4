"""The page: tables of what was measured, targets met and missed, and a chart of the ratios."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.pairs.plan import Plan
from bench.pairs.rounds import Section, Target

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = ROOT / "docs" / "images" / "performance.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

WIDTH, BAR, GAP, LABELS = 900, 16, 8, 470


def measured(sections: Sequence[Section], plan: Plan) -> str:
    """What `make bench` has to say, as Markdown."""
    targets = [target for section in sections for target in section.targets]
    met = sum(target.is_met for target in targets)
    lines = [
        f"Measured {datetime.now(UTC):%d %B %Y} on {machine()};",
        "Apache Kafka 4.3.1 with its production defaults and a",
        f"heap of 1 GB. {plan.rounds} rounds of {plan.seconds:g} s in turns, after Kafka had {plan.warm_s:g} s",
        "under the same load.",
        "",
        f"{met} of {len(targets)} targets are met.",
        "",
        "| ratio to Kafka in the same run | measured | asked | met |",
        "|---|---|---|---|",
        *(target.row for target in targets),
    ]
    for section in sections:
        lines += ["", f"### {section.title}", "", *section.lines]
    return "\n".join(lines)


def write(sections: Sequence[Section], plan: Plan) -> None:
    """Put the measured part into the page, between its two marks, and draw the chart."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{measured(sections, plan)}\n\n{END}{tail}")
    CHART.write_text(chart([target for section in sections for target in section.targets]))


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
