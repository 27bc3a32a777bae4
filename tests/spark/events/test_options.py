"""What the event jobs refuse before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.spark import commands
from muster.spark.jobs.options import RefusedRunError, parse_share, parse_window_ms


@pytest.mark.parametrize("value", [0.0, 0.2, 0.999])
def test_a_share_is_below_one(value: float) -> None:
    assert parse_share("storm-share", value) == value


@pytest.mark.parametrize("value", [-0.1, 1.0, 20.0, float("nan"), float("inf")])
def test_what_is_no_share_is_refused(value: float) -> None:
    with pytest.raises(RefusedRunError, match="--storm-share"):
        parse_share("storm-share", value)


@pytest.mark.parametrize(
    ("text", "window_ms"), [("1m", 60_000), ("5m", 300_000), ("600s", 600_000), ("1h", 3_600_000)]
)
def test_a_window_fills_a_day_a_whole_number_of_times(text: str, window_ms: int) -> None:
    assert parse_window_ms("storm-window", text) == window_ms


@pytest.mark.parametrize("text", ["7m", "2h", "30s", "five", "0m"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(RefusedRunError, match="--storm-window"):
        parse_window_ms("storm-window", text)


@pytest.mark.parametrize(
    "thresholds", [commands.ThresholdOptions(storm_share=2.0), commands.ThresholdOptions(storm_window="7m")]
)
def test_the_command_refuses_them_before_it_makes_anything(
    thresholds: commands.ThresholdOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tables"
    assert commands.run("rebalances", out=out, thresholds=thresholds) == commands.STATUS_FAILED
    assert "--storm-" in capsys.readouterr().err
    assert not out.exists()
