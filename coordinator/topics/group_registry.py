"""What is set for single groups, and what of it is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from coordinator.topics.group_configs import BOUNDED, GROUP_CONFIG_FILE, pair_problems, parsed, within_bounds
from coordinator.topics.resource_registry import ResourceKind, ResourceRegistry
from coordinator.topics.settings import TopicSettings
from coordinator.topics.store import TopicStore
from coordinator.topics.workers import Workers

GROUPS: Final = ResourceKind("group", GROUP_CONFIG_FILE, parsed)

log = structlog.get_logger("muster.groups")


class GroupRegistry(ResourceRegistry):
    """The settings of groups, whether there is such a group or not."""

    def __init__(self, store: TopicStore, workers: Workers) -> None:
        super().__init__(GROUPS, store, workers)

    def numbers_in_force(self, group_id: str, settings: TopicSettings) -> dict[str, int]:
        """Return the numbers that are set for a group, moved within the broker's bounds of this start."""
        return numbers_in_force(group_id, self.texts(group_id), settings)


def numbers_in_force(group_id: str, given: Mapping[str, str], settings: TopicSettings) -> dict[str, int]:
    """Return the numbers among what is set for a group, moved within the bounds of `settings`."""
    texts = dict(given)
    for key in BOUNDED:
        if key.name not in texts:
            continue
        value = int(texts[key.name])
        in_force = within_bounds(key, value, settings)
        if in_force != value:
            words = "a group's setting is beyond the broker's bounds"
            log.warning(words, group=group_id, setting=key.name, value=value, in_force=in_force)
        texts[key.name] = str(in_force)
    for problem in pair_problems(texts, settings):
        log.warning("a group's settings do not fit together", group=group_id, problem=problem)
    return {key.name: int(texts[key.name]) for key in BOUNDED if key.name in texts}
