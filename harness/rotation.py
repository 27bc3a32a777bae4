"""What takes long runs in turns: a part of it with each change, chosen by the id of the checkout's tree.

A tree takes the same part wherever it is tested, and trees take all parts alike, so everything runs within a few
changes.
"""

from __future__ import annotations

import subprocess
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class GitFailed(Exception):
    """Git does not answer in a checkout, so every tree would take the same part."""


def tree_id(root: Path) -> str:
    """The id of the tree that is checked out, in hexadecimal digits; "0" where there is no repository at all.

    Raises GitFailed in a repository whose git is not here, or fails.
    """
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return "0"
    try:
        ran = _run(root, "rev-parse", "HEAD^{tree}")
    except FileNotFoundError:
        raise GitFailed(f"{root} lies in a git repository, and git is not installed") from None
    if ran.returncode != 0:
        raise GitFailed(f"git cannot tell the tree of {root}: {ran.stderr.strip()}")
    return ran.stdout.strip()


def number_of_shares(text: str) -> int:
    """The N of an option `--rotate N`; raises ArgumentTypeError, with a sentence for users, if it is none."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"one in how many is a whole number from 1 on, not {text!r}")
    return int(text)


def share_of(items: Sequence[T], tree: str, shares: int) -> Sequence[T]:
    """One in `shares` of the items, but at least one if there are any; the tree's id says which is the first.

    Its quotient by three, so that who takes this half does not always take the same share of the mutants.
    """
    assert shares >= 1
    step = max(1, min(shares, len(items)))  # In more shares than there are items some would be empty.
    return items[int(tree, 16) // 3 % step :: step]


def git(root: Path, *command: str) -> str | None:
    """What git prints; None if it fails, or is not here."""
    try:
        ran = _run(root, *command)
    except FileNotFoundError:
        return None
    return ran.stdout if ran.returncode == 0 else None


def _run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # Only what is there is read, so it may be another user's checkout, as in many containers.
    return subprocess.run(
        ["git", "-c", "safe.directory=*", *command], cwd=root, capture_output=True, text=True, check=False
    )
