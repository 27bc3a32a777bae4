"""The page of figures: targets judged for both builds by what is shown, and never a build that is out of date."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.pairs import growth, page, profile
from bench.pairs.bursts import Rounds, compared, targets_of_returns
from bench.pairs.plan import Plan
from bench.pairs.rounds import COMPILED, MUSTER, Section, Target, target
from bench.pairs.scenarios import SCENARIOS
from bench.pairs.sources import ROOT, STAMP, is_current, sources, write

TARGETS = [
    Target("one: throughput", 1.16, 1.4, at_least=True, compiled=1.42),
    Target("two: server CPU of each", 0.5, 0.6, compiled=0.61),
    Target("the floor's own CPU", 0.31, 0.5),
    Target("a difference that noise has made negative", -1.5, 12.0, compiled=-0.5),
]


def test_the_rows_are_read_back_as_they_were_judged() -> None:
    section = Section("Title", ["a table"], TARGETS, "Three rounds.")
    text = page.scenario([section])
    assert page.targets_in(text) == TARGETS
    assert "Three rounds." in text, "each section says how it was measured"


@pytest.mark.parametrize(
    ("made", "met", "compiled"),
    zip(TARGETS, (False, True, True, True), (True, False, None, True), strict=True),
)
def test_each_build_is_judged_by_itself(made: Target, met: bool, compiled: bool | None) -> None:
    assert (made.is_met, made.is_met_compiled) == (met, compiled)


def test_a_target_is_judged_by_the_figure_that_is_shown() -> None:
    assert Target("rounds to the bound", 1.395, 1.4, at_least=True).is_met
    assert not Target("rounds below it", 1.394, 1.4, at_least=True).is_met


def test_pure_python_comes_first_and_alone_if_there_is_no_other_build() -> None:
    assert target("what", [0.5, 0.4], 0.6) == Target("what", 0.5, 0.6, compiled=0.4)
    assert target("what", [0.5], 0.6).compiled is None
    assert list(Plan(Path()).builds) == [MUSTER] != [COMPILED]


def test_what_is_missed_and_not_profiled_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either build; what is met, and what a flame graph explains, is not."""
    missed = [
        Target("heartbeats, 500 connections, 1 in flight: throughput", 1.0, 1.4, at_least=True, compiled=1.0),
        Target("restart: to the last group served", 0.4, 0.35),
        Target("burst: server CPU", 0.6, 0.6, compiled=0.61),
        Target("memory", 0.4, 0.5, compiled=0.4),
    ]
    for name in ("PAGE", "CHART", "GROWTH"):
        monkeypatch.setattr(page, name, tmp_path / name)
    page.PAGE.write_text(f"{page.BEGIN}{page.END}")
    page.write({"one": page.scenario([Section("Title", [], missed, "")])}, ["one"])
    named = "drawn by no profile: restart: to the last group served; burst: server CPU.\n"
    assert named in page.PAGE.read_text()
    page.write({"one": page.scenario([Section("Title", [], missed[:1], "")])}, ["one"])
    assert "profile" not in page.PAGE.read_text()


def test_every_load_that_is_profiled_explains_targets() -> None:
    assert page.PROFILED.keys() == {*profile.LOADS, profile.COLD}
    text = page.PAGE.read_text()
    assert [what for what in page.PROFILED.values() if f"\n| {what}" not in text] == []


def test_every_scenario_has_a_growth_or_is_said_to_have_none() -> None:
    assert {*growth.AT_ONE_SIZE, "wheel", "heartbeats", "commits", "growth"} == SCENARIOS.keys()


