"""The share of a tree: never none of something, and never the same for all trees because git has failed."""

from __future__ import annotations

import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from harness.rotation import GitFailed, number_of_shares, share_of, tree_id


@pytest.mark.parametrize("shares", range(1, 6))
@pytest.mark.parametrize("count", range(1, 8))
def test_every_item_is_in_some_share_and_no_share_is_empty(count: int, shares: int) -> None:
    items = range(count)
    taken = [share_of(items, f"{tree:x}", shares) for tree in range(3 * shares)]
    assert all(taken)
    assert {item for share in taken for item in share} == set(items)
    assert max(len(share) for share in taken) == -(-count // shares)


def test_of_nothing_the_share_is_nothing() -> None:
    assert share_of((), "5", 2) == ()


def test_a_number_of_shares_is_1_or_more() -> None:
    assert [number_of_shares(text) for text in ("1", "15")] == [1, 15]
    for text in ("0", "-2", "1.5", "", "two", "²"):
        with pytest.raises(ArgumentTypeError, match="one in how many is a whole number from 1 on, not "):
            number_of_shares(text)


def test_without_a_repository_every_tree_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installed copy, with git or without it."""
    assert tree_id(tmp_path) == "0"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tree_id(tmp_path) == "0"


def test_a_folder_of_a_repository_has_its_tree(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "build").mkdir()
    (tmp_path / "some.py").write_text("")
    git(tmp_path, "add", "some.py")
    git(tmp_path, "commit", "-q", "-m", "some")
    tree = git(tmp_path, "write-tree").strip()
    assert tree_id(tmp_path) == tree_id(tmp_path / "build") == tree


@pytest.mark.parametrize("folder", ["", "build/installed"])
def test_a_repository_that_git_cannot_read_has_no_tree(tmp_path: Path, folder: str) -> None:
    (tmp_path / ".git").write_text("gitdir: /not/there\n")  # As a worktree that was copied elsewhere.
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    with pytest.raises(GitFailed, match=r"git cannot tell the tree of .*not a git repository"):
        tree_id(tmp_path / folder)


def test_a_repository_without_git_has_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitFailed, match="lies in a git repository, and git is not installed"):
        tree_id(tmp_path)


def git(repository: Path, *command: str) -> str:
    own = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    command = ("git", *own, *command)
    return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout
