"""Which lines and cells of docs/kafka.md a run has shown, by which net, which are equal, what shows the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.conformance.lines import (
    BEYOND,
    CELLS,
    DURABLE,
    LINES,
    NETS,
    PROOFS,
    SYNCED,
    Cells,
    Net,
)
from tests.conformance.registry import Ending
from tests.conformance.suite import Outcome

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class ToCover:
    """What a run has to show: lines, and cells with their versions."""

    lines: tuple[str, ...] = LINES
    cells: Cells = field(default_factory=lambda: CELLS)


class Coverage:
    """What `outcomes` show of what is to be covered, all of LINES and CELLS unless that is less."""

    def __init__(self, outcomes: list[Outcome], to_cover: ToCover | None = None) -> None:
        self._to_cover = to_cover or ToCover()
        self._seen: dict[str, set[int | None]] = {}
        self._scenarios: dict[str, set[str]] = {}
        self._broken: set[str] = set()
        for outcome in outcomes:
            for line in outcome.case.lines:
                if not outcome.is_equal:
                    self._broken.add(line)
                if line not in DURABLE or _is_killed_amid(outcome):
                    self._seen.setdefault(line, set()).add(outcome.case.version)
                    self._scenarios.setdefault(line, set()).add(outcome.case.scenario.name)

    @property
    def missing(self) -> list[str]:
        """What is not covered; cells with the versions that are missing."""
        return [line for line in self._to_cover.lines if line not in self._seen] + [
            cell + (f" (versions {', '.join(map(str, versions))})" if versions else "")
            for cell in self._to_cover.cells
            if (versions := self._missing_versions(cell)) is not None
        ]

    def counts(self) -> Iterator[str]:
        """The counts, as lines for people."""
        all_lines, all_cells = self._to_cover.lines, self._to_cover.cells
        lines = [line for line in all_lines if line in self._seen]
        cells = [cell for cell in all_cells if self._missing_versions(cell) is None]
        for name, there, covered in (("lines", all_lines, lines), ("cells", all_cells, cells)):
            equal = [each for each in covered if each not in self._broken]
            yield (
                f"{name} of docs/kafka.md: {len(there)} to cover, {len(covered)} covered, {len(equal)} equal in "
                "all versions they hold for"
            )
        for net in Net:
            its_lines = [line for line, own in NETS.items() if own is net]
            names = "" if net is Net.LIVE else f": {', '.join(its_lines)}"
            yield f"lines of docs/kafka.md shown {net}: {len(its_lines)}{names}"
        alone = [line for line in all_lines if len(self._scenarios.get(line, ())) == 1]
        yield f"lines that rest on a single scenario: {len(alone)}: {', '.join(alone)}"
        if self._broken:
            yield f"not equal: {', '.join(sorted(self._broken))}"

    def _missing_versions(self, cell: str) -> list[int] | None:
        """The versions in which `cell` was not shown, or None if it was in all of them."""
        seen = self._seen.get(cell)
        if seen is None:
            return list(self._to_cover.cells[cell])
        return [version for version in self._to_cover.cells[cell] if version not in seen] or None


def _is_killed_amid(outcome: Outcome) -> bool:
    """Whether the broker was killed while answers came, or is to be where the case was not played."""
    played = all(run.was_ended_amid for run in outcome.runs.values())
    return outcome.case.ending is Ending.KILL and played


def proofs_elsewhere(root: Path = ROOT) -> dict[str, list[str]]:
    """The ids of the tests that prove what scenarios do not, by line, read from their source."""
    found: dict[str, list[str]] = {}
    for line, prefix in PROOFS.items():
        path, name = prefix.split("::")
        source = (root / path).read_text() if (root / path).exists() else ""
        tests = re.findall(rf"^\s*(?:async )?def ({re.escape(name)}\w*)\(", source, re.MULTILINE)
        found[line] = [f"{path}::{test}" for test in tests]
    return found


def lines_elsewhere() -> Iterator[str]:
    """What is shown by other tests, and what is not to be shown, as lines for people."""
    for line, tests in proofs_elsewhere().items():
        half = "that a disk has synced it, " if line in SYNCED else ""
        yield from (f"shown elsewhere: {half}{line} by {test}" for test in tests)
    for cells, reason in BEYOND.items():
        yield f"not to be shown: {cells}: {reason}"
