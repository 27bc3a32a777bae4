"""A mark that no seed reaches has to be noticed; and what is counted, and from how many seeds on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.simulation.marks import CAUSES, ENOUGH_SEEDS, MARKS, Marks, counted, not_reached, report

HERE = Path(__file__).resolve().parent


def counts_but(name: str) -> dict[str, int]:
    """All marks reached by some seed, but one."""
    return {each: int(each != name) for each in MARKS}


@pytest.mark.parametrize("name", sorted(MARKS))
def test_a_mark_that_no_seed_has_reached_is_named(name: str) -> None:
    counts = counts_but(name)
    assert not_reached(counts, ENOUGH_SEEDS) == [name]
    lines = report(counts, ENOUGH_SEEDS)
    assert lines[0].split()[:2] == ["0", name], "the rarest comes first"
    assert lines[-1] == f"reached by none of {ENOUGH_SEEDS:,} seeds: {name}"


@pytest.mark.parametrize("name", sorted(MARKS.keys() - CAUSES.keys()))
def test_a_mark_can_be_reached(name: str) -> None:
    """Some line of the simulation notes it."""
    noted = re.compile(rf'reach\((?:[^)]*\b(?:if|else)\b[^)]*)?"{name}"|reach\("{name}"')
    assert any(
        noted.search(path.read_text()) for path in HERE.glob("*.py") if path.name != Path(__file__).name
    )


def test_too_few_seeds_miss_nothing() -> None:
    assert not_reached(dict.fromkeys(MARKS, 0), ENOUGH_SEEDS - 1) == []


def test_seeds_are_counted_and_not_events() -> None:
    marks = Marks()
    for _ in range(3):
        marks.reach("topic_grown")
    counts = counted([frozenset(marks.reached), frozenset(), frozenset({"topic_grown"})])
    assert counts["topic_grown"] == 2
    assert counts.keys() == MARKS.keys()


def test_only_what_has_a_name_can_be_reached() -> None:
    with pytest.raises(KeyError):
        Marks().reach("something_else")


def test_there_are_marks_enough() -> None:
    assert len(MARKS) >= 40
