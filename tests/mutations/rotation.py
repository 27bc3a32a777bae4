"""Which mutants a run in rotation takes: those of code or tests that changed, and a twenty-fifth of the others.

The share follows from the id of the checkout's tree: the same tree takes the same one wherever it is run, and
trees whose ids differ modulo `SHARES` take different ones, so that in the long run every mutant is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.rotation import git
from tests.mutations.mutants import Mutant

SHARES = 25
UPSTREAM = "origin/main"


class UnknownRevision(Exception):
    """A base that was asked for by name, and which git does not have."""


def rotated(mutants: Iterable[Mutant], changed: frozenset[str], tree_id: str) -> list[Mutant]:
    """Of the mutants those that `changed` files concern, and a twenty-fifth of the others; in the order given."""
    all_of_them = list(mutants)
    others = [mutant for mutant in all_of_them if not concerns(mutant, changed)]
    skipped = set(others) - set(others[int(tree_id, 16) % SHARES :: SHARES])
    return [mutant for mutant in all_of_them if mutant not in skipped]


def concerns(mutant: Mutant, changed: frozenset[str]) -> bool:
    """Whether a changed file lies in a package the mutant breaks, is its patch, or holds a test of its net."""
    if any(str(Path(file).parent) in mutant.packages for file in changed):
        return True
    if any(Path(file).name == mutant.patch.name for file in changed):
        return True
    return any(Path(file).is_relative_to(test.partition("::")[0]) for file in changed for test in mutant.net)


def changed_files(root: Path, base: str | None) -> frozenset[str]:
    """What differs from where this branch left `origin/main` (or from `base`), with what is not committed yet.

    Nothing where git knows no such branch, or where there is no repository at all. Raises UnknownRevision if
    `base` was given and is not known.
    """
    if base is None:
        since = git(root, "merge-base", "HEAD", UPSTREAM)
    else:
        since = git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
        if since is None:
            raise UnknownRevision(base)
    if since is None:
        return frozenset()
    differing = git(root, "diff", "--name-only", since.strip()) or ""
    untracked = git(root, "ls-files", "--others", "--exclude-standard") or ""
    return frozenset(differing.splitlines() + untracked.splitlines())
