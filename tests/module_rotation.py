"""`--rotate N` runs one in N of the test modules (harness/rotation.py); without the option all run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from harness.rotation import number_of_shares, share_of, tree_id

ROOT = Path(__file__).resolve().parent.parent
IN_EVERY_SHARE: Final = frozenset({ROOT / "tests" / "server" / "test_installed.py"})
"""Modules that are never left out: without this one nothing says that the compiled wheel was what was tested."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rotate", type=number_of_shares, metavar="N", help="one in N of the modules, by the tree's id"
    )


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the items of modules that are not chosen, if it is asked for."""
    shares = config.getoption("--rotate")
    if shares is None:
        return
    chosen = chosen_modules((item.path for item in items), tree_id(ROOT), shares)
    config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
    items[:] = [item for item in items if item.path in chosen]


def chosen_modules(modules: Iterable[Path], tree: str, shares: int) -> set[Path]:
    """One in `shares` of the modules, and those of IN_EVERY_SHARE."""
    collected = set(modules)
    taking_turns = sorted(collected - IN_EVERY_SHARE)
    return {*share_of(taking_turns, tree, shares), *(collected & IN_EVERY_SHARE)}
