"""What a client may do with a group, as descriptions of all kinds of groups say it."""

from __future__ import annotations

from typing import Final

GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
"""Bit field of the operations that any client may do on a group, as there is no authorizer: read, delete,
describe, describe configs and alter configs."""
