"""Creates topics because a client asked for their metadata (`auto.create.topics.enable`).

The client has been answered UNKNOWN_TOPIC_OR_PARTITION already and retries, as it does with Kafka: clients have
code, and tests, for that answer. So nothing here waits, and failures are only logged.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from coordinator.topics.assignments import placement_problem
from coordinator.topics.names import name_problem, reserved_problem
from coordinator.topics.registry import TopicRegistry, new_topic_id
from coordinator.topics.topic_config import topic_config

log = structlog.get_logger("muster.topics")


def create_missing(registry: TopicRegistry, names: Sequence[str]) -> None:
    """Begin to create the topics in `names` that do not exist and may be created, with the default settings.

    A topic that is being created already is skipped, so a burst of requests for it creates it once.
    """
    for name in names:
        if registry.get(name) is None and not registry.is_changing(name):
            _create(registry, name)


def _create(registry: TopicRegistry, name: str) -> None:
    if problem := _problem(registry, name):
        log.info("topic is not auto-created", topic=name, reason=problem)
        return
    settings = registry.settings
    # A failure of the disk is logged by the registry.
    registry.create(
        name, settings.num_partitions, topic_config({}, settings), new_topic_id(), lambda _error: None
    )


def _problem(registry: TopicRegistry, name: str) -> str | None:
    if problem := name_problem(name) or reserved_problem(name):
        return problem
    if other := registry.colliding(name):
        return f"collides with {other}"
    settings = registry.settings
    if settings.default_replication_factor > 1:
        return f"default.replication.factor is {settings.default_replication_factor}, there is one node"
    if problem := placement_problem(settings):
        return problem
    if not registry.has_room_for(settings.num_partitions):
        return f"there may be no more than {settings.max_partitions} partitions"
    return None
