"""User CPU of this checkout beside that of an earlier commit, in the same run: has a change made anything dearer?

    python -m bench.against_commit --commit 7e117a8 [--rounds 15] [--only heartbeats,commits,storms,start]

The commit's packages are unpacked into a folder that goes with the run. Both daemons have this interpreter and its
installed libraries, and the environment of each is asked whose packages it imports before anything is measured.
Both are pure Python, with the settings that users get, but for the initial delay of rebalances, in which nothing
happens: none for heartbeats and commits, a second for storms. What a round is, and what is counted, is said in
`bench.paired_loads`, and what the interval and the verdict are in `bench.paired`. The CPU in all, which the kernel
knows exactly, is shown beside the user CPU and not judged. The exit status is 1 if anything is worse.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.machine import machine
from bench.paired import TABLE, Comparison, Verdict
from bench.paired_loads import QUICK, SCENARIOS, Amounts, Contender, Run
from bench.pairs.page import PAGE
from bench.pairs.sources import COMPILED_FROM as PACKAGES
from harness.daemon import ROOT

WHERE_FROM: Final = (
    f"import {', '.join(PACKAGES)}\nfor each in ({', '.join(PACKAGES)}):\n    print(each.__file__)"
)
BEGIN, END = "<!-- against a commit: begin -->", "<!-- against a commit: end -->"


class WrongTree(Exception):
    """A contender would not run the source that it stands for."""


def unpack(commit: str, directory: Path) -> None:
    """Put the packages that the commit ships into `directory`. Raises CalledProcessError if there is none such."""
    archive = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, *PACKAGES]
    packed = subprocess.run(archive, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(directory, filter="data")


def described(commit: str) -> str:
    """The commit's short name. Raises CalledProcessError if there is none such."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "--verify", f"{commit}^{{commit}}"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def is_edited() -> bool:
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--", *PACKAGES]
    return bool(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def check_tree(contender: Contender, directory: Path) -> None:
    """Raises WrongTree unless a daemon of `contender` imports its packages from its tree, as Python.

    Asked is a process with the interpreter and the environment that a started daemon really has. The start leaves
    the bytecode there, too, so that none that counts has to compile.
    """
    if compiled := [path.name for package in PACKAGES for path in (contender.tree / package).rglob("*.so")]:
        raise WrongTree(f"{contender.name} is not pure Python: {', '.join(compiled[:3])}")
    with contender.daemon(directory, {}) as daemon:
        process = Path(f"/proc/{daemon.pid}")
        python, *arguments = (process / "cmdline").read_text().split("\0")
        settings = (process / "environ").read_text().split("\0")
        environment = dict(setting.split("=", 1) for setting in settings if setting)
        asked = [python, *(["-P"] if "-P" in arguments else []), "-c", WHERE_FROM]
        working = os.readlink(process / "cwd")
        answered = subprocess.run(
            asked, env=environment, cwd=working, check=True, capture_output=True, text=True
        )
    wanted = [str(contender.tree / package / "__init__.py") for package in PACKAGES]
    if answered.stdout.split() != wanted:
        raise WrongTree(
            f"{contender.name} would run {answered.stdout.split()}, not what is in {contender.tree}"
        )


@dataclass(slots=True)
class Report:
    """What was compared, with the sources it is of."""

    old: str
    new: str
    rounds: int
    load: float = field(default_factory=lambda: os.getloadavg()[0])  # Of others, before anything is measured.
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def text(self) -> str:
        rows = "\n".join(each.row for each in self.comparisons)
        return (
            f"{TABLE}\n{rows}\n\n{datetime.now(UTC):%d %B %Y}, old is {self.old}, new is {self.new}; "
            f"{self.rounds} rounds in turns; {machine()}. Load average before: {self.load:.1f}."
        )

    @property
    def has_worse(self) -> bool:
        return any(each.verdict is Verdict.WORSE for each in self.comparisons)

    def write(self) -> None:
        """Put the table into its place in docs/performance.md."""
        head, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, tail = rest.partition(END)
        PAGE.write_text(f"{head}{BEGIN}\n\n{self.text}\n\n{END}{tail}")


def measure(asked: argparse.Namespace, report: Report) -> None:
    """Play the scenarios that are asked for; their rows go to `report`, and to stderr as they are known."""
    with TemporaryDirectory(prefix="bench-against-") as name:
        directory = Path(name).resolve()
        unpack(asked.commit, directory / "source")
        contenders = (Contender("old", directory / "source"), Contender("new", ROOT))
        for contender in contenders:
            check_tree(contender, directory / "asked")
        for scenario in asked.only:
            began = time.perf_counter()
            run = Run(directory / scenario, contenders, asked.rounds, QUICK if asked.quick else Amounts())
            found = SCENARIOS[scenario](run)
            report.comparisons += found
            rows = "\n".join(each.row for each in found)
            print(f"{rows}\n{scenario}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.against_commit", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--commit", required=True, help="the old contender")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SCENARIOS))
    parser.add_argument("--quick", action="store_true", help="little work: for function, not for numbers")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.only) - set(SCENARIOS):
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    new = described("HEAD") + (" with edits" if is_edited() else "")
    report = Report(described(asked.commit), new, asked.rounds)
    measure(asked, report)
    print(report.text)
    if asked.write:
        report.write()
    return int(report.has_worse)


if __name__ == "__main__":
    sys.exit(main())
