"""docs/testing.md says which marks of the simulation a change may miss: those that only `make soak` demands."""

from __future__ import annotations

import re
from pathlib import Path

from tests.simulation import mixed_marks

ROOT = Path(__file__).resolve().parent.parent


def test_the_marks_that_only_a_soak_demands_are_named() -> None:
    page = " ".join((ROOT / "docs" / "testing.md").read_text().split())
    said = re.search(r"Two of them, ([^.:]+), are demanded by `make soak` alone", page)
    assert said is not None
    assert set(re.findall(r"`(\w+)`", said[1])) == mixed_marks.RARE


def test_simulation_demands_the_frequent_marks_and_soak_all() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (of_simulation,) = re.findall(r"--mixed --seeds (\d+)$", makefile, re.MULTILINE)
    (of_soak,) = re.findall(r"^SEEDS \?= (\d+)$", makefile, re.MULTILINE)
    assert "--mixed --seeds $$(($(SEEDS) / 10))\n" in makefile
    assert mixed_marks.ENOUGH_FOR_FREQUENT <= int(of_simulation) < mixed_marks.ENOUGH_SEEDS
    assert int(of_soak) // 10 >= mixed_marks.ENOUGH_SEEDS
