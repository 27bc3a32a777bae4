"""What is asked beside Kafka: data, the table of docs/performance.md, and scenarios that judge all of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench.pairs import __main__ as bench
from bench.pairs import page, targets
from bench.pairs.plan import Plan, quick
from bench.pairs.rounds import Section, Target
from bench.pairs.scenarios import MOST_S, SCENARIOS, TOGETHER, listed, named
from bench.pairs.targets import ASKED, BY_KEY, judged
from harness.daemon import ROOT

PAIRS = Path(bench.__file__).parent
FULL = Plan(Path())


def test_the_page_has_the_table_of_what_is_asked() -> None:
    assert f"\n{targets.table(FULL)}\n" in page.PAGE.read_text()


def test_every_target_is_judged_by_a_scenario() -> None:
    """By its key, in the source: one that no scenario names would be neither met nor missed."""
    text = "".join(path.read_text() for path in PAIRS.glob("*.py") if path.name != "targets.py")
    keys = {key for key in BY_KEY if f'"{key}"' in text}
    for formatted in re.findall(r'judged\(\s*f"([^"]+)"', text):
        pattern = re.sub(r"\\{\w+\\}", r"\\w+", re.escape(formatted))
        keys |= {key for key in BY_KEY if re.fullmatch(pattern, key)}
    assert keys == BY_KEY.keys()


def test_names_and_keys_are_unique() -> None:
    assert len(BY_KEY) == len(ASKED) == len({asked.named(FULL) for asked in ASKED})


@pytest.mark.parametrize(
    ("ratios", "met", "met_compiled"),
    [
        ([0.5, 0.65], True, True),
        ([0.5, 0.64], True, False),
        ([0.49, 0.8], False, True),
        ([0.6], True, None),
    ],
)
def test_each_build_has_its_own_bound(ratios: list[float], met: bool, met_compiled: bool | None) -> None:
    made = judged("commits.fsync.throughput", FULL, ratios)
    assert (made.is_met, made.is_met_compiled) == (met, met_compiled)
    assert "| at least 0.5 / 0.65 |" in made.row
    assert page.targets_in(page.scenario([Section("Title", [], [made], "")])) == [made]


def test_a_bound_for_both_builds_is_shown_once() -> None:
    made = judged("storm.delay.time", FULL, [1.0, 1.01])
    assert (made.is_met, made.is_met_compiled) == (True, False)
    assert (
        made.row
        == "| join storm, 1,000 groups of 10: time beyond the delay | 1.00 | 1.01 | at most 1 | yes | **no** |"
    )


def test_a_compiled_build_is_drawn_by_its_own_bound() -> None:
    """The mark of a build that just keeps to its target is on the line in the middle."""
    drawn = page.chart([Target("one", 0.5, 0.5, at_least=True, compiled=0.65, compiled_bound=0.65)])
    middle = page.LABELS + (page.WIDTH - page.LABELS - 60) / 2
    assert f'<rect x="{middle:.0f}" y="28" width="3"' in drawn


def test_names_are_of_the_sizes_of_the_run() -> None:
    made = judged("herd_beside_expiry.joins", quick(Path()), [1.0])
    assert made.what == "one group of 200, delay 0, while 100 other sessions expire: JoinGroups"


def test_the_whole_takes_an_hour_and_a_quarter_at_most() -> None:
    total_s = sum(scenario.estimated_s for scenario in SCENARIOS.values())
    assert total_s <= MOST_S == 4_500


def test_scenarios_are_listed_with_their_estimates_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--list"])
    shown = capsys.readouterr().out
    assert shown == f"{listed(list(SCENARIOS))}\n"
    for name, scenario in SCENARIOS.items():
        assert re.search(rf"^{name} +{scenario.estimated_s} s", shown, re.MULTILINE)
    total_s = sum(scenario.estimated_s for scenario in SCENARIOS.values())
    assert shown.splitlines()[-1].split()[:4] == ["in", "all", f"{total_s:,}", "s,"]


def test_some_are_chosen_by_name_and_played_in_the_order_of_the_page() -> None:
    assert named(["growth", "storms_at_once", "wheel"]) == ["wheel", "herd", "herd_beside_expiry", "growth"]
    assert not TOGETHER.keys() & SCENARIOS.keys()
    with pytest.raises(ValueError, match="no scenario nothing, other; there are wheel, "):
        named(["other", "wheel", "nothing"])


def test_half_of_one_scenario_is_that_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that plays nothing would pass."""
    for tree in range(6):
        monkeypatch.setattr(bench, "tree_id", {ROOT: f"{tree:x}"}.__getitem__)
        bench.main(["--list", "--rotate", "--only", "idle"])
        assert capsys.readouterr().out == f"{listed(['idle'])}\n"


def test_both_halves_are_all_scenarios(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    halves = []
    for tree in ("0", "3"):
        monkeypatch.setattr(bench, "tree_id", {ROOT: tree}.__getitem__)
        bench.main(["--list", "--rotate"])
        halves.append([line.split()[0] for line in capsys.readouterr().out.splitlines()[:-1]])
    assert halves == [list(SCENARIOS)[::2], list(SCENARIOS)[1::2]]


def test_make_hands_on_which_are_chosen() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "bench", "ONLY=herd,cold"],
        cwd=page.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.splitlines()[-1].endswith("-m bench.pairs --write --only herd,cold")
