"""Changes of topics and of the daemon's own settings: made at a start, or while topics are served.

The registry itself changes on the event-loop thread only. Before that, the `TopicStore` writes the change to the
disk, on one worker thread, one change after the other: so a topic that is visible is durable. While a topic is
being made its name is taken.

To the groups the registry is their `TopicCatalog`. It knows no requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol, TypeAlias, TypeVar

import structlog

from coordinator.topics.catalogue import CatalogueEntry
from coordinator.topics.client_metrics_registry import ClientMetricsRegistry
from coordinator.topics.config_values import InvalidConfig
from coordinator.topics.dynamic_settings import (
    FILE_NAME,
    check_change,
    check_connections,
    lags_in_conflict,
    with_dynamic,
)
from coordinator.topics.feature_levels import HIGHEST_LEVELS, FeatureLevels
from coordinator.topics.group_registry import GroupRegistry
from coordinator.topics.names import collision_key
from coordinator.topics.partition import Partition, PartitionServices
from coordinator.topics.settings import DynamicSettings, TopicSettings
from coordinator.topics.store import TopicStore
from coordinator.topics.topic import Topic
from coordinator.topics.topic_config import TopicConfig, accepted_config, lag_conflict
from coordinator.topics.topic_lookup import TopicLookup
from coordinator.topics.workers import Workers
from protocol.errors import ErrorCode, OnDone
from storage.files import StorageError
from storage.log.log_reader import OffsetOutOfRange
from storage.log.partition_log import PartitionLog

OnDeleted = Callable[[str, bytes], None]
"""Called with the name and the id of a topic that was deleted."""

DefaultsCheck: TypeAlias = Callable[[DynamicSettings, DynamicSettings], None]
"""Called with what was changed at run time before a change and behind it, on a thread. Raises InvalidConfig."""


class OnRefusable(Protocol):
    """Called with the outcome of a change, and with words if a check has refused it."""

    def __call__(self, error: ErrorCode, message: str | None = None, /) -> None: ...


LOWEST_FREE_ID: Final = 2
"""The ids 0 (none) and 1 (the metadata log) are Kafka's own. Like Kafka we avoid ids that begin with '-'."""

DEFAULTS: Final = ""
"""The name, in place of a topic's, under which a change of the daemon's own settings is tracked."""

FEATURES: Final = "/features"
"""The name, in place of a topic's, under which a change of feature levels is tracked."""

COMPACTION_LAGS: Final = frozenset({"min.compaction.lag.ms", "max.compaction.lag.ms"})

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger("muster.topics")


class PartitionCountMismatch(Exception):
    """Raised if an internal topic on the disk has another number of partitions than the settings say."""

    def __init__(self, topic: str, on_disk: int, wanted: int) -> None:
        super().__init__(f"{topic} has {on_disk} partitions on the disk, the settings ask for {wanted}")
        self.topic, self.on_disk, self.wanted = topic, on_disk, wanted


