"""What the benchmark of growth writes on the page is what its chart reads there."""

from __future__ import annotations

from bench.pairs.curves import Curve, Point, read_back
from bench.pairs.growth_chart import chart

CURVE = Curve(
    "fetch, by others' offsets",
    [Point(10_000, [64.4, 50.0, 70.0], [10_511.0]), Point(1_000_000, [96.6, 90.0, 120.0])],
)


def test_the_rows_of_a_curve_are_read_back_relative_to_its_smallest_size() -> None:
    assert read_back("\n".join(CURVE.rows)) == {CURVE.operation: [(10_000, 1.0), (1_000_000, 1.5)]}


def test_a_curve_is_held_to_what_its_largest_size_costs() -> None:
    assert CURVE.growth.startswith("cost at 100 times the size to that at 1")
    assert round(CURVE.relative(CURVE.points[-1]), 3) == 1.5


def test_the_chart_names_each_operation_with_its_cost_at_the_largest_size() -> None:
    drawn = chart({"one": [(1, 1.0), (100, 1.25)], "a < b": [(1, 1.0), (1_000, 0.01)]})
    assert "1.25  one" in drawn
    assert "0.01  a &lt; b" in drawn
