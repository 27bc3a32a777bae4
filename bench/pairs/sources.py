"""What a compiled build is made of, as text: `python -m bench.pairs.sources FILE` writes it, where it has changed.

`make compiled` puts what it found when it began into the build. A build from before an edit, or from amid one, or
with a module that is gone, would be measured in the name of a checkout that it is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COMPILED_TREE: Final = ROOT / "build" / "compiled"
COMPILED_FROM: Final = ("coordinator", "muster", "protocol", "storage")
STAMP: Final = ".built"


def sources(root: Path = ROOT) -> str:
    """A line for each file: the digest of what is in it, and its path."""
    return "".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in _files(root)
    )


def _files(root: Path) -> Iterator[Path]:
    yield root / "setup.py"
    for room in COMPILED_FROM:
        yield from sorted((root / room).rglob("*.py"))


def is_current(tree: Path = COMPILED_TREE, root: Path = ROOT) -> bool:
    """Whether `tree` holds what `make compiled` makes of `root` as it is now."""
    stamp = tree / STAMP
    return stamp.exists() and stamp.read_text() == sources(root)


def write(path: Path, root: Path = ROOT) -> None:
    """Write them to `path`, whose time stays if they are the same: make goes by it."""
    found = sources(root)
    if not path.exists() or path.read_text() != found:
        path.write_text(found)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
