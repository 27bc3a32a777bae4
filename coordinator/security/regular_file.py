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
    """Raised for what is no regular file, or has too many bytes; `strerror` says which."""


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return what is in the file. Raises OSError, UnusableFile among them."""
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
