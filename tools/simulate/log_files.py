"""The log directory that a simulated history is written into, laid out as a daemon leaves it after a clean stop.

The catalogue, the identity and the settings of the topics are the daemon's own; ids that it would draw by chance
follow from the seed here, so that the same history is the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from coordinator.effects import CoordinatorRecord, GroupEvent
from coordinator.groups.record_codec import encode_record
from coordinator.history.events import TOPIC as EVENTS_TOPIC
from coordinator.history.events import encode_event
from coordinator.history.topic import history_topic_config
from coordinator.topics.catalogue import CatalogueEntry, write_catalogue
from coordinator.topics.names import GROUP_METADATA_TOPIC
from protocol.records.records import Record as LogRecord
from protocol.records.records import encode_batch
from storage.directory.log_directory import LogDirectory
from storage.files import Files, StorageError
from storage.log.checkpoints import META_PROPERTIES, MetaProperties, write_meta_properties
from storage.log.config import LogConfig
from storage.log.partition_files import encode_uuid
from storage.log.partition_log import PartitionLog
from tools.simulate.commit_batches import Batch
from tools.simulate.simulated_groups import Written

NODE_ID: Final = 1
SEGMENT_BYTES: Final = 104_857_600  # The default of offsets.topic.segment.bytes.
STAGED_BYTES_MAX: Final = 32 << 20  # Batches of all partitions in memory before they are written.
EVENTS_PER_BATCH: Final = 200
LOG_ENDS_SEGMENT_BYTES: Final = 1 << 30
LOG_ENDS_STAGED_MAX: Final = 10_000  # Number of batches.


class SimulatedLogs:
    """The logs of a new log directory, open until `close`. Every method may raise StorageError."""

    def __init__(self, out: Path, partitions: int, seed: int, topics: Sequence[CatalogueEntry]) -> None:
        files = Files()
        files.make_directories(out)
        ids = Random(f"ids {seed}")
        identity = MetaProperties(NODE_ID, _new_uuid(ids), _new_uuid(ids))
        write_meta_properties(files, out / META_PROPERTIES, identity)
        self._held = LogDirectory.open(out, files, node_id=NODE_ID)
        offsets = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(SEGMENT_BYTES),
        }
        events = history_topic_config(-1, -1)
        own = (
            CatalogueEntry(GROUP_METADATA_TOPIC, ids.randbytes(16), partitions, offsets),
            CatalogueEntry(EVENTS_TOPIC, ids.randbytes(16), 1, events),
        )
        write_catalogue(files, out, [*own, *topics])
        self._offsets = [self._open(own[0], number, SEGMENT_BYTES) for number in range(partitions)]
        self._events = self._open(own[1], 0, int(events["segment.bytes"]))
        self._staged_bytes = 0
        self.bytes = 0
        self.batches = 0

    def _open(self, entry: CatalogueEntry, partition: int, segment_bytes: int) -> PartitionLog:
        config = LogConfig(segment_bytes=segment_bytes)
        return self._held.open_log(entry.name, partition, config, topic_id=entry.topic_id)

    def add_offsets(self, written: Iterable[Written], commits: Iterable[Batch]) -> None:
        """Append the groups' metadata records and the commits of one slice, by time within each partition."""
        found: dict[int, list[Batch]] = defaultdict(list)
        for batch in commits:
            found[batch.partition].append(batch)
        for when_ms, partition, record in written:
            found[partition].append(Batch(partition, when_ms, record_batch([record], when_ms), 1))
        for partition, batches in sorted(found.items()):
            for batch in sorted(batches, key=lambda batch: batch.max_timestamp_ms):
                self._append(self._offsets[partition], batch.data, batch.max_timestamp_ms)

    def add_events(self, events: Sequence[GroupEvent], turn_ms: int) -> None:
        """Append the events; those within a turn of `turn_ms` share a batch."""
        gathered: list[LogRecord] = []
        for event in events:
            turn = event.wall_ms // turn_ms
            if gathered and (
                gathered[-1].timestamp_ms // turn_ms != turn or len(gathered) == EVENTS_PER_BATCH
            ):
                self._append_events(gathered)
                gathered = []
            gathered.append(LogRecord(*encode_event(event), timestamp_ms=event.wall_ms))
        if gathered:
            self._append_events(gathered)

    def _append_events(self, records: Sequence[LogRecord]) -> None:
        self._append(self._events, memoryview(encode_batch(records)), records[-1].timestamp_ms)

    def _append(self, log: PartitionLog, data: memoryview, wall_ms: int) -> None:
        log.append(data, wall_ms=wall_ms)
        self._staged_bytes += len(data)
        self.bytes += len(data)
        self.batches += 1
        if self._staged_bytes > STAGED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write the staged batches of all partitions."""
        for log in (*self._offsets, self._events):
            log.flush()
        self._staged_bytes = 0

    def add_log_ends(self, topic: CatalogueEntry, partition: int, ends: Iterable[tuple[int, int]]) -> None:
        """Give a user topic's partition a log that ended at these offsets at these times (ms), both rising.

        Only these records are written, empty: for each time but the last the first one not older, for the last
        the newest one that is older. So ListOffsets answers every one of the times, and LATEST, with its offset.
        """
        log = self._open(topic, partition, LOG_ENDS_SEGMENT_BYTES)
        staged = last_ms = 0
        *before, (end_ms, now) = ends
        for when_ms, offset in (*before, (end_ms - 1, now - 1)):
            last_ms = when_ms
            if offset < log.next_offset:
                continue  # Nothing was produced since the time before.
            log.next_offset = offset
            batch = encode_batch([LogRecord(b"%d" % offset, b"", when_ms)], leader_epoch=0)
            self.bytes += len(batch)
            log.append(batch, wall_ms=when_ms)
            staged += 1
            if staged % LOG_ENDS_STAGED_MAX == 0:
                log.flush()
        log.flush()
        log.roll(last_ms)  # Only closed segments of a compacted log may have gaps.
        log.close()  # There may be more partitions than files that may be open.

    def close(self) -> None:
        """Write the staged batches and mark the directory as shut down cleanly. Raises StorageError."""
        failures = self._held.close()
        if failures:
            raise failures[0]


def record_batch(records: Sequence[CoordinatorRecord], when_ms: int) -> memoryview:
    """The bytes of one batch with these records of the coordinator."""
    return memoryview(
        encode_batch([LogRecord(*encode_record(each), timestamp_ms=when_ms) for each in records])
    )


def refuse_unless_empty(out: Path) -> None:
    """Raises StorageError unless `out` is a folder without anything in it, or can be made."""
    entries = Files().entries(out)
    if entries:
        raise StorageError("write to", out, "it is not empty")


def _new_uuid(ids: Random) -> str:
    """A random UUID in Kafka's text form that does not begin with a hyphen."""
    while (text := encode_uuid(ids.randbytes(16))).startswith("-"):
        pass
    return text
