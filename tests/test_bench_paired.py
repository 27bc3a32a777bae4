"""What a paired run says: the interval by order statistics, the verdict by the interval, and whose turn it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

import bench.against_commit
from bench.against_commit import BEGIN, END, Report, WrongTree, check_tree
from bench.paired import Comparison, Interval, Spent, Verdict, coverage, interval_of, turns
from bench.paired_loads import Contender
from bench.pairs.page import PAGE


def test_of_fifteen_rounds_the_interval_is_from_the_fourth_to_the_twelfth() -> None:
    changes = [float(value) for value in range(1, 16)]
    random.Random(1).shuffle(changes)
    assert interval_of(changes) == Interval(4.0, 8.0, 12.0, coverage(15, 3))
    assert coverage(15, 3) == pytest.approx(0.9648, abs=1e-4)
    assert coverage(15, 4) < 0.95


@pytest.mark.parametrize(
    ("count", "low", "high", "covered"), [(5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (9, 2, 8, 0.9609375)]
)
def test_the_interval_of_few_rounds(count: int, low: float, high: float, covered: float) -> None:
    """By hand: of six rounds all lie on one side of the median once in 32 times."""
    interval = interval_of([float(value) for value in range(1, count + 1)])
    assert (interval.low, interval.high, interval.coverage) == (low, high, covered)


def test_one_round_has_no_interval() -> None:
    assert interval_of([7.0]) == Interval(7.0, 7.0, 7.0, 0.0)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    """Of a distribution with a long tail, as a shared machine's noise has, whose median is known."""
    draw, runs = random.Random(2), 4_000
    median_of_exponential = 0.6931
    caught = 0
    for _ in range(runs):
        interval = interval_of([draw.expovariate(1.0) for _ in range(15)])
        caught += interval.low <= median_of_exponential <= interval.high
    assert caught / runs == pytest.approx(coverage(15, 3), abs=0.01)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (3.1, 5.0, Verdict.WORSE),
        (3.0, 5.0, Verdict.NOT_SHOWN_WORSE),
        (-4.0, 3.1, Verdict.NOT_SHOWN_WORSE),
        (0.1, 3.0, Verdict.NOT_WORSE),
        (-1.0, 0.0, Verdict.NOT_WORSE),
        (-5.0, -0.1, Verdict.BETTER),
    ],
)
def test_worse_is_what_lies_wholly_beyond_what_is_allowed(low: float, high: float, verdict: Verdict) -> None:
    assert Interval(low, (low + high) / 2, high, 0.96).verdict(3.0) is verdict


def test_too_few_rounds_have_no_verdict() -> None:
    assert Interval(10.0, 20.0, 30.0, 0.9375).verdict(3.0) is Verdict.TOO_FEW


def rounds(old: Sequence[float], new: Sequence[float]) -> list[tuple[Spent, Spent]]:
    """Rounds whose total is twice the user CPU, and the same on both sides."""
    return [(Spent(a, 2 * a), Spent(b, 2 * a)) for a, b in zip(old, new, strict=True)]


def test_a_change_is_of_each_round_by_itself() -> None:
    """Every round is 4 % dearer, while the machine's own swings are far greater: they go out in pairs."""
    old = [10.0, 14.0, 9.0, 22.0, 11.0, 17.0]
    compared = Comparison("beat", "us", rounds(old, [each * 1.04 for each in old]), 3.0)
    assert compared.user.low == pytest.approx(4.0)
    assert compared.user.high == pytest.approx(4.0)
    assert compared.verdict is Verdict.WORSE
    assert compared.total.median == 0.0
    assert compared.row == (
        f"| beat | us | {median(old):.2f} | {median(old) * 1.04:.2f} | +4.00 % | +4.00 to +4.00 | +3 % "
        "| **worse** | +0.00 % (+0.00 to +0.00) |"
    )


def test_an_absolute_change_is_in_the_unit() -> None:
    """1.5 us of 10 are 15 %, and less than the 2 us that are allowed."""
    compared = Comparison("commit", "us", rounds([10.0] * 15, [11.5] * 15), 2.0, is_absolute=True)
    assert compared.verdict is Verdict.NOT_WORSE
    assert "| +1.50 us | +1.50 to +1.50 | +2 us | not worse |" in compared.row


def test_work_that_no_tick_saw_is_an_error() -> None:
    compared = Comparison("beat", "us", rounds([0.0] * 6, [1.0] * 6), 3.0)
    with pytest.raises(ValueError, match="too little work"):
        _ = compared.user


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("each", [1, 2, 4])
def test_both_take_as_many_turns_and_rounds_begin_by_turns(number: int, each: int) -> None:
    order = turns(number, each)
    assert order[0] == number % 2
    assert order.count(0) == order.count(1) == each


def test_slices_go_there_and_back() -> None:
    assert turns(0, 4) == [0, 1, 1, 0, 0, 1, 1, 0]
    assert turns(1, 2) == [1, 0, 0, 1]


def test_the_table_takes_the_place_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold table\n{END}\nafter\n")
    monkeypatch.setattr(bench.against_commit, "PAGE", page)
    compared = Comparison("beat", "us", rounds([10.0] * 15, [10.5] * 15), 3.0)
    report = Report("aaaaaaa", "bbbbbbb", 15, 0.5, [compared])
    report.write()
    report.write()
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert (text.count(compared.row), text.count("old table")) == (1, 0)
    assert report.has_worse


def test_the_page_has_the_place() -> None:
    text = PAGE.read_text()
    assert text.index(BEGIN) < text.index(END)


def test_a_compiled_contender_is_refused(tmp_path: Path) -> None:
    """One module of C is enough; and nothing is started for it."""
    module = tmp_path / "tree" / "storage" / "log" / "writer.cpython-311-x86_64-linux-gnu.so"
    module.parent.mkdir(parents=True)
    module.touch()
    with pytest.raises(WrongTree, match=module.name):
        check_tree(Contender("old", tmp_path / "tree"), tmp_path / "asked")
    assert not (tmp_path / "asked").exists()
