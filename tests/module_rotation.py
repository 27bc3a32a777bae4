"""Which test modules run where some take turns (harness/rotation.py); without an option all run.

`--rotate N` takes one in N of all modules, `--turns N` one in N of those in taking_turns.txt and all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from harness.rotation import number_of_shares, share_of, tree_id
from tests.listed import listed

ROOT = Path(__file__).resolve().parent.parent
IN_EVERY_SHARE: Final = frozenset({ROOT / "tests" / "server" / "test_installed.py"})
"""Modules that are never left out: without this one nothing says that the compiled wheel was what was tested."""

TURNS_TAKEN_BY: Final = ROOT / "tests" / "taking_turns.txt"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rotate", type=number_of_shares, metavar="N", help="one in N of the modules, by the tree's id"
    )
    parser.addoption(
        "--turns",
        type=number_of_shares,
        metavar="N",
        help="one in N of the modules that take turns, likewise",
    )


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the items of modules whose turn it is not, if it is asked for."""
    modules = {item.path for item in items}
    if (shares := config.getoption("--rotate")) is not None:
        left_out = modules - chosen_modules(modules, tree_id(ROOT), shares)
    elif (shares := config.getoption("--turns")) is not None:
        left_out = not_their_turn(tree_id(ROOT), shares)
    else:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.path in left_out])
    items[:] = [item for item in items if item.path not in left_out]


def taking_turns() -> list[Path]:
    """The modules that taking_turns.txt names, in its order."""
    return [ROOT / line for line in listed(TURNS_TAKEN_BY.read_text())]


def not_their_turn(tree: str, shares: int) -> set[Path]:
    """Of the modules that take turns all but one in `shares`."""
    modules = taking_turns()
    return set(modules) - set(share_of(modules, tree, shares))


def chosen_modules(modules: Iterable[Path], tree: str, shares: int) -> set[Path]:
    """One in `shares` of the modules, and those of IN_EVERY_SHARE."""
    collected = set(modules)
    taking_turns = sorted(collected - IN_EVERY_SHARE)
    return {*share_of(taking_turns, tree, shares), *(collected & IN_EVERY_SHARE)}
