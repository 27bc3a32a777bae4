"""What takes long runs in turns: a part of it with each change, chosen by the id of the checkout's tree.

A tree takes the same part wherever it is tested, and trees take all parts alike, so everything runs within a few
changes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def tree_id(root: Path) -> str:
    """The id of the tree that is checked out, in hexadecimal digits; without a repository always the same."""
    return (git(root, "rev-parse", "HEAD^{tree}") or "0").strip()


def share_of(items: Sequence[T], tree: str, shares: int) -> Sequence[T]:
    """One in `shares` of the items; the tree's id says which is the first.

    Its quotient by three, so that who takes this half does not always take the same share of the mutants.
    """
    return items[int(tree, 16) // 3 % shares :: shares]


def git(root: Path, *command: str) -> str | None:
    """What git prints; None if it fails, or is not here."""
    try:
        ran = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return ran.stdout if ran.returncode == 0 else None
