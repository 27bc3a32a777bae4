"""The quotas that are set, and where they are kept: `client-quotas.json` in the log directory.

A change is on the disk before it is in force, and before it is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.quotas.entities import (
    InvalidQuota,
    check_entity,
    check_value,
    entity_from,
)
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.resource_configs import ConfigFile
from coordinator.topics.resource_registry import ResourceKind, ResourceRegistry
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers

QUOTAS_FILE: Final = ConfigFile("client-quotas.json", "file of client quotas", "quotas")


def parsed(texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return stored quotas as they are. Raises InvalidConfig for a value that is no number."""
    for key, text in texts.items():
        try:
            float(text)
        except ValueError:
            raise InvalidConfig(f"{key}={text} is no number") from None
    return texts


QUOTAS: Final = ResourceKind("client quota", QUOTAS_FILE, parsed)


class QuotaRegistry(ResourceRegistry):
    """The quotas by the names of entities (`entities.name_of`), as texts."""

    def __init__(self, store: TopicStore, workers: Workers) -> None:
        super().__init__(QUOTAS, store, workers)

    def open(self) -> None:
        """Read what is stored. Raises StorageError; InvalidConfig for entities and values that are no quotas."""
        super().open()
        for name in self.all():
            try:
                entity = entity_from(name)
                check_entity(entity)
                for key, value in self.limits(name).items():
                    check_value(entity, key, value)
            except (ValueError, InvalidQuota) as error:
                raise InvalidConfig(f"{QUOTAS_FILE.file_name}, {name}: {error}") from error

    def limits(self, name: str) -> dict[str, float]:
        """Return the quotas of an entity, by key."""
        return {key: float(text) for key, text in self.texts(name).items()}
