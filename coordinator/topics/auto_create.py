"""Making a topic because somebody asked for it (`auto.create.topics.enable`).

Kafka answers the first request with an error and lets the client ask again; here the answer waits the
few milliseconds until the topic is there, which saves clients a retry and is never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from coordinator.topics.names import is_internal, name_problem
from coordinator.topics.refusal import Countdown
from coordinator.topics.registry import TopicRegistry, new_topic_id
from coordinator.topics.topic_config import topic_config
from protocol.errors import ErrorCode

log = structlog.get_logger("muster.topics")


def create_missing(registry: TopicRegistry, names: Sequence[str], done: Callable[[], None]) -> None:
    """Make those of `names` that are not there and may be made, with the settings' defaults; then `done`.

    What could not be made stays unknown: the log tells why.
    """
    countdown = Countdown(done)
    for name in dict.fromkeys(names):
        if registry.get(name) is None:
            countdown.begin()
            _create(registry, name, lambda _error: countdown.end())
    countdown.seal()


def _create(registry: TopicRegistry, name: str, done: Callable[[ErrorCode], None]) -> None:
    if registry.is_changing(name):
        registry.when_changed(name, done)
    elif problem := _problem(registry, name):
        log.info("topic is not auto-created", topic=name, reason=problem)
        done(ErrorCode.INVALID_TOPIC_EXCEPTION)
    else:
        settings = registry.settings
        registry.create(name, settings.num_partitions, topic_config({}, settings), new_topic_id(), done)


def _problem(registry: TopicRegistry, name: str) -> str | None:
    if problem := name_problem(name):
        return problem
    if is_internal(name):
        return "internal topics are made by the daemon"
    if other := registry.colliding(name):
        return f"collides with {other}"
    settings = registry.settings
    if settings.default_replication_factor > 1:
        return f"default.replication.factor is {settings.default_replication_factor}, there is one node"
    if not registry.has_room_for(settings.num_partitions):
        return f"there may be no more than {settings.max_partitions} partitions"
    return None
