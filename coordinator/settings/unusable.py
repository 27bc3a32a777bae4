"""What settings may come to that were understood: what they name cannot be used."""

from __future__ import annotations


class UnusableSettings(Exception):
    """Raised at the start for a store, a token or keys that are not as the settings say; one sentence."""
