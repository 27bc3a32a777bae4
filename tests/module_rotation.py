"""`--rotate N` runs one in N of the test modules, chosen by the id of the checkout's tree.

A tree takes the same ones wherever it is tested, and trees take all alike, so every module runs within a few
changes. Without the option all run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.mutations.rotation import tree_id

ROOT = Path(__file__).resolve().parent.parent


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--rotate", type=int, metavar="N", help="one in N of the modules, by the tree's id")


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the items of modules that are not chosen, if it is asked for."""
    shares = config.getoption("--rotate")
    if not shares:
        return
    chosen = chosen_modules((str(item.path) for item in items), tree_id(ROOT), shares)
    config.hook.pytest_deselected(items=[item for item in items if str(item.path) not in chosen])
    items[:] = [item for item in items if str(item.path) in chosen]


def chosen_modules(modules: Iterable[str], tree: str, shares: int) -> set[str]:
    """One in `shares` of the modules; the tree's id says which is the first.

    Its quotient by three, so that who takes this half does not always take that tenth of the mutants.
    """
    return set(sorted(set(modules))[int(tree, 16) // 3 % shares :: shares])
