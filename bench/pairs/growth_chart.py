"""The chart of how cost grows: a line for each operation, relative to its smallest size.

It is drawn from the table on the page, like the chart of targets, so that it always shows what is written there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, TypeAlias

from bench.pairs.curves import BOUND

Line: TypeAlias = Sequence[tuple[int, float]]
"""Sizes, and what each costs relative to the smallest."""

WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 560, 30, 360
LABEL_HEIGHT: Final = 18
COST_MAX: Final = 2.0
"""Where the chart ends, unless something costs more: there is much room for what is near 1."""

COLOURS: Final = ("#1b6ca8", "#c2543d", "#3a8f5c", "#8457a8", "#b8860b", "#2a9d9d", "#b0468c", "#555555")
QUIET: Final = "#777"
DASHES: Final = 'stroke-dasharray="5 4"'


@dataclass(frozen=True, slots=True)
class Plane:
    """Where things are drawn: multiples of the smallest size are logarithmic, costs are not."""

    multiple_max: int
    cost_max: float

    def point(self, multiple: float, cost: float) -> str:
        return f"{self.x(multiple):.1f},{self.y(cost):.1f}"

    def x(self, multiple: float) -> float:
        return LEFT + math.log(multiple) / math.log(self.multiple_max) * (RIGHT - LEFT)

    def y(self, cost: float) -> float:
        return BOTTOM - cost / self.cost_max * (BOTTOM - TOP)


def chart(lines: Mapping[str, Line]) -> str:
    """The chart as SVG. Equal costs at every size are level; the dashed lines are the target, and proportion."""
    plane = _plane(lines)
    marks = "\n".join([*_axes(plane), *_references(plane), *_curves(lines, plane), *_labels(lines, plane)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{marks}\n</svg>\n'
    )


def _plane(lines: Mapping[str, Line]) -> Plane:
    costs = [cost for line in lines.values() for _, cost in line]
    multiples = [line[-1][0] // line[0][0] for line in lines.values()]
    return Plane(max(2, *multiples), max(COST_MAX, *(math.ceil(cost * 2) / 2 for cost in costs)))


def _axes(plane: Plane) -> list[str]:
    marks = [_text(LEFT, TOP - 12, "cost of each, relative to the smallest size", "start")]
    for half in range(int(plane.cost_max * 2) + 1):
        y = plane.y(half / 2)
        marks.append(_line((LEFT, y), (RIGHT, y), "#ddd"))
        marks.append(_text(LEFT - 8, y + 4, f"{half / 2:g}", "end"))
    for power in range(int(math.log10(plane.multiple_max) + 1e-9) + 1):
        marks.append(_text(plane.x(10**power), BOTTOM + 18, f"{10**power:,}", "middle"))
    return [*marks, _text((LEFT + RIGHT) / 2, BOTTOM + 40, "times the smallest size", "middle")]


def _references(plane: Plane) -> list[str]:
    """What was asked; and what cost would be if it grew in proportion."""
    y = plane.y(BOUND)
    steep = " ".join(
        plane.point(1 + step / 50, 1 + step / 50) for step in range(int((plane.cost_max - 1) * 50) + 1)
    )
    return [
        _line((LEFT, y), (RIGHT, y), QUIET, DASHES),
        _text(RIGHT - 6, y - 6, f"asked: at most {BOUND:g}", "end"),
        f'<polyline points="{steep}" fill="none" stroke="{QUIET}" {DASHES}/>',
        _text(plane.x(plane.cost_max) + 8, TOP + 12, "in proportion to the size", "start"),
    ]


def _curves(lines: Mapping[str, Line], plane: Plane) -> list[str]:
    marks = []
    for line, colour in zip(lines.values(), _colours(lines), strict=True):
        points = [plane.point(size / line[0][0], cost) for size, cost in line]
        marks.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        for x, y in (point.split(",") for point in points):
            marks.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>')
    return marks


def _labels(lines: Mapping[str, Line], plane: Plane) -> list[str]:
    """A name beside the end of each line, moved apart where ends are near; a thin line leads to it."""
    ends = sorted(zip(lines.items(), _colours(lines), strict=True), key=lambda each: -each[0][1][-1][1])
    heights = _apart([plane.y(line[-1][1]) for (_, line), _ in ends])
    marks = []
    for ((name, line), colour), height in zip(ends, heights, strict=True):
        size, cost = line[-1]
        end = (plane.x(size / line[0][0]), plane.y(cost))
        marks.append(_line(end, (RIGHT + 24, height), colour, 'stroke-width="0.6"'))
        marks.append(_text(RIGHT + 30, height + 4, f"{cost:.2f}  {name}", "start", colour))
    return marks


def _colours(lines: Mapping[str, Line]) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(len(lines))]


def _apart(heights: Sequence[float]) -> list[float]:
    """Moved away from each other, as many up as down, so that labels do not cover each other; ascending."""
    moved = list(heights)
    for _ in range(200):
        for index, (above, below) in enumerate(pairwise(moved)):
            missing = max(0.0, LABEL_HEIGHT - (below - above)) / 2
            moved[index] -= missing
            moved[index + 1] += missing
    return moved


def _text(x: float, y: float, text: str, anchor: str, colour: str = QUIET) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _line(start: tuple[float, float], end: tuple[float, float], colour: str, more: str = "") -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'
