"""The stored state of a shard as bytes, in columns, and back: what a replay of its log would give.

`encode_state` takes what `Shard.replay` has stored: groups with their members, offsets, and open transactions with
the epochs of ended ones. `decode_state` yields entries for `Shard.replay`, where alone stored state changes. The
rows of offsets are copied as they are. Nothing here knows files; that the bytes belong to the log, and are what
was written, is for the caller to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.stored import StoredGroup, StoredMember
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.records import group_records
from coordinator.groups.record_codec import decode_record, encode_record
from coordinator.offsets.committed import CommittedOffsets
from coordinator.offsets.open_transactions import HeldKey, OpenTransactions
from coordinator.offsets.topic_offsets import ROW_BYTES, CommittedOffset, StoredOffsets, TopicOffsets
from coordinator.shard.columns import Buffer, ColumnReader, ColumnWriter, number_bytes, numbers_of
from protocol.errors import DecodeError

STATE_VERSION: Final = 2
"""The version of these bytes; another one is not read. To be raised with any change of what is stored, or how."""

StatePart: TypeAlias = StoredGroup | StoredOffsets | OpenTransactions

StateEntry: TypeAlias = StatePart | CoordinatorRecord
"""A part of a shard's stored state, for `Shard.replay`."""

NO_TIME: Final = -1  # Of a group's state; the log has it as -1, too.
SAME_TOPIC_ID: Final = -1  # Of an extra that is the metadata alone.


def encode_state(
    stored: Iterable[StoredGroup], consumer_groups: Iterable[ConsumerGroup], offsets: CommittedOffsets
) -> list[Buffer]:
    """Return the stored state of a shard, in parts to be written one after the other; they share its memory."""
    columns = ColumnWriter()
    groups = list(stored)
    _put_groups(columns, groups)
    _put_members(columns, [member for group in groups for member in group.members])
    _put_consumer_groups(columns, consumer_groups)
    _put_offsets(columns, list(offsets.all_topics()))
    _put_transactions(columns, offsets.transactions)
    return columns.parts


def decode_state(data: memoryview) -> Iterator[StateEntry]:
    """Yield the state that was encoded, part by part. Raises DecodeError, also after some of it was yielded."""
    try:
        yield from _entries(ColumnReader(data))
    except DecodeError:
        raise
    except (IndexError, ValueError) as error:  # A number or a length is not that of what it stands for.
        raise DecodeError(f"columns do not fit: {error}") from error


def _entries(columns: ColumnReader) -> Iterator[StateEntry]:
    shared: dict[str, str] = {}  # Equal names, kept as one object.
    yield from _groups(columns, shared)
    yield from _consumer_groups(columns)
    yield from _offsets(columns, shared)
    yield _transactions(columns, shared)
    columns.check_end()


# Groups and members.


def _put_groups(columns: ColumnWriter, groups: list[StoredGroup]) -> None:
    columns.texts(group.group_id for group in groups)
    columns.texts(group.protocol_type for group in groups)
    columns.texts(group.protocol_name for group in groups)
    columns.texts(group.leader for group in groups)
    columns.numbers("i", (group.generation_id for group in groups))
    columns.numbers("q", (NO_TIME if each.state_wall_ms is None else each.state_wall_ms for each in groups))
    columns.numbers("i", (len(group.members) for group in groups))


def _put_members(columns: ColumnWriter, members: list[StoredMember]) -> None:
    columns.texts(member.member_id for member in members)
    columns.texts(member.group_instance_id for member in members)
    columns.texts(member.client_id for member in members)
    columns.texts(member.client_host for member in members)
    columns.numbers("i", (member.rebalance_timeout_ms for member in members))
    columns.numbers("i", (member.session_timeout_ms for member in members))
    columns.blobs([member.subscription for member in members])
    columns.blobs([member.assignment for member in members])


def _groups(columns: ColumnReader, shared: dict[str, str]) -> Iterator[StoredGroup]:
    ids, types, protocols, leaders = (columns.texts() for _ in range(4))
    generations, times, sizes = columns.numbers("i"), columns.numbers("q"), columns.numbers("i")
    members = iter(_members(columns))
    for number, group_id in enumerate(ids):
        yield StoredGroup(
            group_id=shared.setdefault(group_id, group_id),
            protocol_type=types[number],
            generation_id=generations[number],
            protocol_name=protocols[number],
            leader=leaders[number],
            state_wall_ms=None if times[number] == NO_TIME else times[number],
            members=tuple(islice(members, sizes[number])),
        )


def _members(columns: ColumnReader) -> list[StoredMember]:
    texts: list[list[Any]] = [columns.texts() for _ in range(4)]
    numbers = [columns.numbers("i") for _ in range(2)]
    blobs: list[list[Any]] = [columns.blobs() for _ in range(2)]
    return [StoredMember(*fields) for fields in zip(*texts, *numbers, *blobs, strict=True)]


# Offsets.


def _put_offsets(columns: ColumnWriter, topics: list[StoredOffsets]) -> None:
    """Groups, topics and topic ids are numbered: most are the same in many entries."""
    groups: dict[str, int] = {}
    names: dict[str, int] = {}
    ids: dict[bytes, int] = {}
    columns.numbers("i", [groups.setdefault(each.group_id, len(groups)) for each in topics])
    columns.numbers("i", [names.setdefault(each.topic, len(names)) for each in topics])
    columns.numbers("i", [ids.setdefault(each.offsets.topic_id, len(ids)) for each in topics])
    columns.texts(groups)
    columns.texts(names)
    columns.numbers("i", (len(each.offsets) for each in topics))
    columns.raw([number_bytes(each.offsets.partitions) for each in topics])
    columns.raw([each.offsets.rows for each in topics])
    _put_extras(columns, topics, ids)
    columns.blobs(list(ids))