@pytest.mark.parametrize(
    ("default", "longest", "met"),
    [
        (([2.0], 3), ([2.0], 3), (True, True)),
        (([2.0], 4), ([2.0], 3), (True, False)),
        (([3.1], 0), ([2.0], 0), (False, True)),
    ],
)
def test_a_return_is_judged_by_its_time_and_by_what_was_dropped(
    default: tuple[list[float], int], longest: tuple[list[float], int], met: tuple[bool, bool]
) -> None:
    ours, theirs = (Rounds("r", seconds=seconds, dropped=dropped) for seconds, dropped in (default, longest))
    targets = targets_of_returns("all are back", ours, theirs)
    assert tuple(each.is_met for each in targets) == met
    assert page.targets_in(page.scenario([Section("Back", [], targets, "")])) == targets


def test_two_queues_that_the_system_makes_one_are_said_to_be() -> None:
    assert "both queues are that long" in compared(65_535, 4_096)
    assert "both queues are that long" in compared(4_096, 4_096)
    assert compared(50, 4_096) == "The default is a queue of 50, the longest one of 4,096."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of a few modules, and a build of it."""
    for name in (
        "setup.py",
        "coordinator/daemon/daemon.py",
        "coordinator/server/server.py",
        "storage/files.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    (tmp_path / "built").mkdir()
    write(tmp_path / "built" / STAMP, tmp_path)
    return tmp_path


@pytest.mark.parametrize("changed", ["setup.py", "coordinator/server/server.py"])
def test_a_build_from_before_an_edit_is_not_measured(root: Path, changed: str) -> None:
    """Whatever the times of the files say: what is unpacked from an archive has its own."""
    assert is_current(root / "built", root)
    (root / changed).write_text("edited")
    os.utime(root / changed, (1_000, 1_000))
    assert not is_current(root / "built", root)


def test_a_build_with_a_module_that_is_gone_is_not_measured(root: Path) -> None:
    (root / "coordinator/daemon/daemon.py").unlink()
    assert not is_current(root / "built", root)


def test_a_build_without_a_module_that_is_new_is_not_measured(root: Path) -> None:
    (root / "storage/new.py").touch()
    assert not is_current(root / "built", root)


def test_without_a_build_there_is_none(root: Path) -> None:
    (root / "built" / STAMP).unlink()
    assert not is_current(root / "built", root)


def test_what_a_build_is_made_of_is_written_when_it_changes_and_only_then(root: Path) -> None:
    """Its time is what make goes by."""
    noted = root / "sources"
    write(noted, root)
    os.utime(noted, (1_000, 1_000))
    write(noted, root)
    assert noted.stat().st_mtime == 1_000
    (root / "storage/files.py").unlink()
    write(noted, root)
    assert noted.stat().st_mtime > 1_000
    assert noted.read_text() == sources(root)


EDITED_MEANWHILE = """
import sys
from pathlib import Path
Path(sys.argv[sys.argv.index("--build-lib") + 1]).mkdir(parents=True)
Path("storage/files.py").write_text("edited")
"""
"""As setup.py: the compiler takes two minutes, and this comes in them."""


def test_make_notes_what_a_build_is_made_of_before_it_builds(root: Path) -> None:
    """So an edit while the compiler runs is in no build that counts as current, to make or to a benchmark."""
    shutil.copy(ROOT / "Makefile", root)
    shutil.copytree(ROOT / "bench", root / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/bin/python").symlink_to(sys.executable)
    for name in ("pyproject.toml", "constraints.txt", ".venv/.runtime", ".venv/.dev"):
        (root / name).touch()
    (root / "setup.py").write_text(EDITED_MEANWHILE)
    built = root / "build/compiled"
    assert (made(root), is_current(built, root)) == (True, False)
    assert (made(root), is_current(built, root)) == (True, True)
    assert (made(root), is_current(built, root)) == (False, True), "nothing has changed"
    (root / "coordinator/daemon/daemon.py").unlink()
    assert (made(root), is_current(built, root)) == (True, True)


def made(root: Path) -> bool:
    """Whether `make compiled` has built anything."""
    (root / "build").mkdir(exist_ok=True)
    (root / "build/of_the_last_time").touch()
    subprocess.run(["make", "--silent", "compiled"], cwd=root, check=True)
    return not (root / "build/of_the_last_time").exists()
