"""A shard that is restored from a snapshot is, field by field, the one that was encoded."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.classic.stored import StoredGroup, StoredMember
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.reconciliation import CurrentAssignment
from coordinator.groups.consumer.records import group_records
from coordinator.groups.consumer.subscriptions import ResolvedRegex
from coordinator.offsets.open_transactions import HeldKey, OpenTransactions
from coordinator.offsets.topic_offsets import NO_EXPIRY, CommittedOffset
from coordinator.runtime.group_shards import SNAPSHOTS
from coordinator.shard.shard import Shard
from coordinator.shard.snapshot import STATE_VERSION, encode_state
from protocol.errors import DecodeError
from tests.test_bulk_replay import (
    consumer_groups_of,
    fresh_shard,
    logs,
    one_by_one,
    sound_records,
    transactional_logs,
)


def fields(shard: Shard) -> dict[str, Any]:
    """All that a shard stores, also what comparisons of its parts leave out."""
    topics = shard.offsets.all_topics()
    transactions = shard.offsets.transactions
    return {
        "groups": list(shard.stored.items()),
        "consumer groups": consumer_groups_of(shard),
        "offsets": [
            (group_id, topic, each.topic_id, each.partitions, each.rows, each.extras)
            for group_id, topic, each in topics
        ],
        "open": [(producer_id, repr(each)) for producer_id, each in transactions.opened()],
        "held by group": {
            (group_id, where): transactions.holds(group_id, *where)
            for group_id in transactions.group_ids()
            for where in transactions.of_group(group_id)
        },
        "ended": list(transactions.ended()),
    }


def encoded(shard: Shard) -> bytes:
    return b"".join(encode_state(shard.stored.values(), shard.consumer_groups.values(), shard.offsets))


def restored(data: bytes) -> Shard:
    shard = fresh_shard()
    SNAPSHOTS.restore(memoryview(data), shard)
    return shard


def assert_restored_equal(shard: Shard) -> None:
    found = restored(encoded(shard))
    assert fields(found) == fields(shard)
    assert (found.stored, found.offsets) == (shard.stored, shard.offsets)
    now, other = shard.loaded(5_000, 1_700_000_000_000), found.loaded(5_000, 1_700_000_000_000)
    assert now == other
    assert {name: repr(group) for name, group in found.groups.items()} == {
        name: repr(group) for name, group in shard.groups.items()
    }


@settings(max_examples=150, deadline=None)
@given(logs(sound_records))
def test_every_kind_of_record_is_restored(batches: list[bytearray]) -> None:
    assert_restored_equal(one_by_one(batches))


@settings(max_examples=200, deadline=None)
@given(transactional_logs())
def test_open_and_ended_transactions_are_restored(batches: list[bytearray]) -> None:
    assert_restored_equal(one_by_one(batches))


def test_an_empty_shard_is_restored() -> None:
    assert_restored_equal(fresh_shard())


@settings(max_examples=50, deadline=None)
@given(st.one_of(logs(sound_records), transactional_logs()), st.data())
def test_a_restored_shard_replays_on(batches: list[bytearray], drawn: st.DataObject) -> None:
    """What the log says after the snapshot has the same effect, above all on transactions."""
    cut = drawn.draw(st.integers(0, len(batches)))
    shard, whole = restored(encoded(one_by_one(batches[:cut]))), one_by_one(batches)
    assert fields(one_by_one(batches[cut:], shard)) == fields(whole)


@settings(max_examples=100, deadline=None)
@given(logs(sound_records), st.data())
def test_a_state_that_ends_early_is_refused(batches: list[bytearray], drawn: st.DataObject) -> None:
    """The checksum has been looked at before: this is for a bug of ours, which must not pass for a state."""
    data = encoded(one_by_one(batches))
    with pytest.raises(DecodeError):
        restored(data[: drawn.draw(st.integers(0, len(data) - 1))])
    with pytest.raises(DecodeError):
        restored(data + b"\0")


def of_each_kind() -> Shard:
    """A shard that stores something of each kind."""
    shard, held = fresh_shard(), HeldKey("g", "t", 1)
    member = StoredMember("m", "i", "c", "h", 1, 2, b"s", b"a")
    committed = CommittedOffset(1, 1, "note", 5, NO_EXPIRY, b"i" * 16, 9)
    transactions = OpenTransactions()
    transactions.begin(7, 1)
    transactions.hold(7, held, committed)
    transactions.keep_epoch(8, 2)
    shard.replay(StoredGroup("g", "consumer", 3, "range", "m", 5, (member, member)), 0)
    shard.offsets.put("g", "t", 2, committed)
    shard.offsets.put("g", "t", 3, committed._replace(expire_wall_ms=6, topic_id=b"o" * 16))
    shard.replay(transactions, 0)
    group = ConsumerGroup("c", epoch=4, assignment_epoch=4)
    group.put_member(ConsumerMember("m", topic_names=("t",)), CurrentAssignment(4, 3))
    group.targets["m"] = {b"i" * 16: (0, 1)}
    group.subscriptions.resolve("t.*", ResolvedRegex(("t",), 1, 2))
    for record in group_records(group):
        shard.replay(record, 0)
    return shard


def test_a_state_of_which_any_bit_is_another_is_read_or_refused() -> None:
    """The same: whatever a bug has written, the log is read then."""
    data = encoded(of_each_kind())
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with suppress(DecodeError):
                restored(bytes(damaged))


def test_other_bytes_are_another_version() -> None:
    """A stop of the version before may have left them: where they change, STATE_VERSION has to be raised."""
    digest = sha256(encoded(of_each_kind())).hexdigest()
    assert (STATE_VERSION, digest) == (2, "ba0b7fca6a0bc22c079538b74068f8fff8e270d0b8e837415c751d127343d86f")


def test_members_stand_in_the_order_in_which_they_came() -> None:
    """Of those whose ids have one hash the newest is the first in the table (A33), which targets depend on."""
    shard, group = fresh_shard(), ConsumerGroup("c", epoch=4, assignment_epoch=4)
    for member_id in ("AaAaAa", "juliet", "BBBBBB", "AaBBAa"):
        group.put_member(ConsumerMember(member_id, topic_names=("t",)), CurrentAssignment(4, 3))
    for record in group_records(group, group.table.as_they_came()):
        shard.replay(record, 0)
    once = restored(encoded(shard))
    again = restored(encoded(once))
    for each in (shard, once, again):
        assert [*each.consumer_groups["c"].table] == [*group.table]
