"""The topics on the disk: the catalogue and the logs; beside them, what was changed at run time.

Waits for the disk; one caller at a time.

A topic exists if it is in the catalogue. The directory of a partition is made with its first batch, and removed
after the topic has left the catalogue. So a directory that a crash has left holds an id that no topic in the
catalogue has, and is removed at the next start. Knows no event loop and none of the topics' state in memory.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from coordinator.topics.catalogue import (
    FILE_NAME,
    HANDED_OVER,
    KAFKA_CHECKPOINT,
    CatalogueEntry,
    read_catalogue,
    write_catalogue,
)
from coordinator.topics.dynamic_settings import read_dynamic, write_dynamic
from coordinator.topics.feature_levels import FeatureLevels, read_features, write_features
from coordinator.topics.names import SHARD_TOPICS
from coordinator.topics.resource_configs import ConfigFile, ResourceConfigs
from coordinator.topics.settings import DynamicSettings
from protocol.topic_partition import TopicPartition
from storage.directory.log_directory import METADATA_TOPIC, WITHOUT_JOURNAL, LogDirectory
from storage.files import CorruptSegment, Files, StorageError
from storage.log.config import LogConfig
from storage.log.partition_files import read_partition_metadata
from storage.log.partition_log import PartitionLog

REMEMBERED_DELETIONS: Final = 1_000
"""Number of ids of deleted topics that are kept: enough for those whose offsets a crash may have left."""

log = structlog.get_logger("muster.topics")


class TopicStore:
    """The topics in one log directory. A method that raises StorageError has left the catalogue as it was."""

    def __init__(self, directory: LogDirectory, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._has_catalogue = files.read_small(directory.path / FILE_NAME) is not None
        catalogue = read_catalogue(files, directory.path)
        self._entries = {entry.name: entry for entry in catalogue.entries}
        self._deleted_ids = catalogue.deleted_ids
        self._resources: dict[ConfigFile, ResourceConfigs] = {}

    def entries(self) -> list[CatalogueEntry]:
        return list(self._entries.values())

    def was_deleted(self, topic_id: bytes) -> bool:
        """Whether a topic with this id is one of the REMEMBERED_DELETIONS that were deleted last."""
        return topic_id in self._deleted_ids

    def clear_leftovers(self) -> None:
        """Remove, at a start, the directories of partitions whose topics are not in the catalogue.

        A directory without a topic id in it was made neither by Muster nor by Kafka: it is left alone. Raises
        StorageError if there is no catalogue at all: then the partitions are those of another broker.
        """
        self._refuse_what_kafka_has_run_on()
        if not self._has_catalogue:
            self._refuse_partitions_of_others()
        elif self._files.read_small(self._directory.path / KAFKA_CHECKPOINT) is not None:
            log.warning("of a hand-over to Kafka that was taken back, removed", file=KAFKA_CHECKPOINT)
            self._files.unlink(self._directory.path / KAFKA_CHECKPOINT)
        known = {entry.topic_id for entry in self._entries.values()}
        for partition in self._directory.partitions():
            entry = self._entries.get(partition.topic)
            if entry is not None and partition.partition < entry.partitions:
                continue  # This topic's, whatever id it has: leftovers were removed when it was made.
            topic_id = self._stored_topic_id(partition.directory_name)
            if topic_id is None:
                log.warning("not known to be a partition, left alone", directory=partition.directory_name)
            elif topic_id not in known:
                log.info("a partition of no topic is removed", directory=partition.directory_name)
                self._directory.delete_log(partition.topic, partition.partition)

    def _refuse_what_kafka_has_run_on(self) -> None:
        """Raise StorageError if there is a metadata log: topics that Kafka has made would be taken for remains."""
        path = self._directory.path
        if self._files.entries(path / f"{METADATA_TOPIC}-0") is not None:
            raise StorageError("use", path, "Apache Kafka has run on it: there is a metadata log in it")

    def _refuse_partitions_of_others(self) -> None:
        """Raise StorageError if there are partitions: without a catalogue they are another broker's."""
        if self._files.read_small(self._directory.path / HANDED_OVER) is not None:
            reason = "it was handed over to Apache Kafka by `muster log to-kafka` (docs/to-kafka.md)"
            if self._files.read_small(self._directory.path / KAFKA_CHECKPOINT) is None:
                reason = (
                    f"`muster log to-kafka` was not finished, there is no {KAFKA_CHECKPOINT}: run it again, "
                    f"or give {HANDED_OVER} its name {FILE_NAME} back"
                )
            raise StorageError("use", self._directory.path, reason)
        for partition in self._directory.partitions():
            if self._stored_topic_id(partition.directory_name) is not None:
                name, path = partition.directory_name, self._directory.path
                reason = f"{name} is here, but no {FILE_NAME}: the directory is another broker's"
                raise StorageError("use", path, reason)

    def _stored_topic_id(self, directory_name: str) -> bytes | None:
        try:
            return read_partition_metadata(self._files, self._directory.path / directory_name)
        except CorruptSegment as error:
            log.warning("a partition's metadata cannot be read", error=str(error))
            return None

    def open_logs(self, entry: CatalogueEntry, config: LogConfig) -> list[PartitionLog]:
        """Open and return the logs of a topic's partitions; one that cannot be opened has its `failure` set."""
        return [self._open(entry, partition, config) for partition in range(entry.partitions)]

    def _open(self, entry: CatalogueEntry, partition: int, config: LogConfig) -> PartitionLog:
        is_replayed = entry.name in SHARD_TOPICS
        opened = self._directory.add_log(
            entry.name, partition, config, topic_id=entry.topic_id, is_replayed=is_replayed
        )
        try:
            opened.recover()
        except StorageError as error:
            log.error("partition cannot be opened", topic=entry.name, partition=partition, error=str(error))
        if cut_bytes := opened.recovered.cut_bytes:
            # The log has dropped the torn segment if it begins beyond the end of the log.
            torn = opened.recovered.segments[-1]
            log.warning(
                "the end of a log was torn, and cut",
                file=str(torn.path),
                byte=torn.size_bytes,
                cut_bytes=cut_bytes,
                kept_aside=str(opened.recovered.kept_aside),
            )
        return opened

    def check_journal(self) -> None:
        """Raise StorageError if the journal has records of a partition that no topic in the catalogue has.

        Called once all logs there are were opened.
        """
        if unclaimed := self._directory.journal.unclaimed:
            path, journal = self._directory.path, self._directory.journal.files.path
            reason = (
                f"it has records of {', '.join(unclaimed)}, which {path / FILE_NAME} does not know: bring back "
                f"the {FILE_NAME} that does. {WITHOUT_JOURNAL.format(path=path, journal=journal)}"
            )
            raise StorageError("use", journal, reason)

    def create(self, entry: CatalogueEntry, config: LogConfig) -> list[PartitionLog]:
        """Make a topic and return its partitions' logs; it is durable when this returns."""
        return self._add_partitions(entry, config, first=0)

    def grow(self, name: str, partitions: int, config: LogConfig) -> list[PartitionLog]:
        """Grow a topic to `partitions` partitions; return the logs of the new ones."""
        entry = self._entries[name]
        return self._add_partitions(replace(entry, partitions=partitions), config, first=entry.partitions)

    def configure(self, name: str, overrides: dict[str, str]) -> None:
        """Replace a topic's settings by `overrides`; they are durable when this returns."""
        self._write({**self._entries, name: replace(self._entries[name], overrides=overrides)})

    def delete_records(
        self, topic: str, partition: int, log: PartitionLog, offset: int, wall_ms: int
    ) -> None:
        """Delete the records below `offset`; durable when this returns. Raises OffsetOutOfRange, StorageError."""
        self._directory.delete_records(TopicPartition(topic, partition), log, offset, wall_ms)

    @property
    def path(self) -> Path:
        return self._directory.path.absolute()

    def space(self) -> tuple[int, int]:
        """Return the total and free bytes of the logs' file system; on any thread. Raises StorageError."""
        return self._files.space(self._directory.path)

    def dynamic_settings(self) -> DynamicSettings:
        """Read the settings that were changed at run time. Raises StorageError."""
        return read_dynamic(self._files, self._directory.path)

    def set_dynamic_settings(self, dynamic: DynamicSettings) -> None:
        """Store the settings changed at run time; they are durable when this returns. Raises StorageError."""
        write_dynamic(self._files, self._directory.path, dynamic)

    def features(self) -> FeatureLevels:
        """Read the levels of features. Raises StorageError."""
        return read_features(self._files, self._directory.path)

    def set_features(self, features: FeatureLevels) -> None:
        """Store the levels of features; they are durable when this returns. Raises StorageError."""
        write_features(self._files, self._directory.path, features)

    def resource_configs(self, file: ConfigFile) -> ResourceConfigs:
        """Read what is set for the resources of one kind. Raises StorageError."""
        self._resources[file] = file.read(self._files, self._directory.path)
        return self._resources[file]

    def configure_resources(self, file: ConfigFile, changes: ResourceConfigs) -> None:
        """Replace what is set for those in `changes`, once `file` was read; durable when this returns.

        Raises StorageError.
        """
        configs = {name: texts for name, texts in {**self._resources[file], **changes}.items() if texts}
        file.write(self._files, self._directory.path, configs)
        self._resources[file] = configs

    def _add_partitions(self, entry: CatalogueEntry, config: LogConfig, first: int) -> list[PartitionLog]:
        """Open the new partitions' logs, after removing leftovers, and store `entry`; return the logs.

        If the catalogue cannot be written, the opened logs are dropped.
        """
        for partition in range(first, entry.partitions):
            self._remove_leftover(f"{entry.name}-{partition}", entry.name, partition)
        is_replayed = entry.name in SHARD_TOPICS
        logs = [
            self._directory.open_log(
                entry.name, partition, config, topic_id=entry.topic_id, is_replayed=is_replayed
            )
            for partition in range(first, entry.partitions)
        ]
        try:
            self._write({**self._entries, entry.name: entry})
        except StorageError:
            for partition in range(first, entry.partitions):
                self._directory.delete_log(entry.name, partition)
            raise
        return logs

    def _remove_leftover(self, directory_name: str, topic: str, partition: int) -> None:
        """Remove the directory that a deleted topic of the same name left; raise StorageError for any other."""
        path = self._directory.path / directory_name
        if not self._files.is_directory(path):
            return
        if self._stored_topic_id(directory_name) is None:
            raise StorageError("create", path, "a directory that is no partition of ours is in the way")
        self._directory.delete_log(topic, partition)

    def delete(self, name: str) -> None:
        """Remove a topic from the catalogue, then its logs; the next start removes those that cannot be now."""
        entries = dict(self._entries)
        entry = entries.pop(name)
        self._write(entries, (*self._deleted_ids, entry.topic_id)[-REMEMBERED_DELETIONS:])
        for partition in range(entry.partitions):
            try:
                self._directory.delete_log(name, partition)
            except StorageError as error:
                log.warning("a deleted partition's files stay for now", error=str(error))

    def _write(
        self, entries: dict[str, CatalogueEntry], deleted_ids: tuple[bytes, ...] | None = None
    ) -> None:
        deleted_ids = self._deleted_ids if deleted_ids is None else deleted_ids
        write_catalogue(self._files, self._directory.path, entries.values(), deleted_ids)
        self._entries, self._deleted_ids = entries, deleted_ids
