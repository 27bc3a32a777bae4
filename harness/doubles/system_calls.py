"""Records the system calls that reach the disk, in the order in which they return, and makes every one of them.

The double in `faulty_files` takes the place of `Files`: it cannot say whether the real one asks the system for
anything. This recorder wraps the functions of `os` that `storage/files.py` ends in and calls them: what it notes
has happened, to the file that the descriptor is open on. Opening to read and reading are not noted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

CHANGING = ("pwritev", "ftruncate", "fdatasync", "fsync")  # Their first argument is a descriptor.


class SystemCalls:
    """`calls` has one text per call on a file below `root`, as `fdatasync t-0/00000000000000000000.log`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._root = str(root)
        self._guard = Lock()
        for name in CHANGING:
            monkeypatch.setattr(os, name, self._of_descriptor(name, getattr(os, name)))
        for name in ("mkdir", "unlink", "rmdir"):
            monkeypatch.setattr(os, name, self._of_path(name, getattr(os, name)))
        monkeypatch.setattr(os, "rename", self._renaming(os.rename))
        monkeypatch.setattr(os, "open", self._opening(os.open))

    def note(self, event: str) -> None:
        """Add a mark of the test's own to the calls."""
        with self._guard:
            self.calls.append(event)

    def taken(self) -> list[str]:
        """Return the calls since the last `taken`, and forget them."""
        with self._guard:
            calls, self.calls = self.calls, []
        return calls

    def _of_descriptor(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *arguments: Any) -> Any:
            done = real(fd, *arguments)
            self._note(name, os.readlink(f"/proc/self/fd/{fd}"))
            return done

        return call

    def _of_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            done = real(path, *arguments, **named)
            self._note(name, os.fspath(path))
            return done

        return call

    def _renaming(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(source: Any, target: Any, **named: Any) -> None:
            real(source, target, **named)
            self._note("rename", os.fspath(source), Path(target).name)

        return call

    def _opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
            fd = real(path, flags, *arguments, **named)
            if is_new:
                self._note("create", os.fspath(path))
            return fd

        return call

    def _note(self, name: str, path: str, *more: str) -> None:
        if path == self._root or path.startswith(self._root + "/"):
            self.note(" ".join((name, os.path.relpath(path, self._root), *more)))


def atomically(name: str, *, sync_name: bool = True) -> list[str]:
    """The calls that `Files.write_atomically` makes: a draft is written, synced and renamed, the rename synced."""
    path = Path(name)
    draft = f"{name}.tmp"
    calls = [f"create {draft}", f"ftruncate {draft}", f"pwritev {draft}", f"fdatasync {draft}"]
    calls.append(f"rename {draft} {path.name}")
    return [*calls, f"fsync {path.parent}"] if sync_name else calls


def made(stem: str) -> list[str]:
    """The calls that create the files of a new segment, none of which is synced yet."""
    indexes = (f"{stem}.index", f"{stem}.timeindex")
    calls = [f"create {stem}.log", f"ftruncate {stem}.log"]
    return calls + [f"{call} {index}" for index in indexes for call in ("create", "ftruncate", "pwritev")]
