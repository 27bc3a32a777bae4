"""Modules take turns: so many trees in a row of ids run all of them, and one tree runs the same ones always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import module_rotation
from tests.module_rotation import IN_EVERY_SHARE, ROOT, chosen_modules

A, B, C = (Path(f"test_{name}.py") for name in "abc")
MODULES = [A, B, C, A]
INSTALLED = ROOT / "tests" / "server" / "test_installed.py"


def test_the_shares_are_all_of_them() -> None:
    for shares in (2, 3):
        chosen = [chosen_modules(MODULES, f"{tree:x}", shares) for tree in range(3 * shares)]
        assert set.union(*chosen) == set(MODULES)
    halves = [chosen_modules(MODULES, f"{tree:x}", 2) for tree in range(6)]
    assert {frozenset(half) for half in halves} == {frozenset({A, C}), frozenset({B})}


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_what_says_that_the_wheel_was_tested_is_in_every_share(shares: int) -> None:
    modules = [A, INSTALLED, B, C]
    for tree in range(3 * shares):
        chosen = chosen_modules(modules, f"{tree:x}", shares)
        assert INSTALLED in chosen
        assert chosen - {INSTALLED} == chosen_modules(MODULES, f"{tree:x}", shares)


def test_what_is_in_every_share_is_there() -> None:
    """Under another name a module would take turns again."""
    assert INSTALLED in IN_EVERY_SHARE
    assert [module for module in IN_EVERY_SHARE if not module.is_file()] == []


class Run:
    """Stands for pytest's configuration with these options, and keeps what was left out."""

    def __init__(self, rotate: int | None, turns: int | None) -> None:
        self.left_out: list[Any] = []
        self.hook = SimpleNamespace(pytest_deselected=self._leave_out)
        self._options = {"--rotate": rotate, "--turns": turns}

    def getoption(self, name: str) -> int | None:
        return self._options[name]

    def _leave_out(self, items: list[Any]) -> None:
        self.left_out += items


def deselect(rotate: int | None, turns: int | None = None) -> tuple[set[Path], set[Path]]:
    """The modules that run, and those that are left out."""
    run, items = Run(rotate, turns), [SimpleNamespace(path=path) for path in (*MODULES, INSTALLED)]
    module_rotation.deselect(cast(pytest.Config, run), cast("list[pytest.Item]", items))
    return {item.path for item in items}, {item.path for item in run.left_out}


def test_the_tree_of_the_checkout_says_which_run(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = {ROOT: "0"}
    monkeypatch.setattr(module_rotation, "tree_id", trees.__getitem__)
    assert deselect(2) == ({A, C, INSTALLED}, {B})
    trees[ROOT] = "3"
    assert deselect(2) == ({B, INSTALLED}, {A, C})
    assert deselect(None) == ({*MODULES, INSTALLED}, set())


def test_of_those_that_take_turns_one_in_so_many_runs_and_of_the_others_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = tmp_path / "taking_turns.txt"
    listed.write_text(f"# These two.\n{A}\n{B}  # the dear one\n\n")
    monkeypatch.setattr(module_rotation, "TURNS_TAKEN_BY", listed)
    monkeypatch.setattr(module_rotation, "ROOT", Path())
    for tree, (chosen, left_out) in {"0": (A, B), "3": (B, A)}.items():
        monkeypatch.setattr(module_rotation, "tree_id", lambda _, tree=tree: tree)
        assert deselect(None, turns=2) == ({chosen, C, INSTALLED}, {left_out})
    assert deselect(None, turns=1) == ({A, B, C, INSTALLED}, set())


def test_what_takes_turns_is_there_once() -> None:
    """Under another name a module would run always, and make the run longer for all."""
    modules = module_rotation.taking_turns()
    assert modules == sorted(set(modules))
    assert [module for module in modules if not module.is_file()] == []
    assert IN_EVERY_SHARE.isdisjoint(modules)


@pytest.mark.parametrize(("shares", "status"), [("0", 4), ("-1", 4), ("half", 4), ("1", 0)])
def test_what_is_no_number_of_shares_is_refused(shares: str, status: int) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only"]
    ran = subprocess.run(
        [*command, f"--rotate={shares}", "tests/test_rotation.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    if status:
        refused = f"error: argument --rotate: one in how many is a whole number from 1 on, not '{shares}'"
        assert refused in ran.stderr
