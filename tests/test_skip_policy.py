"""A skip is reported, and where Java is required it fails the run: also under xdist, and for whole modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS, allowed_patterns, not_allowed

ROOT = Path(__file__).parent.parent
SOME_TESTS = """
import pytest

def test_well():
    pass

@pytest.mark.xfail
def test_known_to_fail():
    assert False

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""
WHOLE_MODULE = """
import pytest
pytest.skip("needs the moon", allow_module_level=True)
"""


def run_pytest(folder: Path, *arguments: str, required: bool) -> subprocess.CompletedProcess[str]:
    """A run of its own under the policy."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MUSTER_REQUIRE_JAVA": "1" if required else "0"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        *arguments,
        ".",
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")])
def test_where_java_is_required_a_skip_fails_the_run_and_is_named(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    (tmp_path / "test_module.py").write_text(WHOLE_MODULE)
    done = run_pytest(tmp_path, *workers, required=True)
    assert done.returncode == 1
    assert "NOT ALLOWED test_some.py::test_skipped: Skipped: not today" in done.stdout
    assert "NOT ALLOWED test_module.py: Skipped: needs the moon" in done.stdout
    assert "2 skips fail this run" in done.stdout
    assert "1 passed, 2 skipped, 1 xfailed" in done.stdout.splitlines()[-1]


def test_elsewhere_a_skip_is_reported_and_the_run_is_well(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SOME_TESTS)
    done = run_pytest(tmp_path, required=False)
    assert done.returncode == 0
    assert "test_some.py::test_skipped: Skipped: not today" in done.stdout
    assert "NOT ALLOWED" not in done.stdout


def test_a_run_without_skips_is_well_where_java_is_required(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_well():\n    pass\n")
    assert run_pytest(tmp_path, required=True).returncode == 0


def test_a_pattern_allows_the_skips_that_it_matches_and_no_others() -> None:
    skips = {"tests/test_a.py::test_x[1]": "why", "tests/test_b.py::test_y": "why"}
    patterns = allowed_patterns("# heading\n\ntests/test_a.py::*  # a reason\n")
    assert not_allowed(skips, patterns) == {"tests/test_b.py::test_y": "why"}


def test_every_allowed_skip_has_a_reason_and_there_are_few() -> None:
    lines = [line for line in ALLOWED_SKIPS.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 5
    assert all(line.partition("#")[2].strip() for line in lines)
