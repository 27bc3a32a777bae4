"""What the handlers of consumer groups work on: the groups of one shard, the settings, and the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from coordinator.effects import Effects, Moment, ReplyTo
from coordinator.groups.classic.group import Group
from coordinator.groups.consumer.classic_checks import MigrationPolicy
from coordinator.groups.consumer.computing import MOST_WEIGHT, Course, Suspended, follow
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.metadata_hash import TopicHashes
from coordinator.groups.consumer.soft_state import SoftState
from coordinator.topic_catalog import TopicImage, TopicImages


@dataclass(frozen=True, slots=True)
class GroupOverrides:
    """What is set for one group (resource type GROUP); None: as the broker has it."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    assignment_interval_ms: int | None = None


NO_OVERRIDES: Final = GroupOverrides()


@dataclass(slots=True)
class ConsumerGroupSettings:
    """The settings of consumer groups, Kafka's names without `group.consumer`. Defaults are a stock broker's.

    All shards of a daemon share one, whose `assignment_interval_ms` and `overrides` change between two events.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2**31 - 1  # `group.max.size`, of what a downgrade makes.
    most_weight: int = MOST_WEIGHT  # Of targets that are computed at once; no setting of users.
    overrides: dict[str, GroupOverrides] = field(default_factory=dict)  # By group id; none of them is empty.
    override_changes: int = 0

    def override(self, group_id: str, own: GroupOverrides) -> None:
        """Have what is set for one group stand above all this, in place of what was set for it before."""
        self.override_changes += 1
        if own == NO_OVERRIDES:
            self.overrides.pop(group_id, None)
        else:
            self.overrides[group_id] = own

    def of(self, group_id: str) -> ConsumerGroupSettings:
        """The settings as they are for one group: a copy if it has overrides."""
        set_here = self.overrides.get(group_id)
        if set_here is None:
            return self
        return ConsumerGroupSettings(
            _first(set_here.session_timeout_ms, self.session_timeout_ms),
            _first(set_here.heartbeat_interval_ms, self.heartbeat_interval_ms),
            _first(set_here.assignment_interval_ms, self.assignment_interval_ms),
            self.max_size,
            self.regex_refresh_interval_ms,
            self.assignors,
            self.migration_policy,
            self.classic_max_size,
            self.most_weight,
        )


def _first(here: int | None, everywhere: int) -> int:
    return everywhere if here is None else here


class ConsumerGroups:
    """The consumer groups of one shard, by group id, with the soft state of each.

    `classic_groups` are the living classic ones of the same shard: a group becomes the one or the other.
    """

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        topics: TopicImages,
        classic_groups: dict[str, Group] | None = None,
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.classic_groups = {} if classic_groups is None else classic_groups
        self.settings = settings
        self.topics = topics
        self.suspended: dict[str, Suspended] = {}  # By the id of its group: at most one of each.
        self._soft: dict[str, SoftState] = {}
        self._hashes = TopicHashes()

    def images(self, names: Iterable[str]) -> list[TopicImage]:
        """Those of the topics that exist."""
        image = self.topics.image
        return [found for name in names if (found := image(name)) is not None]

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash of a group that subscribes to these topics, of which some may not exist."""
        return self.hash_of_images(self.images(names))

    def hash_of_images(self, images: Iterable[TopicImage]) -> int:
        """The hash of a group that subscribes to these topics."""
        return self._hashes.of_group(images)

    def keep_hash(self, name: str) -> None:
        """Have the hash of a topic ready for `hash_of`; another thread may do this, and changes nothing else."""
        image = self.topics.image(name)
        if image is not None:
            self._hashes.of_topic(image)

    def follow(
        self, group_id: str, begin: Callable[[], Course], reply_to: ReplyTo, at: Moment, effects: Effects
    ) -> None:
        """Take a request that may need a target through its course."""
        follow(self.suspended, self.settings.most_weight, group_id, begin, reply_to, at, effects)

    def soft(self, group_id: str) -> SoftState:
        """The soft state of a group; made when it is first asked for."""
        soft = self._soft.get(group_id)
        if soft is None:
            soft = self._soft[group_id] = SoftState(group_id)
        return soft

    def known_soft(self, group_id: str) -> SoftState | None:
        """The soft state of a group that has one."""
        return self._soft.get(group_id)

    def forget(self, group_id: str, effects: Effects) -> None:
        """Forget the soft state of a group that is gone, and cancel all its timers."""
        soft = self._soft.pop(group_id, None)
        if soft is not None:
            soft.forget_all(effects)
