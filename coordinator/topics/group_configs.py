"""Settings of single groups (KIP-848, KIP-932, KIP-1071): every name that Kafka 4.3 knows, its range and default.

`GROUP_KEYS` is the table. What is not set for a group is as the broker has it, and what is set has to be within
the broker's bounds: other changes are refused, in Kafka's order and words. A later start may have other bounds;
then the stored value stays, and the nearest within the bounds counts. Settings of share and streams groups are
kept and shown; there are no such groups here.

What was set is kept in `group-configs.json` in the log directory. Knows no requests and none of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.topics.config_values import FLAG, InvalidConfig, ValueKind, one_of, whole
from coordinator.topics.dynamic_settings import plain_text, text_of
from coordinator.topics.offset_reset import OFFSET_RESET
from coordinator.topics.resource_configs import ConfigFile
from coordinator.topics.settings import TopicSettings
from protocol.messages.describe_configs import ConfigType

FILE_NAME: Final = "group-configs.json"
GROUP_CONFIG_FILE: Final = ConfigFile(FILE_NAME, "file of groups' settings", "groups")

MAX_GROUPS: Final = 10_000
"""Most groups with settings of their own, a bound of Muster's own: they are in memory and in one file."""

MAX_GROUP_ID_BYTES: Final = 1_000
"""Most bytes of the id of such a group: clients may set something for groups that are not there, too."""

INT: Final = ConfigType.INT


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One setting of a group. The other three are the broker's: what counts if it is not set, and its bounds.

    `default` is that of a setting that the broker has none for.
    """

    name: str
    kind: ValueKind
    broker_name: str | None = None
    least_name: str | None = None
    most_name: str | None = None
    default: str = ""


def _bounded(name: str, low: int) -> GroupKey:
    family, _, rest = name.partition(".")
    of_broker = (f"group.{family}.{bound}{rest}" for bound in ("", "min.", "max."))
    return GroupKey(name, whole(INT, low), *of_broker)


GROUP_KEYS: Final[Mapping[str, GroupKey]] = {
    key.name: key
    for key in (
        _bounded("consumer.session.timeout.ms", 1),
        _bounded("consumer.heartbeat.interval.ms", 1),
        _bounded("consumer.assignment.interval.ms", 0),
        _bounded("share.session.timeout.ms", 1),
        _bounded("share.heartbeat.interval.ms", 1),
        _bounded("share.record.lock.duration.ms", 1000),
        _bounded("share.delivery.count.limit", 2),
        _bounded("share.partition.max.record.locks", 100),
        GroupKey("share.auto.offset.reset", OFFSET_RESET, default="latest"),
        GroupKey(
            "share.isolation.level", one_of("read_committed", "read_uncommitted"), default="read_uncommitted"
        ),
        GroupKey("share.renew.acknowledge.enable", FLAG, default="true"),
        _bounded("share.assignment.interval.ms", 0),
        _bounded("streams.session.timeout.ms", 1),
        _bounded("streams.heartbeat.interval.ms", 1),
        GroupKey(
            "streams.num.standby.replicas",
            whole(INT, 0),
            "group.streams.num.standby.replicas",
            most_name="group.streams.max.standby.replicas",
        ),
        GroupKey(
            "streams.initial.rebalance.delay.ms", whole(INT, 0), "group.streams.initial.rebalance.delay.ms"
        ),
        _bounded("streams.assignment.interval.ms", 0),
    )
}
"""The settings of groups, in the order in which their values are parsed."""

BOUNDED: Final = tuple(
    sorted(
        (key for key in GROUP_KEYS.values() if key.most_name is not None),
        key=lambda key: (key.name.partition(".")[0], ".heartbeat." not in key.name),
    )
)
"""The settings with bounds, in the order in which these are checked: a heartbeat's before a session's."""

PAIRS: Final = tuple(
    (f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms")
    for family in ("consumer", "share", "streams")
)
"""The sessions, and the heartbeats that each has to be longer than."""


def checked(overrides: Mapping[str, str], settings: TopicSettings) -> dict[str, str]:
    """Return what is set for a group, each value as it is shown. Raises InvalidConfig."""
    texts = parsed(overrides)
    for problems in (_bound_problems(texts, settings), pair_problems(texts, settings)):
        if problem := next(problems, None):
            raise InvalidConfig(problem)
    return texts


def parsed(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what is set for a group, whatever the bounds. Raises InvalidConfig: unknown name, bad value."""
    for name in overrides:
        if name not in GROUP_KEYS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    return {
        name: plain_text(key.kind.parse(name, overrides[name]))
        for name, key in GROUP_KEYS.items()
        if name in overrides
    }


def _bound_problems(texts: Mapping[str, str], settings: TopicSettings) -> Iterator[str]:
    for key in BOUNDED:
        if key.name not in texts:
            continue
        least, most = bounds(key, settings)
        if int(texts[key.name]) < least:
            yield f"{key.name} must be greater than or equal to {key.least_name}"
        if int(texts[key.name]) > most:
            yield f"{key.name} must be less than or equal to {key.most_name}"


def pair_problems(texts: Mapping[str, str], settings: TopicSettings) -> Iterator[str]:
    """Yield a sentence for each session that is not longer than the heartbeat."""
    for session, heartbeat in PAIRS:
        if not texts.keys() & {session, heartbeat}:
            continue
        if int(current_text(session, texts, settings)) <= int(current_text(heartbeat, texts, settings)):
            yield f"{session} must be greater than {heartbeat}"


def bounds(key: GroupKey, settings: TopicSettings) -> tuple[int, int]:
    """Return the least and the most that the broker allows for one of the BOUNDED settings."""
    least = text_of(key.least_name, settings) if key.least_name else None
    most = text_of(key.most_name, settings) if key.most_name else None
    assert most is not None, f"{key.name} is not bounded"
    return int(least or 0), int(most)


def within_bounds(key: GroupKey, value: int, settings: TopicSettings) -> int:
    """Return `value`, or what is nearest to it within the broker's bounds."""
    least, most = bounds(key, settings)
    return min(max(value, least), most)


def assignment_interval_ms(settings: TopicSettings) -> int:
    """Return the interval of consumer groups without one of their own: it may have been set under other bounds."""
    key = GROUP_KEYS["consumer.assignment.interval.ms"]
    return within_bounds(key, settings.group_consumer_assignment_interval_ms, settings)


def current_text(name: str, texts: Mapping[str, str], settings: TopicSettings) -> str:
    """Return the text of a setting: what is set for the group, else the broker's, else Kafka's default."""
    key = GROUP_KEYS[name]
    if name in texts:
        return texts[name]
    of_broker = None if key.broker_name is None else text_of(key.broker_name, settings)
    return key.default if of_broker is None else of_broker
