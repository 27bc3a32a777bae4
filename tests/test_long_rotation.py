"""The long tests take turns: two trees in a row of ids run all of them, and one tree runs the same half always."""

from __future__ import annotations

from tests.long.conftest import chosen_modules

NAMES = ["test_a.py", "test_b.py", "test_c.py", "test_a.py"]


def test_the_halves_are_all_of_them() -> None:
    halves = [chosen_modules(NAMES, f"{tree:x}") for tree in range(6)]
    assert set.union(*halves) == set(NAMES)
    assert {frozenset(half) for half in halves} == {
        frozenset({"test_a.py", "test_c.py"}),
        frozenset({"test_b.py"}),
    }
