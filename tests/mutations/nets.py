"""Copies of the checkout, broken by a patch or whole, and what the tests and the simulation say of them.

A run's own status is not enough, for a mutant that cannot be imported is caught by anything: what counts is the
test that failed, or the seed and the promise it saw broken. And neither counts unless it holds on the whole copy:
a test that fails there, or is skipped, would be credited with catches it never made.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutations.mutants import ROOT, Mutant

COPIED = (
    "coordinator",
    "harness",
    "protocol",
    "storage",
    "muster",
    "tests",
    "tools",
    "bench",
    "docs",
    "pyproject.toml",
    "Makefile",
)
SEEDS = 2_000
TIMEOUT_S = 900
PATIENCE_S = "30"  # For what a mutant keeps from coming.
TEST_TIMEOUT_S = 240  # A mutant that hangs is caught by the test that hangs.
PYTEST = ("pytest", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", f"timeout={TEST_TIMEOUT_S}")


def copy_of(source: Path, copy: Path) -> None:
    """Copy what the tests run on, with its byte code: that of a file which a patch changes is out of date."""
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, copy / name, symlinks=True)
        elif (source / name).exists():
            shutil.copy2(source / name, copy / name)


def break_it(copy: Path, mutant: Mutant) -> None:
    """Apply the patch to the copy. Raises SyntaxError if that is no Python then: whatever starts it would fail."""
    subprocess.run(["git", "apply", str(mutant.patch)], cwd=copy, check=True)
    for name in re.findall(r"^\+\+\+ b/(\S+\.py)$", mutant.patch.read_text(), re.MULTILINE):
        compile((copy / name).read_text(), name, "exec")


def test_that_fails(copy: Path, net: tuple[str, ...]) -> str | None:
    """The first test of the net that fails on this copy, by its id."""
    ran = _run(copy, *PYTEST, *net)
    failed = re.search(r"^FAILED (.+?)(?: - .*)?$", ran, re.MULTILINE)
    return failed[1] if failed else None


def objection(whole: Path, net: tuple[str, ...]) -> str | None:
    """Why this net proves nothing: what of it fails or is skipped on the copy that nothing has broken."""
    ran = _run(whole, *PYTEST, *net)
    last = ran.strip().splitlines()[-1].strip("= ") if ran.strip() else "no output"
    if not re.fullmatch(r"\d+ passed(, \d+ warnings?)? in .*", last):
        failed = re.search(r"^(?:FAILED|ERROR) .*$", ran, re.MULTILINE)
        return f"{failed[0]} ({last})" if failed else last
    return None


def seed_that_fails(copy: Path, options: tuple[str, ...], workers: int) -> tuple[int, str] | None:
    """The first seed that the simulation fails at on this copy, and what it saw."""
    many = ("--seeds", str(SEEDS), "--until-failure", "--workers", str(workers))
    ran = _run(copy, "tests.simulation", *options, *many)
    failed = re.search(r"^(.*)\n.*--seed (\d+)$", ran, re.MULTILINE)
    return (int(failed[2]), failed[1]) if failed else None


def seed_passes(whole: Path, options: tuple[str, ...], seed: int) -> bool:
    """Whether that history goes well on the copy that nothing has broken."""
    command = [sys.executable, "-m", "tests.simulation", *options, "--seed", str(seed)]
    return (
        subprocess.run(command, cwd=whole, capture_output=True, check=False, timeout=TIMEOUT_S).returncode
        == 0
    )


def _run(copy: Path, *module: str) -> str:
    command = [sys.executable, "-m", *module]
    assert copy != ROOT  # What runs here may be broken.
    env = os.environ | {"MUSTER_PATIENCE_S": PATIENCE_S}
    ran = subprocess.run(
        command, cwd=copy, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return ran.stdout
