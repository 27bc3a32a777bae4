"""The whole demo, as `make demo` runs it but for its pace: every flight of the year, and the Spark job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.demo.flights import ROWS

PACE_S = "5"  # What three members would need for all rows; the demo itself takes its time, to be watched.
TIMEOUT_S = 540
ROW = re.compile(r"^│ ([^│]+)│ +([\d,]+) │ ([^│]*)│$", re.MULTILINE)

pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


def test_every_flight_comes_through_and_spark_agrees_with_pandas(java: None, tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "bench.demo", "--seconds", PACE_S],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "COLUMNS": "160", "TMPDIR": str(tmp_path)},
    )
    assert shown.returncode == 0, shown.stdout[-4000:] + shown.stderr[-4000:]
    rows = {name.strip(): (figure.strip(), mark) for name, figure, mark in ROW.findall(shown.stdout)}
    for name in ("rows produced", "rows in the log", "distinct rows consumed", "Spark: flights"):
        figure, mark = rows[name]
        assert (figure, mark[:1]) == (f"{ROWS:,}", "✓"), shown.stdout[-4000:]
    assert rows["Spark: differences"][0] == "0"
    assert "each as by pandas" in rows["Spark: airport hours"][1]
    assert "Spark is left out" not in shown.stdout