def _put_extras(columns: ColumnWriter, topics: list[StoredOffsets], ids: dict[bytes, int]) -> None:
    extras = [
        (number, partition, *((extra, 0, None) if isinstance(extra, str) else extra))
        for number, each in enumerate(topics)
        for partition, extra in each.offsets.extras.items()
    ]
    columns.numbers("i", (extra[0] for extra in extras))
    columns.numbers("i", (extra[1] for extra in extras))
    columns.texts(extra[2] for extra in extras)
    columns.numbers("q", (extra[3] for extra in extras))
    columns.numbers(
        "i", [SAME_TOPIC_ID if each[4] is None else ids.setdefault(each[4], len(ids)) for each in extras]
    )


def _offsets(columns: ColumnReader, shared: dict[str, str]) -> Iterator[StoredOffsets]:
    group_numbers, name_numbers, id_numbers = (columns.numbers("i") for _ in range(3))
    groups = [shared.setdefault(each, each) for each in columns.texts()]
    names = [shared.setdefault(each, each) for each in columns.texts()]
    counts, partitions, rows = columns.numbers("i"), columns.raw(), columns.raw()
    if len(partitions) != sum(counts) * 4 or len(rows) != sum(counts) * ROW_BYTES:
        raise DecodeError("offsets are missing")
    extra_columns = _read_extras(columns)
    ids: list[Any] = columns.blobs()
    extras: dict[int, dict[int, Any]] = {}
    for number, partition, metadata, expire_wall_ms, id_number in zip(*extra_columns, strict=True):
        extra = metadata if id_number == SAME_TOPIC_ID else (metadata, expire_wall_ms, ids[id_number])
        extras.setdefault(number, {})[partition] = extra
    start = 0
    for number, count in enumerate(counts):
        end = start + count
        offsets = TopicOffsets.of_rows(
            ids[id_numbers[number]],
            numbers_of("i", partitions[start * 4 : end * 4]),
            bytearray(rows[start * ROW_BYTES : end * ROW_BYTES]),
            extras.get(number),
        )
        yield StoredOffsets(groups[group_numbers[number]], names[name_numbers[number]], offsets)
        start = end


def _read_extras(columns: ColumnReader) -> tuple[Any, Any, list[Any], Any, Any]:
    numbers, partitions = columns.numbers("i"), columns.numbers("i")
    return numbers, partitions, columns.texts(), columns.numbers("q"), columns.numbers("i")


# Consumer groups, as the records that make them.


def _put_consumer_groups(columns: ColumnWriter, groups: Iterable[ConsumerGroup]) -> None:
    """As a log has them, their members as they came: their order decides between targets that are alike."""
    records = (record for group in groups for record in group_records(group, group.table.as_they_came()))
    encoded = [encode_record(record) for record in records]
    columns.blobs([key for key, _ in encoded])
    columns.blobs([value or b"" for _, value in encoded])


def _consumer_groups(columns: ColumnReader) -> Iterator[CoordinatorRecord]:
    for key, value in zip(columns.blobs(), columns.blobs(), strict=True):
        record = decode_record(key, value)
        if record is None:
            raise DecodeError("a record of no consumer group")
        yield record


# Transactions.


def _put_transactions(columns: ColumnWriter, transactions: OpenTransactions) -> None:
    opened = list(transactions.opened())
    columns.numbers("q", (producer_id for producer_id, _ in opened))
    columns.numbers("i", (each.producer_epoch for _, each in opened))
    columns.numbers("i", (len(each.offsets) for _, each in opened))
    held = [each for _, transaction in opened for each in transaction.offsets.items()]
    columns.texts(key.group_id for key, _ in held)
    columns.texts(key.topic for key, _ in held)
    columns.numbers("i", (key.partition for key, _ in held))
    columns.numbers("q", (committed.offset for _, committed in held))
    columns.numbers("i", (committed.leader_epoch for _, committed in held))
    columns.texts(committed.metadata for _, committed in held)
    columns.numbers("q", (committed.commit_wall_ms for _, committed in held))
    columns.numbers("q", (committed.expire_wall_ms for _, committed in held))
    columns.blobs([committed.topic_id for _, committed in held])
    columns.numbers("q", (committed.log_offset for _, committed in held))
    ended = list(transactions.ended())
    columns.numbers("q", (producer_id for producer_id, _ in ended))
    columns.numbers("i", (epoch for _, epoch in ended))


def _transactions(columns: ColumnReader, shared: dict[str, str]) -> OpenTransactions:
    transactions = OpenTransactions()
    producers, epochs, counts = columns.numbers("q"), columns.numbers("i"), columns.numbers("i")
    groups, topics = ([shared.setdefault(each, each) for each in columns.texts()] for _ in range(2))
    partitions = columns.numbers("i")
    fields: list[Any] = [columns.numbers("q"), columns.numbers("i"), columns.texts(), columns.numbers("q")]
    fields += [columns.numbers("q"), columns.blobs(), columns.numbers("q")]
    held = zip(map(HeldKey, groups, topics, partitions), map(CommittedOffset, *fields), strict=True)
    for producer_id, epoch, count in zip(producers, epochs, counts, strict=True):
        transactions.begin(producer_id, epoch)
        for key, committed in islice(held, count):
            transactions.hold(producer_id, key, committed)
    for producer_id, epoch in zip(columns.numbers("q"), columns.numbers("i"), strict=True):
        transactions.keep_epoch(producer_id, epoch)
    return transactions
