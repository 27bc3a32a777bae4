"""Which settings are secret: their values are shown nowhere, and what is wrong with them is said without them."""

from __future__ import annotations

from typing import Final

from coordinator.topics.broker_options import SECRET

HIDDEN: Final = "[hidden]"
"""What stands for a secret, as in Kafka."""


def is_secret(name: str) -> bool:
    """Whether a setting is a secret, with or without the prefix of a listener or of a mechanism (F12)."""
    return name.endswith(SECRET)
