"""The settings of groups that are words of Kafka's: kinds of groups, assignors, and policies of migration.

An assignor may be given by its name or by its class, as in Kafka, where a class may also be one's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

from coordinator.settings.types import Choice, Words

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
KINDS: Final = (CLASSIC, CONSUMER, "streams", "share")
"""Kinds of groups that Kafka knows. Those of share and streams are not served, whatever the list says."""

DEFAULT_KINDS: Final = (CLASSIC, CONSUMER, "streams")

ASSIGNORS: Final = ("uniform", "range")
MIGRATION_POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor"
_NAMES: Final = {f"{_PACKAGE}.{name.title()}Assignor": name for name in ASSIGNORS}

Protocols: TypeAlias = Annotated[tuple[str, ...], Words(KINDS, needed=CLASSIC)]
Assignors: TypeAlias = Annotated[tuple[str, ...], Words(ASSIGNORS, synonyms=_NAMES, is_empty_allowed=False)]
MigrationPolicyName: TypeAlias = Annotated[str, Choice(MIGRATION_POLICIES)]


def assignor_names(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names of assignors that are given by name or class."""
    return tuple(_NAMES.get(word, word) for word in given)
