"""A report of 100,000 groups over a week: the size of the page, and what it takes to make it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from muster.spark.report.page import plotly_js
from tests.spark.report.test_bounds import PAGE_BYTES_MAX, many_groups

GROUPS = 100_000
LAG_ROWS, REBALANCE_ROWS = 3_000_000, 600_000
MEMORY_MB_MAX = 1_500
MEASURED = """
import resource, sys
from harness.own_memory import peak_kib
from muster.spark.commands import app
app(sys.argv[1:], result_action="return_value")
used = resource.getrusage(resource.RUSAGE_SELF)
print(peak_kib() // 1024, round(used.ru_utime + used.ru_stime, 1))
"""


def test_a_page_of_100_000_groups_stays_small(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    many_groups(
        tmp_path, np.random.default_rng(11), groups=GROUPS, lag_rows=LAG_ROWS, rebalance_rows=REBALANCE_ROWS
    )
    page = tmp_path / "page.html"
    command = [sys.executable, "-c", MEASURED, "report", "--tables", str(tmp_path), "--out", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    said, measured = done.stdout.splitlines()
    memory_mb, cpu_s = map(float, measured.split())
    assert f": {GROUPS:,} groups, {REBALANCE_ROWS:,} rebalances, " in said
    own = page.stat().st_size - len(plotly_js().encode())
    figure = f"{own / 1e6:.1f} MB beside plotly.js, {memory_mb:.0f} MB of memory, {cpu_s:.1f} s of CPU"
    rows = LAG_ROWS + REBALANCE_ROWS
    record_property("figure", f"report of {GROUPS:,} groups, {rows:,} rows: {figure}")
    assert own < PAGE_BYTES_MAX
    assert memory_mb < MEMORY_MB_MAX
