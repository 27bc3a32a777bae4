"""Breaks the daemon on purpose and looks who notices: `python -m tests.mutations [NAME ...]`.

Each patch beside this file is one way to be wrong. It is applied to a copy of the checkout; then the tests of the
core and the simulation run there until the first fails. Both nets have to hold: the status is 1 if a mutant
gets through either. The runs' own status is not enough - a mutant that cannot be imported is caught by
anything - so what is named is the test, or the seed and the promise it saw broken.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPIED = ("coordinator", "protocol", "storage", "muster", "tests", "pyproject.toml")
TESTS = (
    "tests/groups",
    "tests/offsets",
    "tests/server/test_commit_again.py",
    "tests/server/test_group_runner.py",
    "tests/server/test_shard_runner.py",
    "tests/server/test_standing_still.py",
    "tests/storage/test_compaction.py",
    "tests/test_clock.py",
)
SEEDS = 2_000
TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who caught a mutant: a test by its id, and a seed by what it saw. None: nobody."""

    name: str
    test: str | None
    seed: str | None

    @property
    def is_caught(self) -> bool:
        return self.test is not None and self.seed is not None


def patches() -> list[Path]:
    return sorted(HERE.glob("*.patch"))


def main(names: list[str]) -> int:
    chosen = [patch for patch in patches() if not names or patch.stem in names]
    if unknown := set(names) - {patch.stem for patch in chosen}:
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    start = time.monotonic()
    verdicts = []
    for patch in chosen:
        verdicts.append(_judge(patch))
        _tell(verdicts[-1])
    caught = sum(verdict.is_caught for verdict in verdicts)
    print(f"{len(verdicts)} mutants, {caught} caught by both nets, {time.monotonic() - start:.0f} s")
    return 0 if caught == len(verdicts) else 1


def _judge(patch: Path) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        subprocess.run(["git", "apply", str(patch)], cwd=copy, check=True)
        return Verdict(patch.stem, _test_that_fails(copy), _seed_that_fails(copy))


def _test_that_fails(copy: Path) -> str | None:
    ran = _run(copy, "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS)
    failed = re.search(r"^FAILED (\S+)", ran.stdout, re.MULTILINE)
    return failed[1] if failed else None


def _seed_that_fails(copy: Path) -> str | None:
    ran = _run(copy, "tests.simulation", "--seeds", str(SEEDS), "--until-failure")
    failed = re.search(r"^(.*)\n.*--seed (\d+)$", ran.stdout, re.MULTILINE)
    return f"seed {failed[2]}: {failed[1]}" if failed else None


def _run(copy: Path, *module: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def _tell(verdict: Verdict) -> None:
    print(verdict.name)
    print(f"  test: {verdict.test or 'NOT CAUGHT'}")
    print(f"  simulation: {(verdict.seed or 'NOT CAUGHT')[:160]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
