"""Reads a file that settings name, within a bound, and without waiting.

A client that may alter settings may name a pipe, which is waited for until another writes to it, or a device that
never ends; so only a regular file is read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class UnusableFile(OSError):
    """Raised for what is no regular file, can be none, or has too many bytes; `strerror` says which."""


def can_be_named(path: Path | str) -> bool:
    """Whether a file or directory can have this path: else Python raises ValueError for it, and no OSError.

    No path has a NUL, or a character that the file system's encoding lacks.
    """
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return what is in the file. Raises OSError, UnusableFile among them."""
    if not can_be_named(path):
        raise UnusableFile(errno.EINVAL, "no file can have that name")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableFile(errno.EINVAL, "it is no file")
        with open(descriptor, "rb", closefd=False) as opened:
            data = opened.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise UnusableFile(errno.EFBIG, f"it has more than {max_bytes} bytes")
    return data
