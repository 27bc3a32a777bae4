"""The replay of a whole log: of each partition only the newest commit is kept, mostly as bytes.

A commit's key ends with its partition, and the bytes before that are the same in many keys: they are decoded once,
and then looked up. A value with an offset and no metadata or expiry is copied into the row in which it is kept.
All other records are decoded by `decode_record`.
State changes in `Shard.replay` alone: what is gathered here reaches it at the end, all else at once, and the
later of two commits is in force whichever comes first. A test compares this with a replay of record by record.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from coordinator.effects import CoordinatorRecord, ProducerAndEpoch
from coordinator.groups.record_codec import decode_record, decode_value, encode_record, replayed_record
from coordinator.groups.record_schemas import (
    OFFSET_COMMIT,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.offsets.committed import committed_from_record
from coordinator.offsets.topic_offsets import CommittedOffset, NewestCommits, NewestOffsets
from coordinator.shard.replay_runs import FirstRecord, replay_run
from coordinator.shard.shard import Shard
from protocol.errors import DecodeError
from protocol.records.batch import Batch, Buffer
from protocol.records.control import ControlType, Marker, control_type, coordinator_epoch
from protocol.records.records import CorruptBatch, iter_payload, payload_of, read_records
from protocol.records.varint import read_varint

MAX_INFLATED_BYTES: Final = 256 << 20
"""The most bytes that one batch of the offsets log may inflate to: batches are cut at message.max.bytes."""

NO_OFFSET: Final = -1  # `NewestCommits` come from many offsets of the log, so they are replayed without one.
PARTITION: Final = Struct(">i")
LOG_OFFSET: Final = Struct(">q")
OFFSET_COMMIT_LEAD: Final = OFFSET_COMMIT.to_bytes(2, "big")  # The first bytes of a commit's key.
PLAIN_END: Final = Struct(">i3s21s20s")
"""The end of a record that commits an offset without metadata or expiry: partition, length and version of the
value, its part that is copied to the row, and the tagged topic id with the number of headers."""
PLAIN_LEAD: Final = b"\x54\x00\x04"  # A value of 42 bytes, version 4.
NO_METADATA: Final = 1  # Compact length of empty metadata; a row has it after offset and leader epoch.
METADATA_AT: Final = 12
TOPIC_ID_LEAD: Final = b"\x01\x00\x10"  # One tagged field: number 0, 16 bytes.
NO_HEADERS: Final = b"\x00"
PLAIN_BYTES: Final = PLAIN_END.size
RECORDS_BETWEEN_LOOKS: Final = 8
"""Number of records after which a run is looked for again, where there was none."""
UNUSUAL: Final = ~0x3FFE
"""Mask of the bits that show a zigzag varint to be negative or longer than two bytes."""


class BulkReplay:
    """Replays a log, from its start, into a fresh shard; `finish` has to be called before the shard is used.

    It may be called now and then before that, too: what is gathered, and every name, is given up then.
    """

    def __init__(self, shard: Shard) -> None:
        self.records = 0
        self.skipped = 0  # Records of types that Muster does not keep.
        self._shard = shard
        self._by_prefix: dict[bytes, NewestOffsets] = {}  # By the key up to its partition, with its length.
        self._by_key: dict[bytes, NewestOffsets] = {}  # By the key up to its partition, without its length.
        self._by_name: dict[tuple[str, str], NewestOffsets] = {}
        self._shared: dict[str | bytes, Any] = {}  # Equal names and topic ids, kept as one object.

    def replay_batch(self, buffer: Buffer, batch: Batch) -> None:
        """Replay the next batch. Raises CorruptBatch, DecodeError."""
        self.records += batch.record_count
        if batch.is_transactional or batch.is_control:
            self._replay_transactional(buffer, batch)
            return
        data = payload_of(buffer, batch, MAX_INFLATED_BYTES)
        try:
            end = self._replay_records(data, batch)
        except IndexError:
            raise CorruptBatch("records end too early") from None
        if end != len(data):
            raise CorruptBatch(f"{len(data) - end} bytes after the last record")

    def finish(self) -> None:
        """Replay the newest commits into the shard, freeing them one group and topic at a time.

        Freeing all at once would hold the interpreter for milliseconds; and if they were in a cycle, the garbage
        collector would hold up the loop for a tenth of a second.
        """
        self._by_prefix.clear()
        self._by_key.clear()
        self._shared.clear()
        for name in list(self._by_name):
            self._shard.replay(NewestCommits(*name, self._by_name.pop(name)), NO_OFFSET)

    def _replay_records(self, data: bytes, batch: Batch) -> int:
        """Replay a batch's records; return where the last one ends. The hot loop of a load, hence one method."""
        base_offset, limit, end = batch.base_offset, len(data), 0
        by_prefix, unpack_end, pack_offset = self._by_prefix, PLAIN_END.unpack_from, LOG_OFFSET.pack
        look_at = 0
        number = -1
        while (number := number + 1) < batch.record_count:
            start = end
            size, at = data[start], start + 1
            if size > 0x7F:
                size, at = size & 0x7F | data[at] << 7, at + 1
            end = at + (size >> 1)
            at += 1  # Skip the attributes, of which there are none.
            if data[at] > 0x7F:  # Skip the timestamp, which is not kept.
                at = read_varint(data, at)[1] - 1
            delta, at = data[at + 1], at + 2
            if delta > 0x7F:
                delta, at = delta & 0x7F | data[at] << 7, at + 1
            tail = end - PLAIN_BYTES
            prefix = data[at:tail]
            found = by_prefix.get(prefix) or self._newest_by_prefix(prefix)
            if found is not None and at < tail and end <= limit and not (size | delta) & UNUSUAL:
                partition, lead, row, rest = unpack_end(data, tail)
                if rest == found.plain_end and lead == PLAIN_LEAD and row[METADATA_AT] == NO_METADATA:
                    found.newest[partition] = row + pack_offset(base_offset + (delta >> 1))
                    if number >= look_at:
                        first = FirstRecord(start, at, tail, end, delta >> 1)
                        more = replay_run(data, first, batch.record_count - number - 1, base_offset, found)
                        number, end = number + more, end + more * (end - start)
                        look_at = number + 1 if more else number + RECORDS_BETWEEN_LOOKS
                    continue
            end = self._replay_one(data, batch, start, number)
        return end

    def _newest_by_prefix(self, prefix: bytes) -> NewestOffsets | None:
        """Return the newest offsets of the group and topic in `prefix`; None if no commit's key begins with it.

        `prefix` is a key with its length before it, up to the partition.
        """
        if len(prefix) < 2:
            return None
        size, start = read_varint(prefix, 0)
        key = prefix[start:]
        if size != len(key) + PARTITION.size:
            return None
        found = self._newest_by_key(key)
        if found is not None:
            self._by_prefix[prefix] = found
        return found

    def _newest_by_key(self, key: bytes) -> NewestOffsets | None:
        """Return the newest offsets of the group and topic in `key`, which is without length and partition."""
        found = self._by_key.get(key)
        if found is None and key.startswith(OFFSET_COMMIT_LEAD):
            whole = key + PARTITION.pack(0)
            try:
                record = decode_record(whole, None)
            except DecodeError:
                return None  # `replayed_record` of the whole key will raise.
            assert record is not None
            if encode_record(record)[0] == whole:  # False if meaningless bytes follow the key's fields.
                found = self._by_key[key] = self._newest_by_name(record.key.group, record.key.topic)
        return found

    def _newest_by_name(self, group_id: str, topic: str) -> NewestOffsets:
        found = self._by_name.get((group_id, topic))
        if found is None:
            names = self._shared.setdefault(group_id, group_id), self._shared.setdefault(topic, topic)
            found = self._by_name[names] = NewestOffsets()
        return found

    def _replay_one(self, data: bytes, batch: Batch, start: int, number: int) -> int:
        """Replay one record of any kind, the batch's record `number`, at `start`; return where it ends."""
        record = next(iter_payload(data, batch, start, number))
        key, value = record.key, record.value
        found = None if key is None or value is None else self._newest_by_key(key[: -PARTITION.size])
        if key is not None and value is not None and found is not None:
            partition = PARTITION.unpack_from(key, len(key) - PARTITION.size)[0]
            self._put_value(found, partition, decode_value(OffsetCommitValue, value), record.offset)
        elif (typed := replayed_record(key, value)) is None:
            self.skipped += 1
        else:
            self._replay_decoded(typed, record.offset)
        size, at = read_varint(data, start)
        return at + size

    def _replay_transactional(self, buffer: Buffer, batch: Batch) -> None:
        """Replay a transactional or control batch, which are rare, record by record. Raises DecodeError."""
        producer = batch.producer_id, batch.producer_epoch
        for record in read_records(buffer, batch, max_inflated_bytes=MAX_INFLATED_BYTES):
            if batch.is_control:
                kind = control_type(record.key)
                if kind is not None:  # Another control record (of raft, say) ends no transaction.
                    is_commit = kind is ControlType.COMMIT
                    marker = Marker(*producer, coordinator_epoch(record.value), is_commit)
                    self._shard.replay(marker, record.offset)
            elif (typed := replayed_record(record.key, record.value)) is None:
                self.skipped += 1
            else:
                self._replay_decoded(typed, record.offset, producer)

    def _replay_decoded(
        self, record: CoordinatorRecord, log_offset: int, producer: ProducerAndEpoch | None = None
    ) -> None:
        """Replay one record into the shard; a commit outside transactions waits for `finish`, as most do."""
        key, value = record.key, record.value
        if not isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            self._shard.replay(record, log_offset, producer)
            return
        if value is None or producer is not None:
            self._shard.replay(record, log_offset, producer)
        if value is None or producer is None:
            self._put_value(self._newest_by_name(key.group, key.topic), key.partition, value, log_offset)

    def _put_value(self, found: NewestOffsets, partition: int, value: Any, log_offset: int) -> None:
        if value is None:
            found.newest[partition] = None
        else:
            self._put(found, partition, committed_from_record(value, log_offset))

    def _put(self, found: NewestOffsets, partition: int, committed: CommittedOffset) -> None:
        topic_id = self._shared.setdefault(committed.topic_id, committed.topic_id)
        if found.topic_id is None:
            found.topic_id = topic_id
            found.plain_end = TOPIC_ID_LEAD + topic_id + NO_HEADERS
        found.newest[partition] = committed._replace(topic_id=topic_id)
