"""Modules take turns: so many trees in a row of ids run all of them, and one tree runs the same ones always."""

from __future__ import annotations

from tests.module_rotation import chosen_modules

NAMES = ["test_a.py", "test_b.py", "test_c.py", "test_a.py"]


def test_the_shares_are_all_of_them() -> None:
    for shares in (2, 3):
        chosen = [chosen_modules(NAMES, f"{tree:x}", shares) for tree in range(3 * shares)]
        assert set.union(*chosen) == set(NAMES)
    halves = [chosen_modules(NAMES, f"{tree:x}", 2) for tree in range(6)]
    assert set.union(*halves) == set(NAMES)
    assert {frozenset(half) for half in halves} == {
        frozenset({"test_a.py", "test_c.py"}),
        frozenset({"test_b.py"}),
    }
