"""Lists for tests in text files: an entry in each line, comments behind #."""

from __future__ import annotations


def listed(text: str) -> list[str]:
    """The entries, in their order."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]
