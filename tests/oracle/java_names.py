"""Names of fields, in the one form and the other."""

from __future__ import annotations


def snake_case(name: str) -> str:
    """As Python writes it."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


def camel_case(name: str) -> str:
    """As Java writes it."""
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)
