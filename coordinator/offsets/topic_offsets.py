"""The committed offsets of one group in the partitions of one topic: a row of 29 bytes for each, no object.

The rows are in one array in the order of the partitions; a second array has the partitions' numbers. The row of a
partition is at its number if no partition before it is missing, else it is found by bisection. A commit of a new
partition moves the rows after it, which costs a microsecond in ten thousand partitions. What few commits have -
metadata, an expiry of their own, another topic id than the first - is kept in a dict, for those alone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import lt
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from coordinator.effects import CommitRun, new_tuple
from protocol.codec.packed_numbers import column, interleave, take_numbers
from protocol.codec.primitives import ZERO_UUID

NO_EXPIRY: Final = -1

ROW: Final = Struct(">qixqq")
ROW_BYTES: Final = ROW.size
EPOCH_AT: Final = 8
LONG: Final = Struct(">q")
NO_TEXT: Final = b"\0"  # The pad byte.
pack_row_into, unpack_row = ROW.pack_into, ROW.unpack_from
"""A row: offset, leader epoch, commit time, log offset. Up to the commit time it has the same bytes as the value
of a record with empty metadata (the pad byte is the metadata's length), so that a load copies them."""

Extra: TypeAlias = "str | tuple[str, int, bytes]"
"""What a row has no room for: the metadata alone, or metadata, expiry and topic id."""


class CommittedOffset(NamedTuple):
    """One group's committed offset in one partition, with the other fields of the commit."""

    offset: int  # The offset of the next record to read.
    leader_epoch: int  # -1: not known.
    metadata: str  # Free text of the client.
    commit_wall_ms: int
    expire_wall_ms: int  # NO_EXPIRY unless an old client asked for a retention of its own.
    topic_id: bytes  # ZERO_UUID: not known.
    log_offset: int  # Where the commit's record stands: of two commits the later one is in force (O2).


class NewestOffsets:
    """The newest commit of each partition of one group and topic, as a replay has met them so far."""

    __slots__ = ("newest", "plain_end", "topic_id")

    def __init__(self) -> None:
        self.topic_id: bytes | None = None  # The first commit's, and so that of every bare row.
        self.plain_end = b""  # The bytes with which a record of that topic id ends; used by `BulkReplay`.
        self.newest: dict[int, bytes | CommittedOffset | None] = {}
        """By partition: a row, for the topic id above; or a whole commit; or None, if it was deleted."""


CommitFields: TypeAlias = tuple[int, int, str, int, int, bytes, int]
"""The fields of a `CommittedOffset`, in their order; to make a named tuple of them takes 0.2 us."""


class NewestCommits(NamedTuple):
    """The newest commits of one group and topic in a whole log."""

    group_id: str
    topic: str
    found: NewestOffsets


class TopicOffsets:
    """Committed offsets by partition, in rising order; must not change during an iteration."""

    __slots__ = ("_extras", "_partitions", "_rows", "_topic_id")

    def __init__(self, topic_id: bytes = ZERO_UUID) -> None:
        self._topic_id = topic_id  # Holds for every offset without another in `_extras`.
        self._partitions = array("i")
        self._rows = bytearray()
        self._extras: dict[int, Extra] | None = None

    @classmethod
    def of_newest(cls, found: NewestOffsets) -> TopicOffsets:
        """Return the offsets that the replay of a whole log found, without deleted ones."""
        made = cls(ZERO_UUID if found.topic_id is None else found.topic_id)
        partitions = array("i", sorted(p for p, newest in found.newest.items() if newest is not None))
        rows: list[bytes] = []
        for partition in partitions:
            newest = found.newest[partition]
            if isinstance(newest, CommittedOffset):
                made._update_extra(partition, newest)
                newest = ROW.pack(
                    newest.offset, newest.leader_epoch, newest.commit_wall_ms, newest.log_offset
                )
            assert newest is not None
            rows.append(newest)
        made._partitions, made._rows = partitions, bytearray().join(rows)
        return made

    @classmethod
    def of_rows(
        cls, topic_id: bytes, partitions: array[int], rows: bytearray, extras: dict[int, Extra] | None
    ) -> TopicOffsets:
        """Return the offsets of which `topic_id` and the other parts were read; all of them are kept."""
        made = cls(topic_id)
        made._partitions, made._rows, made._extras = partitions, rows, extras
        return made

    @property
    def topic_id(self) -> bytes:
        """The topic id of every offset that has no other among its extras."""
        return self._topic_id

    @property
    def partitions(self) -> array[int]:
        """The partitions, rising; the caller must not change them."""
        return self._partitions

    @property
    def rows(self) -> bytearray:
        """A row of ROW_BYTES for each partition; the caller must not change them."""
        return self._rows

    @property
    def extras(self) -> dict[int, Extra]:
        """What rows have no room for, by partition."""
        return self._extras or {}

    def put(self, partition: int, committed: CommitFields) -> None:
        """Set the offset of `partition` to a `CommittedOffset`, or the plain tuple of its fields."""
        offset, epoch, metadata, commit_wall_ms, expire_wall_ms, topic_id, log_offset = committed
        slot = self._find(partition)
        if slot is None:
            slot = bisect_left(self._partitions, partition)
            if not self._partitions:
                self._topic_id = topic_id
            self._partitions.insert(slot, partition)
            at = slot * ROW_BYTES
            self._rows[at:at] = ROW.pack(offset, epoch, commit_wall_ms, log_offset)
        else:
            pack_row_into(self._rows, slot * ROW_BYTES, offset, epoch, commit_wall_ms, log_offset)
        if self._extras or metadata or expire_wall_ms != NO_EXPIRY or topic_id != self._topic_id:
            self._update_extra(partition, CommittedOffset(*committed))

    def put_run(self, run: CommitRun, first_log_offset: int) -> None:
        """Set the offsets of many partitions; all rows at once where there are no other partitions."""
        partitions = array("i", run.partitions)
        if not self._partitions and all(map(lt, partitions, partitions[1:])):
            self._partitions, self._topic_id, self._extras = partitions, run.topic_id, None
        log_offsets = range(first_log_offset, first_log_offset + run.count)
        if partitions == self._partitions and self._extras is None and run.topic_id == self._topic_id:
            self._rows[:] = interleave(
                run.count,
                column("q", run.offsets),
                column("i", run.leader_epochs),
                NO_TEXT + LONG.pack(run.commit_wall_ms),
                column("q", log_offsets),
            )
            return
        rows = zip(run.partitions, run.offsets, run.leader_epochs, log_offsets, strict=True)
        for partition, offset, epoch, log_offset in rows:
            fields = (offset, epoch, "", run.commit_wall_ms, NO_EXPIRY, run.topic_id, log_offset)
            self.put(partition, new_tuple(CommittedOffset, fields))

    def _update_extra(self, partition: int, committed: CommittedOffset) -> None:
        extras = {} if self._extras is None else self._extras
        if committed.expire_wall_ms != NO_EXPIRY or committed.topic_id != self._topic_id:
            extras[partition] = (committed.metadata, committed.expire_wall_ms, committed.topic_id)
        elif committed.metadata:
            extras[partition] = committed.metadata
        else:
            extras.pop(partition, None)
        self._extras = extras or None

    def remove(self, partition: int) -> None:
        """Remove the offset of `partition`, if there is one."""
        slot = self._find(partition)
        if slot is not None:
            del self._partitions[slot]
            del self._rows[slot * ROW_BYTES : (slot + 1) * ROW_BYTES]
            if self._extras is not None:
                self._extras.pop(partition, None)

    def _find(self, partition: int) -> int | None:
        """Return the index of the row of `partition`, or None."""
        partitions = self._partitions
        if 0 <= partition < len(partitions) and partitions[partition] == partition:
            return partition
        slot = bisect_left(partitions, partition)
        return slot if slot < len(partitions) and partitions[slot] == partition else None

    def get(self, partition: int) -> CommittedOffset | None:
        """Return the committed offset of `partition`, or None."""
        partitions = self._partitions
        slot = partition
        if not 0 <= partition < len(partitions) or partitions[partition] != partition:  # Saves a call.
            found = self._find(partition)
            if found is None:
                return None
            slot = found
        row = unpack_row(self._rows, slot * ROW_BYTES)
        if self._extras is not None:
            return self._committed(partition, row)
        offset, epoch, commit_wall_ms, log_offset = row
        return new_tuple(
            CommittedOffset, (offset, epoch, "", commit_wall_ms, NO_EXPIRY, self._topic_id, log_offset)
        )

    def _committed(self, partition: int, row: tuple[int, int, int, int]) -> CommittedOffset:
        offset, epoch, commit_wall_ms, log_offset = row
        metadata, expire_wall_ms, topic_id = "", NO_EXPIRY, self._topic_id
        if self._extras is not None and (extra := self._extras.get(partition)) is not None:
            if isinstance(extra, str):
                metadata = extra
            else:
                metadata, expire_wall_ms, topic_id = extra
        return new_tuple(
            CommittedOffset, (offset, epoch, metadata, commit_wall_ms, expire_wall_ms, topic_id, log_offset)
        )

    def select(self, wanted: Iterable[int]) -> TopicOffsets | None:
        """Return the offsets of the partitions `wanted`, in that order, not to be changed.

        None if there is not one for each of them, or if that takes a search: then `get` has to be asked.
        """
        if wanted is self:
            return self
        partitions, held = array("i", wanted), self._partitions
        if partitions == held:
            return self
        is_whole = bool(held) and held[0] == 0 and held[-1] == len(held) - 1
        if not is_whole or not partitions or min(partitions) < 0 or max(partitions) >= len(held):
            return None
        rows = [self._rows[each * ROW_BYTES : (each + 1) * ROW_BYTES] for each in partitions]
        return TopicOffsets.of_rows(self._topic_id, partitions, bytearray().join(rows), self._extras)

    def numbers(self) -> tuple[array[int], array[int], array[int]]:
        """Return partitions, offsets and leader epochs, as columns."""
        count = len(self._partitions)
        offsets = take_numbers(self._rows, 0, ROW_BYTES, "q", count)
        return self._partitions, offsets, take_numbers(self._rows, EPOCH_AT, ROW_BYTES, "i", count)

    def topic_ids(self) -> set[bytes]:
        """Return the topic ids of the offsets; may include one whose offsets were all removed."""
        ids = {self._topic_id}
        if self._extras is not None:
            ids.update(extra[2] for extra in self._extras.values() if not isinstance(extra, str))
        return ids

    def items(self) -> Iterator[tuple[int, CommittedOffset]]:
        """Yield each partition and its committed offset."""
        for partition, row in zip(self._partitions, ROW.iter_unpack(self._rows), strict=True):
            yield partition, self._committed(partition, row)

    def __iter__(self) -> Iterator[int]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicOffsets):
            return NotImplemented
        mine, others = (
            (each._topic_id, each._partitions, each._rows, each._extras) for each in (self, other)
        )
        return mine == others or dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # It changes.


class StoredOffsets(NamedTuple):
    """All offsets of one group in one topic, as a snapshot of a shard has them."""

    group_id: str
    topic: str
    offsets: TopicOffsets
