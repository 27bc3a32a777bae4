"""`--rotate` runs half of the long modules, chosen by the id of the checkout's tree; without it all run.

A tree takes the same half wherever it is tested, and trees take either half alike, so every long test runs
within a few changes. `make test-long` runs them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.rotation import tree_id

ROOT = Path(__file__).resolve().parent.parent.parent
HALVES = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rotate", action="store_true", help="half of the long modules, by the tree's id")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--rotate"):
        return
    chosen = chosen_modules([item.path.name for item in items], tree_id(ROOT))
    config.hook.pytest_deselected(items=[item for item in items if item.path.name not in chosen])
    items[:] = [item for item in items if item.path.name in chosen]


def chosen_modules(names: list[str], tree: str) -> set[str]:
    """Every second of the modules; the tree's id says whether the first is among them."""
    return set(sorted(set(names))[int(tree, 16) // 3 % HALVES :: HALVES])
