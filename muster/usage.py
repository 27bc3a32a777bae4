"""How a command ends: its exit status, and the error for arguments that say nothing clear."""

from __future__ import annotations

from typing import Final

STATUS_FAILED: Final = 1
"""It failed, or what it was asked for is not so."""
STATUS_NOT_UNDERSTOOD: Final = 2


class UsageError(Exception):
    """The arguments contradict each other; the message is a sentence for the user."""
