"""Messages that differ in some fields from a usual one, as a caller names them."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def with_fields(message: T, /, **fields: Any) -> T:
    """The same message with these fields set. Raises AttributeError for a field that its class lacks."""
    for name, value in fields.items():
        setattr(message, name, value)
    return message
