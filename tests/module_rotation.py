"""`--rotate N` runs one in N of the test modules (harness/rotation.py); without the option all run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.rotation import share_of, tree_id

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
    """One in `shares` of the modules."""
    return set(share_of(sorted(set(modules)), tree, shares))
