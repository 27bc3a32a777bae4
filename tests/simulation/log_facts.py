"""What the durable log says, read a second way: the newest value of each key, and all it ever said.

Shares the record schemas with the daemon, but no line of its replay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.record_schemas import ConsumerGroupMetadataKey
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from coordinator.shard.shard import Shard
from protocol.records.control import ControlType, Marker, control_type
from protocol.records.records import Batch, parse_header, read_records
from protocol.records.records import Record as LogRecord
from tests.simulation.consumer_facts import ConsumerFacts

OffsetKey = tuple[str, str, int]
NO_OFFSET = -1


class LogFacts:
    """Fed with every batch that has become durable, of all partitions."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataValue] = {}
        self.consumers = ConsumerFacts()
        self.offsets: dict[OffsetKey, tuple[int, int]] = {}  # Committed offset, and where in the log.
        self.was_committed: dict[OffsetKey, dict[int, int]] = defaultdict(dict)  # Where, by committed offset.
        self.held: dict[tuple[int, int], dict[OffsetKey, tuple[int, int]]] = defaultdict(dict)
        """In open transactions, by partition and producer: each partition has a marker of its own."""
        self.was_held: dict[OffsetKey, dict[int, int]] = defaultdict(dict)  # Where, by committed offset.
        self.was_deleted: dict[OffsetKey, int] = {}  # Where, last.
        self.was_ended: dict[str, int] = {}  # Where a group's last tombstone lies.
        # By group, generation.
        self.was_assigned: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)

    def take(self, shadow: Shard, data: bytearray) -> None:
        """Read one batch; `shadow` replays it beside."""
        batch = parse_header(data)
        for record in read_records(data, batch):
            if batch.is_control:
                self._take_marker(shadow, batch, record)
                continue
            typed = decode_record(record.key, record.value)
            assert typed is not None, "the daemon wrote what it cannot read"
            if batch.is_transactional:
                shadow.replay(typed, record.offset, (batch.producer_id, batch.producer_epoch))
                self._take_held((shadow.partition, batch.producer_id), typed, record.offset)
                continue
            shadow.replay(typed, record.offset)
            if isinstance(typed.key, GroupMetadataKey):
                self._take_group(typed.key.group, typed.value, record.offset)
            elif isinstance(typed.key, OffsetCommitKey):
                self._take_offset(
                    typed.key, None if typed.value is None else typed.value.offset, record.offset
                )
            else:
                self.consumers.take(typed)
                if isinstance(typed.key, ConsumerGroupMetadataKey) and typed.value is None:
                    self.was_ended[typed.key.group_id] = record.offset

    def _take_held(self, who: tuple[int, int], typed: CoordinatorRecord, log_offset: int) -> None:
        where = (typed.key.group, typed.key.topic, typed.key.partition)
        assert typed.value is not None, "a transaction only commits"
        self.held[who][where] = (typed.value.offset, log_offset)
        self.was_held[where][typed.value.offset] = log_offset

    def _take_marker(self, shadow: Shard, batch: Batch, record: LogRecord) -> None:
        is_commit = control_type(record.key) is ControlType.COMMIT
        shadow.replay(Marker(batch.producer_id, batch.producer_epoch, 0, is_commit), record.offset)
        for where, (committed, log_offset) in self.held.pop(
            (shadow.partition, batch.producer_id), {}
        ).items():
            if is_commit:
                self.was_committed[where][committed] = log_offset
                self.offsets[where] = max(
                    self.offsets.get(where, (0, -1)), (committed, log_offset), key=lambda each: each[1]
                )

    def _take_group(self, group_id: str, value: GroupMetadataValue | None, log_offset: int) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            self.was_ended[group_id] = log_offset
            return
        self.groups[group_id] = value
        assigned = {member.member_id: bytes(member.assignment) for member in value.members}
        self.was_assigned[group_id, value.generation].update(assigned)

    def _take_offset(self, key: OffsetCommitKey, committed: int | None, log_offset: int) -> None:
        where = (key.group, key.topic, key.partition)
        if committed is None:
            self.offsets.pop(where, None)
            for held in self.held.values():
                held.pop(where, None)
            self.was_deleted[where] = log_offset
        else:
            self.offsets[where] = (committed, log_offset)
            self.was_committed[where][committed] = log_offset

    def differences(self, shard: Shard, owns: set[str]) -> Iterator[str]:
        """Where `shard`, of which nothing is on its way to the disk, says otherwise. It owns the groups `owns`."""
        said = {group_id: value for group_id, value in self.groups.items() if group_id in owns}
        if said.keys() != shard.stored.keys():
            yield f"stored groups {sorted(shard.stored)}, the log says {sorted(said)}"
            return
        for group_id, value in said.items():
            stored = shard.stored[group_id]
            members = {m.member_id: bytes(m.assignment) for m in value.members}
            if (value.generation, value.leader, value.protocol, members) != (
                stored.generation_id,
                stored.leader,
                stored.protocol_name,
                {m.member_id: m.assignment for m in stored.members},
            ):
                yield f"{group_id} is stored as {stored}, the log says {value}"
        kept = {
            (group_id, topic, partition): (committed.offset, committed.log_offset)
            for group_id in owns
            for topic, partition, committed in shard.offsets.of_group(group_id)
        }
        said_offsets = {key: value for key, value in self.offsets.items() if key[0] in owns}
        if kept != said_offsets:
            yield f"offsets {kept}, the log says {said_offsets}"
        yield from self.consumers.differences(shard, owns)
