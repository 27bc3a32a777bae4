"""The page: what each scenario measured, the targets met and missed, and a chart of the ratios.

A scenario has a place of its own on the page, so that one can be measured again without the others; what is said
of all of them is read from those places.
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
from bench.pairs.rounds import NOT_MEASURED, Section, Target

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = ROOT / "docs" / "images" / "performance.svg"
GROWTH: Final = ROOT / "docs" / "images" / "growth.svg"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PLACE: Final = re.compile(r"<!-- scenario: (\w+) -->\n(.*?)\n<!-- end of (?:\w+) -->", re.DOTALL)
PROFILED: Final = {
    "heartbeat": "heartbeats, ",
    "commit": "commits of one partition",
    "large-commit": "commits of 1,000 partitions",
    "storm": "join storm",
    "herd": "one group of 2,000",
    "cold": "start",
}
"""What the targets begin with that a load of `make profile` is about."""

TARGETS: Final = (
    "| ratio in the same run, to Kafka where nothing else is said | pure Python | compiled | asked "
    "| met | met, compiled |\n"
    "|---|---|---|---|---|---|"
)
ROW: Final = re.compile(
    r"^\| (.+) \| (-?[\d.]+) \| (-?[\d.]+|-) \| at (least|most) ([\d.]+)(?: / ([\d.]+))? \| [^|]+ \| [^|]+ \|$",
    re.MULTILINE,
)

WIDTH, BAR, GAP, LABELS = 900, 16, 8, 470


def scenario(sections: Sequence[Section]) -> str:
    """What one scenario has to say, as Markdown: each section with the conditions that it was measured under."""
    lines: list[str] = []
    for section in sections:
        lines += [f"### {section.title}", "", *section.lines, "", section.conditions, ""]
    targets = [target.row for section in sections for target in section.targets]
    return "\n".join([*lines, TARGETS, *targets])


def surroundings(with_kafka: bool = True) -> str:
    """When, on what, and with which settings a scenario was measured."""
    here = f"{datetime.now(UTC):%d %B %Y}, {machine()}. Muster with its defaults, but for what is named."
    return f"{here} Kafka with its production defaults and a heap of 1 GB." if with_kafka else here


def write(measured: dict[str, str], names: Sequence[str]) -> None:
    """Put the scenarios that were measured into their places; `names` is the order of all there are."""
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    old, _, tail = rest.partition(END)
    places = dict(PLACE.findall(old)) | measured
    blocks = [f"<!-- scenario: {n} -->\n{places[n]}\n<!-- end of {n} -->" for n in names if n in places]
    targets = targets_in("\n".join(blocks))
    figure = "![How each ratio stands to its target](images/performance.svg)"
    summary = f"{_summary(targets)}\n\n{figure}"
    PAGE.write_text("\n\n".join([head + BEGIN, summary, *blocks, END + tail]))
    CHART.write_text(chart(targets))
    if lines := curves.read_back("\n".join(blocks)):
        GROWTH.write_text(growth_chart.chart(lines))


def _summary(targets: Sequence[Target]) -> str:
    compiled = [target.is_met_compiled for target in targets if target.is_met_compiled is not None]
    return (
        f"In pure Python, which is what `make run`, the wheel and the image are, "
        f"{sum(target.is_met for target in targets)} of {len(targets)} targets are met; "
        f"by the compiled build {sum(compiled)} of the {len(compiled)} that it has a part in."
        f"{_not_profiled(targets)}"
    )


def _not_profiled(targets: Sequence[Target]) -> str:
    """The targets that a build misses, and no flame graph explains."""
    missed = [
        target.what
        for target in targets
        if not (target.is_met and target.is_met_compiled is not False)
        and not target.what.startswith(tuple(PROFILED.values()))
    ]
    return f"\n\nMissed by either, and drawn by no profile: {'; '.join(missed)}." if missed else ""


def targets_in(text: str) -> list[Target]:
    """The targets whose rows are in `text`."""
    return [
        Target(
            what,
            float(ratio),
            float(bound),
            side == "least",
            None if compiled == NOT_MEASURED else float(compiled),
            float(compiled_bound) if compiled_bound else None,
        )
        for what, ratio, compiled, side, bound, compiled_bound in ROW.findall(text)
    ]


def chart(targets: Sequence[Target]) -> str:
    """How each ratio of pure Python stands to what was asked: the line is the target, green keeps to it.

    The mark beside a bar is the compiled build's.
    """
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
    width = _reach(target, target.ratio)
    mark = (
        LABELS + _reach(target, target.compiled, target.compiled_bound)
        if target.compiled is not None
        else None
    )
    colour = "#3a8f5c" if target.is_met else "#c2543d"
    return (
        f'<text x="{LABELS - 8}" y="{y + 12}" text-anchor="end">{escape(target.what)}</text>'
        f'<rect x="{LABELS}" y="{y}" width="{width:.0f}" height="{BAR}" fill="{colour}"/>'
        f'<text x="{LABELS + width + 5:.0f}" y="{y + 12}" fill="#333">{target.ratio:.2f}</text>'
        + (f'<rect x="{mark:.0f}" y="{y - 2}" width="3" height="{BAR + 4}" fill="#333"/>' if mark else "")
    )


def _reach(target: Target, ratio: float, bound: float | None = None) -> float:
    bound = target.bound if bound is None else bound
    margin = ratio / bound if target.at_least else bound / max(ratio, 1e-9)
    return min(2.0, margin) * (WIDTH - LABELS - 60) / 2
