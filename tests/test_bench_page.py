"""The page of figures: targets judged for both builds by what is shown, and never a build that is out of date."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.pairs import growth, page, profile
from bench.pairs.__main__ import SCENARIOS
from bench.pairs.plan import Plan
from bench.pairs.rounds import COMPILED, MUSTER, Section, Target, target
from bench.pairs.servers import is_current

TARGETS = [
    Target("one: throughput", 1.16, 1.4, at_least=True, compiled=1.42),
    Target("two: server CPU of each", 0.5, 0.6, compiled=0.61),
    Target("the floor's own CPU", 0.31, 0.5),
]


def test_the_rows_are_read_back_as_they_were_judged() -> None:
    section = Section("Title", ["a table"], TARGETS, "Three rounds.")
    text = page.scenario([section])
    assert page.targets_in(text) == TARGETS
    assert "Three rounds." in text, "each section says how it was measured"


@pytest.mark.parametrize(
    ("made", "met", "compiled"), zip(TARGETS, (False, True, True), (True, False, None), strict=True)
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
        Target("join storm: server CPU", 0.6, 0.6, compiled=0.61),
        Target("memory", 0.4, 0.5, compiled=0.4),
    ]
    for name in ("PAGE", "CHART", "GROWTH"):
        monkeypatch.setattr(page, name, tmp_path / name)
    page.PAGE.write_text(f"{page.BEGIN}{page.END}")
    page.write({"one": page.scenario([Section("Title", [], missed, "")])}, ["one"])
    named = "drawn by no profile: restart: to the last group served; join storm: server CPU.\n"
    assert named in page.PAGE.read_text()
    page.write({"one": page.scenario([Section("Title", [], missed[:1], "")])}, ["one"])
    assert "profile" not in page.PAGE.read_text()


def test_every_load_that_is_profiled_explains_targets() -> None:
    assert page.PROFILED.keys() == profile.LOADS.keys()
    text = page.PAGE.read_text()
    assert [what for what in page.PROFILED.values() if f"\n| {what}" not in text] == []


def test_every_scenario_has_a_growth_or_is_said_to_have_none() -> None:
    assert {*growth.AT_ONE_SIZE, "wheel", "heartbeats", "commits", "growth"} == SCENARIOS.keys()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout of one module, built a moment after it was written."""
    (tmp_path / "coordinator").mkdir()
    for name in ("setup.py", "coordinator/daemon.py"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000, 1_000))
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / ".built").touch()
    os.utime(tmp_path / "built" / ".built", (1_001, 1_001))
    return tmp_path


@pytest.mark.parametrize("changed", ["setup.py", "coordinator/daemon.py"])
def test_a_build_from_before_an_edit_is_not_measured(source: Path, changed: str) -> None:
    assert is_current(source / "built", source)
    os.utime(source / changed, (1_002, 1_002))
    assert not is_current(source / "built", source)


def test_without_a_build_there_is_none(source: Path) -> None:
    (source / "built" / ".built").unlink()
    assert not is_current(source / "built", source)
