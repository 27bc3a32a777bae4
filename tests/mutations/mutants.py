"""What a patch says of itself: which code it breaks, which tests must catch it, whether the simulation must.

Lines that begin with `#` may open a patch; `git apply` skips them. Two kinds mean something here, any other
`# word:` is refused, so that a slip of the pen is not taken for prose:

    # net: tests/storage/test_x.py::test_y tests/z
    # simulation: mixed

The first names paths or node ids that must catch it, in as many lines as it takes (default: DEFAULT_NET); the
second says which simulation sees the mutant: `sees` for that of classic groups (the default), `mixed` for that of
groups with members of both protocols, `backing` for that of logs on another Kafka, `blind` for none, which is then
not run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEFAULT_NET = (
    "tests/groups",
    "tests/offsets",
    "tests/server/test_prepared.py",
    "tests/server/test_group_runner.py",
    "tests/server/test_shard_runner.py",
    "tests/server/test_standing_still.py",
    "tests/storage/test_compaction.py",
    "tests/test_clock.py",
)
OPTIONS: dict[str, tuple[str, ...] | None] = {
    "sees": (),
    "mixed": ("--mixed",),
    "backing": ("--backing",),
    "blind": None,
}
"""With what `python -m tests.simulation` is run; None: not at all."""


class BadHeader(Exception):
    """A patch whose opening lines say something that this runner does not know."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to be wrong: its name, its patch, and who must catch it."""

    name: str
    patch: Path
    net: tuple[str, ...]
    simulation: tuple[str, ...] | None  # The options of the simulation that must catch it, if one must.
    touched: frozenset[str]  # The files that the patch changes.

    @property
    def packages(self) -> frozenset[str]:
        """The directories of the code it breaks, such as `coordinator/groups`."""
        return frozenset(str(Path(file).parent) for file in self.touched)


def mutants() -> list[Mutant]:
    """All of them, by name."""
    return [read_mutant(patch) for patch in sorted(HERE.glob("*.patch"))]


def read_mutant(patch: Path) -> Mutant:
    """What the patch says; raises BadHeader where that cannot be meant."""
    text = patch.read_text()
    touched = frozenset(re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE))
    if not touched:
        raise BadHeader(f"{patch.name}: changes no file")
    net: list[str] = []
    simulation = "sees"
    for key, value in _header(patch.name, text):
        if key == "net":
            net += value.split()
        else:
            simulation = value
    if simulation not in OPTIONS:
        raise BadHeader(f"{patch.name}: simulation is one of {', '.join(OPTIONS)}, not {simulation!r}")
    return Mutant(patch.stem, patch, tuple(net) or DEFAULT_NET, OPTIONS[simulation], touched)


def _header(name: str, text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if stated := re.match(r"# ?(\w+):\s*(.*)", line):
            key, value = stated[1], stated[2].strip()
            if key not in ("net", "simulation") or not value:
                raise BadHeader(f"{name}: {line!r} is neither `# net:` nor `# simulation:` with a value")
            found.append((key, value))
    return found