class TopicRegistry(TopicLookup):
    """The topics of one log directory, and all changes of them. All methods run on the event-loop thread."""

    def __init__(
        self, store: TopicStore, settings: TopicSettings, services: PartitionServices, workers: Workers
    ) -> None:
        """`workers` must run one piece of work at a time: they alone touch `store` once topics are served."""
        super().__init__(settings.rack)
        self.settings = self._static_settings = settings
        self.features = HIGHEST_LEVELS
        self.groups = GroupRegistry(store, workers)
        self.client_metrics = ClientMetricsRegistry(store, workers)
        self.on_deleted: list[OnDeleted] = []
        self.on_altered: list[Callable[[TopicSettings], None]] = []
        self.on_node_touched: list[Callable[[], None]] = []
        """Called when a client has altered this node's settings, whether they differ now or not."""
        self.checks: list[DefaultsCheck] = []
        self._store = store
        self._services = services
        self._workers = workers
        self._changing: dict[str, list[OnDone]] = {}
        self._reserved_partitions = 0

    def resources(self, make: Callable[[TopicStore, Workers], R]) -> R:
        """Return the registry that `make` makes of another kind of named resource, kept in the same directory."""
        return make(self._store, self._workers)

    def open(self) -> None:
        """Remove what a crash left and open every log, before anything is served.

        Waits for the disk. Raises StorageError; InvalidConfig if this version refuses a setting in the catalogue
        or in a file of changed settings. Stored settings that conflict with those of this start do not raise: as
        in Kafka they apply, and the log names them.
        """
        self.settings = self._settings_of_this_start()
        self.features = self._store.features()
        self.groups.open()
        self.client_metrics.open()
        self._store.clear_leftovers()
        for entry in self._store.entries():
            config = self._config_of_this_start(entry)
            self._add(entry.name, entry.topic_id, config, self._store.open_logs(entry, config.log))
        # Groups store the version of what they saw: that of this life is above those of lives before.
        self.version = self.version_with_new_topics = self._services.wall_ms()
        self._store.check_journal()

    def _settings_of_this_start(self) -> TopicSettings:
        path = f"{self.log_directory}/{FILE_NAME}"
        try:
            settings = with_dynamic(self._static_settings, self._store.dynamic_settings())
            check_connections(settings)
        except InvalidConfig as error:
            raise InvalidConfig(f"{path}: {error}") from error
        if conflict := lags_in_conflict(settings):
            log.error("settings in conflict", settings=conflict, file=path)
        return settings

    def _config_of_this_start(self, entry: CatalogueEntry) -> TopicConfig:
        try:
            config = accepted_config(entry.overrides, self.settings)
        except InvalidConfig as error:
            raise InvalidConfig(f"topic {entry.name}: {error}") from error
        conflict = lag_conflict(config)
        if conflict and entry.overrides.keys() & COMPACTION_LAGS:
            log.error("a topic in conflict with the settings", topic=entry.name, conflict=conflict)
        return config

    def internal(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Return the internal topic `name`; create it if it does not exist. Waits for the disk.

        Raises PartitionCountMismatch: groups are spread by the number of partitions, so it can never change.
        """
        topic = self._by_name.get(name)
        if topic is None:
            config = accepted_config(overrides, self.settings)
            entry = CatalogueEntry(name, new_topic_id(), partitions, dict(overrides))
            topic = self._add(name, entry.topic_id, config, self._store.create(entry, config.log))
        if len(topic.partitions) != partitions:
            raise PartitionCountMismatch(name, len(topic.partitions), partitions)
        return topic

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Store the settings of an internal topic if they differ from the stored ones. Waits for the disk."""
        if topic.config.overrides == overrides:
            return
        config = accepted_config(overrides, self.settings)
        self._store.configure(topic.name, dict(overrides))
        self._apply(topic, config)

    @property
    def log_directory(self) -> str:
        return str(self._store.path)

    def space(self) -> tuple[int, int]:
        """Return the total and free bytes of the logs' file system. Blocks; may be called on any thread."""
        return self._store.space()

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether a topic with this id existed and has been deleted, as far as is remembered."""
        return self._store.was_deleted(topic_id)

    def colliding(self, name: str) -> str | None:
        """Return a topic, existing or being made, whose name differs from `name` only in '.' and '_', or None."""
        if "." not in name and "_" not in name:
            return None
        key = collision_key(name)
        others = (other for other in (*self._by_name, *self._changing) if other != name)
        return min((other for other in others if collision_key(other) == key), default=None)

    def has_room_for(self, partitions: int) -> bool:
        """Whether that many more partitions stay within the setting `max_partitions`."""
        taken = sum(len(topic.partitions) for topic in self._by_name.values())
        return taken + self._reserved_partitions + partitions <= self.settings.max_partitions

    # Changing.

    def is_changing(self, name: str) -> bool:
        """Whether a change of the topic is under way: it is being made, grown, altered or deleted."""
        return name in self._changing

    def when_changed(self, name: str, done: OnDone) -> None:
        """Call `done` when the change of `name` that is under way has ended."""
        self._changing[name].append(done)

    def create(self, name: str, partitions: int, config: TopicConfig, topic_id: bytes, done: OnDone) -> None:
        """Make a topic that neither exists nor is changing; the caller has checked name, settings and room.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """
        entry = CatalogueEntry(name, topic_id, partitions, dict(config.overrides))

        def on_created(logs: list[PartitionLog]) -> None:
            self._apply(self._add(name, topic_id, config, logs), self._with_current_settings(config))
            log.info("topic created", topic=name, partitions=partitions)

        self._change(name, lambda: self._store.create(entry, config.log), on_created, done, partitions)

    def grow(self, topic: Topic, partitions: int, done: OnDone) -> None:
        """Grow a topic that is not changing to `partitions` partitions; the caller has checked the room.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """

        def on_grown(logs: list[PartitionLog]) -> None:
            topic.partitions += self._partitions(
                topic.name, topic.topic_id, logs, first=len(topic.partitions)
            )
            self._apply(topic, topic.config)
            self.version += 1
            log.info("partitions added", topic=topic.name, partitions=partitions)

        added = partitions - len(topic.partitions)
        self._change(
            topic.name,
            lambda: self._store.grow(topic.name, partitions, topic.config.log),
            on_grown,
            done,
            added,
        )

    def alter(self, topic: Topic, config: TopicConfig, done: OnDone) -> None:
        """Change the settings of a topic that is not changing; they apply at once, to its open logs too.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """
        overrides = dict(config.overrides)

        def on_altered(_: None) -> None:
            self._apply(topic, self._with_current_settings(config))
            log.info("topic altered", topic=topic.name, settings=overrides)

        self._change(topic.name, lambda: self._store.configure(topic.name, overrides), on_altered, done, 0)

    def checked_defaults(self, dynamic: DynamicSettings) -> TopicSettings:
        """Return the settings overridden by `dynamic`. Raises InvalidConfig if they make any settings invalid.

        A conflict that exists already, because of a start with other settings, does not make other changes fail.
        """
        settings = with_dynamic(self._static_settings, dynamic)
        check_change(self.settings, settings, self.log_directory)
        for overrides in ({}, *(topic.config.overrides for topic in self._by_name.values())):
            conflict = lag_conflict(accepted_config(overrides, settings))
            if conflict and conflict != lag_conflict(accepted_config(overrides, self.settings)):
                raise InvalidConfig(conflict)
        return settings

    def alter_defaults(self, settings: TopicSettings, done: OnRefusable, validate_only: bool = False) -> None:
        """Change the daemon's settings, while no other change of them is under way; all topics follow at once.

        The checks may wait for the disk. `done` is called with the outcome: NONE, KAFKA_STORAGE_ERROR, or
        INVALID_REQUEST with the words of the check that refuses them.
        """
        dynamic, before = settings.dynamic, self.settings.dynamic
        refused: list[str] = []

        def check_and_store() -> bool:
            try:
                for check in self.checks:
                    check(before, dynamic)
            except InvalidConfig as error:
                refused.append(str(error))
                return False
            if not validate_only:
                self._store.set_dynamic_settings(dynamic)
            return not validate_only

        def on_stored(is_stored: bool) -> None:
            if not is_stored:
                return
            self.settings = settings
            for topic in self._by_name.values():
                self._apply(topic, self._with_current_settings(topic.config))
            # Only the settings' names are logged: some values are secret.
            log.info("settings altered", of_node=sorted(dynamic.of_node), of_all=sorted(dynamic.of_all))
            for on_altered in self.on_altered:
                on_altered(settings)

        def on_ended(error: ErrorCode) -> None:
            if refused:
                done(ErrorCode.INVALID_REQUEST, refused[0])
            else:
                done(error)

        self._change(DEFAULTS, check_and_store, on_stored, on_ended, 0)

    def touch_node(self) -> None:
        """Have those who look at files look again, since a client has altered this node's settings."""
        for each in self.on_node_touched:
            each()

    def set_features(self, features: FeatureLevels, done: OnDone) -> None:
        """Change the levels of features, while no other change of them is under way.

        `done` is called with the outcome: NONE or KAFKA_STORAGE_ERROR.
        """

        def on_set(_: None) -> None:
            self.features = features
            log.info("features updated", levels=dict(features.levels))

        self._change(FEATURES, lambda: self._store.set_features(features), on_set, done, 0)

    def _with_current_settings(self, config: TopicConfig) -> TopicConfig:
        """Return `config` over the current settings, which may have changed since it was made."""
        if config.settings is self.settings:
            return config
        return accepted_config(config.overrides, self.settings)

    def _apply(self, topic: Topic, config: TopicConfig) -> None:
        topic.config = config
        for partition in topic.partitions:
            partition.log.config = config.log

    def delete(self, topic: Topic, done: OnDone) -> None:
        """Delete a topic that is not changing.

        `done` is called with the outcome: NONE, or KAFKA_STORAGE_ERROR if the topic still exists. Its files are
        removed at once, whatever `file.delete.delay.ms` says: readers can use a removed file until they are done.
        """
        for partition in topic.partitions:
            partition.close()  # Nothing is appended while the files are removed.

        def on_ended(error: ErrorCode) -> None:
            if error:
                for partition in topic.partitions:
                    partition.reopen()
            done(error)

        self._change(
            topic.name, lambda: self._store.delete(topic.name), lambda _: self._on_deleted(topic), on_ended, 0
        )

    def _on_deleted(self, topic: Topic) -> None:
        del self._by_name[topic.name], self._by_id[topic.topic_id]
        for partition in topic.partitions:
            partition.release()
        self.version += 1
        log.info("topic deleted", topic=topic.name)
        for on_deleted in self.on_deleted:
            on_deleted(topic.name, topic.topic_id)

    def _change(
        self,
        name: str,
        work: Callable[[], T],
        apply: Callable[[T], None],
        done: OnDone,
        added_partitions: int,
    ) -> None:
        """Do `work` on the worker thread and `apply` its result; then call all callbacks that wait for `name`."""
        self._changing[name] = [done]
        self._reserved_partitions += added_partitions

        def on_done(worked: Future[T]) -> None:
            self._reserved_partitions -= added_partitions
            waiting = self._changing.pop(name)
            error = ErrorCode.NONE
            try:
                outcome = worked.result()
            except StorageError as failure:
                log.error("topic cannot be changed", topic=name, error=str(failure))
                error = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                apply(outcome)
            for each in waiting:
                each(error)

        self._workers.submit(work, on_done)

    def delete_records(self, partition: Partition, offset: int, done: OnDone) -> None:
        """Delete the records below `offset`, which is not beyond the high watermark. `done` gets the outcome.

        Errors: UNKNOWN_TOPIC_OR_PARTITION (deleted meanwhile), OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        wall_ms = self._services.wall_ms()

        def on_done(worked: Future[None]) -> None:
            error = ErrorCode.NONE
            try:
                worked.result()
            except OffsetOutOfRange:  # The log was cut back meanwhile.
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            except StorageError as failure:
                log.error("records cannot be deleted", topic=partition.topic, error=str(failure))
                error = ErrorCode.KAFKA_STORAGE_ERROR
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.is_deleted else error)

        store, topic, index = self._store, partition.topic, partition.index
        self._workers.submit(
            lambda: store.delete_records(topic, index, partition.log, offset, wall_ms), on_done
        )

    def expire_producers(self, partitions: Sequence[Partition]) -> int:
        """Forget the producers that wrote nothing for `producer.id.expiration.ms`; return their number."""
        wall_ms, expiration_ms = self._services.wall_ms(), self.settings.producer_id_expiration_ms
        expired = 0
        for partition in partitions:
            partition.verifications.expire(wall_ms, expiration_ms)
            if partition.producers is not None:
                expired += partition.producers.expire(wall_ms, expiration_ms)
        return expired

    def _add(self, name: str, topic_id: bytes, config: TopicConfig, logs: list[PartitionLog]) -> Topic:
        topic = Topic(name, topic_id, config, self._partitions(name, topic_id, logs, first=0))
        self._by_name[name] = self._by_id[topic_id] = topic
        self.version += 1
        self.version_with_new_topics = self.version
        return topic

    def _partitions(
        self, name: str, topic_id: bytes, logs: list[PartitionLog], first: int
    ) -> list[Partition]:
        return [
            Partition(name, topic_id, index, each, self._services) for index, each in enumerate(logs, first)
        ]


def new_topic_id() -> bytes:
    """Return a random topic id whose text does not begin with '-', as a command line's option does."""
    while True:
        candidate = uuid.uuid4()
        if candidate.int >= LOWEST_FREE_ID and candidate.bytes[0] >> 2 != 62:  # 62 is '-' in URL-safe base64.
            return candidate.bytes
