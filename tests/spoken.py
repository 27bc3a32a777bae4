"""Which versions of which APIs real clients speak: what the daemons of a test run recorded, and docs/apis.md.

`python -m tests.spoken` prints the table, `--write` puts it on the page, and `--check` fails if the page names a
version that no client of this run spoke. What the project's own codec sent does not count: it says who it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from protocol.messages import REQUESTS
from protocol.versions import SUPPORTED
from tests.daemon import ROOT
from tests.recording_daemon import FOLDER

PAGE: Final = ROOT / "docs" / "apis.md"
BEGIN, END = "<!-- spoken: begin -->", "<!-- spoken: end -->"
OWN_CLIENTS: Final = ("wire", "muster", "bench")
"""What client ids of our own codec begin with."""

HEAD: Final = "| Key | API | spoken by real clients | by our own codec alone |\n|---|---|---|---|"

Spoken = Mapping[int, frozenset[int]]
"""The versions of each API."""


def recorded(folder: Path = FOLDER) -> Spoken:
    """What the files in `folder` say that clients spoke."""
    lines = (line for file in sorted(folder.glob("*.txt")) for line in file.read_text().splitlines())
    return spoken_in(lines)


def spoken_in(lines: Iterable[str]) -> Spoken:
    found: dict[int, set[int]] = {}
    for line in lines:
        key, version, client_id = line.split(" ", 2)
        if not client_id.startswith(OWN_CLIENTS):
            found.setdefault(int(key), set()).add(int(version))
    return {key: frozenset(versions) for key, versions in found.items()}


def served() -> Spoken:
    return {key: frozenset(range(SUPPORTED[key][0], SUPPORTED[key][1] + 1)) for key in REQUESTS}


def table(spoken: Spoken) -> str:
    rows = [_row(key, versions, spoken.get(key, frozenset())) for key, versions in sorted(served().items())]
    return "\n".join([HEAD, *rows])


def _row(key: int, versions: frozenset[int], spoken: frozenset[int]) -> str:
    name = REQUESTS[key].__name__.removesuffix("Request")
    return f"| {key} | {name} | {ranges(versions & spoken)} | {ranges(versions - spoken)} |"


def ranges(versions: Iterable[int]) -> str:
    """As people write them: "0-3, 7"; "-" for none."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and version == runs[-1][-1] + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs) or "-"


def claimed(page: str) -> Spoken:
    """What the page says that real clients speak."""
    _, _, rest = page.partition(BEGIN)
    rows = [line.split("|") for line in rest.partition(END)[0].splitlines() if line.startswith("| ")]
    return {int(row[1]): _versions(row[3]) for row in rows if row[1].strip().isdecimal()}


def _versions(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.strip().split(", "):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def unproved(page: str, spoken: Spoken) -> dict[int, frozenset[int]]:
    """What the page claims, and no client spoke."""
    missing = {key: versions - spoken.get(key, frozenset()) for key, versions in claimed(page).items()}
    return {key: versions for key, versions in missing.items() if versions}


def main(command: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spoken", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="put the table on docs/apis.md")
    parser.add_argument("--check", action="store_true", help="fail if the page claims what was not spoken")
    asked = parser.parse_args(command)
    spoken, page = recorded(), PAGE.read_text()
    if asked.write:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table(spoken)}\n{END}{rest.partition(END)[2]}")
    elif asked.check:
        count = sum(map(len, spoken.values()))
        for key, versions in unproved(page, spoken).items():
            print(f"docs/apis.md: no client of this run spoke version {ranges(versions)} of API {key}")
        print(f"{count} versions of {len(spoken)} APIs were spoken by real clients")
        return 1 if unproved(page, spoken) or not spoken else 0
    else:
        print(table(spoken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
