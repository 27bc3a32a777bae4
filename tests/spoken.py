"""Which versions of which APIs real clients speak: what the daemons of a test run recorded, and docs/apis.md.

`python -m tests.spoken` prints the table, `--write` puts it on the page, and `--check` fails wherever the page
and the run differ: a version on the left that no client of this run spoke, one on the right that a client did
speak, one that is served and on neither side. What the project's own codec sent does not count: it says who it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from coordinator.server.api_table import api_table
from harness.daemon import ROOT
from harness.recording_daemon import FOLDER
from protocol.messages import REQUESTS

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
    """What a connection lets through to a handler: Produce 0 to 2, which are only reported, are not of it."""

    def handle(request: Any, pending: Any) -> None: ...

    table = api_table(dict.fromkeys(REQUESTS, handle))
    return {key: frozenset(range(api.min_version, api.max_version + 1)) for key, api in table.items()}


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
    return {key: left for key, (left, _) in _columns(page).items()}


def _columns(page: str) -> dict[int, tuple[frozenset[int], frozenset[int]]]:
    """By API: what real clients speak, and what our own codec alone does."""
    _, _, rest = page.partition(BEGIN)
    rows = [line.split("|") for line in rest.partition(END)[0].splitlines() if line.startswith("| ")]
    return {int(row[1]): (_versions(row[3]), _versions(row[4])) for row in rows if row[1].strip().isdecimal()}


def _versions(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.strip().split(", "):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def wrong_rows(page: str) -> Iterator[str]:
    """What is wrong whatever was spoken: the two columns have each version that is served once, and no other."""
    columns = _columns(page)
    for key, versions in served().items():
        left, right = columns.get(key, (frozenset[int](), frozenset[int]()))
        for wrong, what in (
            (versions - left - right, "is served and in no column"),
            ((left | right) - versions, "is not served"),
            (left & right, "is in both columns"),
        ):
            if wrong:
                yield f"API {key}: version {ranges(wrong)} {what}"


def differences(page: str, spoken: Spoken) -> Iterator[str]:
    """Where the page and a run differ, as lines for people."""
    for key, (left, right) in _columns(page).items():
        now = spoken.get(key, frozenset())
        if unproved := left - now:
            yield f"API {key}: no client of this run spoke version {ranges(unproved)}"
        if proved := right & now:
            yield f"API {key}: version {ranges(proved)} is not spoken by our own codec alone"


def main(command: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spoken", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="put the table on docs/apis.md")
    parser.add_argument("--check", action="store_true", help="fail if the page differs from what was spoken")
    asked = parser.parse_args(command)
    spoken, page = recorded(), PAGE.read_text()
    if asked.write:
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table(spoken)}\n{END}{rest.partition(END)[2]}")
    elif asked.check:
        found = [*wrong_rows(page), *differences(page, spoken)]
        for line in found:
            print(f"docs/apis.md: {line}")
        print(f"{sum(map(len, spoken.values()))} versions of {len(spoken)} APIs were spoken by real clients")
        return 1 if found or not spoken else 0
    else:
        print(table(spoken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
