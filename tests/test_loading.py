"""A replay reads what Kafka may have written: transactions, and records of kinds of groups it does not keep."""

from __future__ import annotations

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.classic.records import new_offset_commit_tombstone
from coordinator.groups.consumer.record_schemas import CONSUMER_GROUP_SCHEMAS
from coordinator.groups.group_settings import GroupSettings
from coordinator.groups.record_codec import encode_record
from coordinator.groups.record_schemas import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.loading import replay_batches
from coordinator.shard.shard import Shard
from harness.doubles.topics import Topics
from protocol.errors import DecodeError
from protocol.records.batch import Batch, parse_header
from protocol.records.records import Record as LogRecord
from tests.batches import encode_batch

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
TIME_MS = 1_700_000_000_000


def commit(offset: int, group: str = "g") -> CoordinatorRecord:
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=TIME_MS)
    return CoordinatorRecord(OffsetCommitKey(group=group, topic="t", partition=0), value)


class Log:
    """Batches one after the other, and what replaying them makes of the group's offset."""

    def __init__(self) -> None:
        self.batches: list[tuple[Batch, memoryview]] = []
        self.next_offset = 0

    def add(
        self,
        record: CoordinatorRecord | tuple[bytes, bytes | None],
        producer_id: int = -1,
        transactional: bool = False,
        control: bool = False,
    ) -> Log:
        key, value = encode_record(record) if isinstance(record, CoordinatorRecord) else record
        batch = encode_batch(
            [LogRecord(key, value, TIME_MS)],
            base_offset=self.next_offset,
            producer_id=producer_id,
            transactional=transactional,
            control=control,
        )
        self.batches.append((parse_header(batch), memoryview(bytes(batch))))
        self.next_offset += 1
        return self

    def pending(self, record: CoordinatorRecord, producer_id: int = 7) -> Log:
        return self.add(record, producer_id, transactional=True)

    def marker(self, key: bytes, producer_id: int = 7) -> Log:
        return self.add((key, b"\0\0\0\0\0\0"), producer_id, transactional=True, control=True)

    @property
    def offset(self) -> int | None:
        shard = Shard(0, GroupSettings(), Topics())
        replay_batches(self.batches, shard)
        found = shard.offsets.get("g", "t", 0)
        return None if found is None else found.offset


def test_an_offset_in_a_transaction_counts_from_its_marker_on() -> None:
    log = Log().add(commit(1)).pending(commit(2))
    assert log.offset == 1
    assert log.marker(COMMIT, producer_id=8).offset == 1  # Another producer's.
    assert log.marker(COMMIT).offset == 2


def test_an_aborted_offset_never_counts() -> None:
    assert Log().add(commit(1)).pending(commit(2)).marker(ABORT).marker(COMMIT).offset == 1


def test_a_commit_behind_it_in_the_log_outdoes_one_in_a_transaction() -> None:
    assert Log().pending(commit(2)).add(commit(3)).marker(COMMIT).offset == 3


def test_a_tombstone_takes_along_what_is_held_for_its_offset() -> None:
    """O16: the transaction was open when the offset was deleted."""
    tombstone = new_offset_commit_tombstone("g", "t", 0)
    log = Log().pending(commit(2)).add(tombstone)
    assert log.marker(COMMIT).offset is None
    assert Log().pending(commit(2)).add(tombstone).pending(commit(3)).marker(COMMIT).offset == 3


def test_a_transaction_may_delete_an_offset() -> None:
    tombstone = new_offset_commit_tombstone("g", "t", 0)
    assert Log().add(commit(1)).pending(tombstone).marker(COMMIT).offset is None


def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    shard = Shard(0, GroupSettings(), Topics())
    log = Log().add((b"\0\13\0\1g", b"\0\0")).add(commit(1)).add((b"\x7f\xff", None))
    assert replay_batches(log.batches, shard) == (3, 2)
    assert shard.offsets.get("g", "t", 0) is not None


@pytest.mark.parametrize("number", sorted(RECORD_TYPES.keys() - {0, 1, 2} - CONSUMER_GROUP_SCHEMAS.keys()))
def test_every_type_of_other_kinds_of_groups_is_skipped_whatever_it_holds(number: int) -> None:
    log = Log().add((number.to_bytes(2, "big") + b"\0\1g\0\1m", b"\x7f\xff\0"))
    assert replay_batches(log.batches, Shard(0, GroupSettings(), Topics())) == (1, 1)


def test_a_newer_version_of_a_known_value_fails_the_load() -> None:
    key, _ = encode_record(commit(1))
    with pytest.raises(DecodeError, match="known are up to 4"):
        assert Log().add((key, b"\0\5")).offset


def test_a_control_batch_without_a_marker_is_refused() -> None:
    with pytest.raises(DecodeError, match="control record"):
        assert Log().marker(b"\0").offset
