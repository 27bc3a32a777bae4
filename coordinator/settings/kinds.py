"""Which kind of value each setting has."""

from __future__ import annotations

from coordinator.settings.model import Settings
from coordinator.settings.types import Kind


def kind_of(attribute: str) -> Kind:
    """Return the kind of value that the attribute `attribute` of Settings holds."""
    (kind,) = Settings.model_fields[attribute].metadata
    found: Kind = kind
    return found
