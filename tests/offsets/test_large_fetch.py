"""OffsetFetch of many partitions: answered by whole arrays, and equal to an answer of partition by partition."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.effects import Moment, RequestContext
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.group_settings import GroupSettings
from coordinator.offsets.committed import CommittedOffset
from coordinator.offsets.fetch import fetch_offsets
from coordinator.offsets.open_transactions import HeldKey
from coordinator.offsets.shard_offsets import ShardOffsets
from coordinator.offsets.topic_offsets import NO_EXPIRY
from harness.doubles.topics import Topics
from protocol.codec.codec import decode, encode
from protocol.codec.packed import PACKED_FROM, as_packed
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

GROUP, TOPIC = "g", "orders"
MANY = PACKED_FROM + 4
TOPICS = Topics(orders=MANY)
TOPIC_ID = TOPICS.topic_id(TOPIC)
OTHER_ID = b"\7" * 16
Row = tuple[int, int, int, str | None, int]
was_packed: list[bool] = []


def shard_with(partitions: Iterable[int], topic_id: bytes | None = TOPIC_ID, note: str = "") -> ShardOffsets:
    shard = ShardOffsets(GroupSettings(), TOPICS, ConsumerGroupSettings())
    assert topic_id is not None
    for number, each in enumerate(partitions):
        committed = CommittedOffset(10**12 + each, each - 3, note, 5, NO_EXPIRY, topic_id, number)
        shard.offsets.put(GROUP, TOPIC, each, committed)
        note = ""
    return shard


def asked(shard: ShardOffsets, wanted: list[int] | None, version: int, stable: bool = False) -> list[Row]:
    """Return the rows of the answer, by way of its bytes; `was_packed` gets whether it was made as arrays."""
    assert TOPIC_ID is not None
    name, topic_id = (TOPIC, bytes(16)) if version < 10 else ("", TOPIC_ID)
    topics = None
    if wanted is not None:
        topics = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=wanted)]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    request = OffsetFetchRequest(groups=[group], require_stable=stable)
    context = RequestContext(object(), version, "c", "/h", "u" * 22)
    response = fetch_offsets(shard, request, context, Moment(1, 1)).replies[0].response
    was_packed.append(as_packed(response.groups[0].topics[0].partitions) is not None)
    (topic,) = decode(OffsetFetchResponse, version, bytes(encode(response, version))).groups[0].topics
    return [
        (
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for each in topic.partitions
    ]


def row(partition: int, note: str = "") -> Row:
    return partition, 10**12 + partition, partition - 3, note, 0


def nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> Row:
    return partition, -1, -1, "", error


@pytest.mark.parametrize("version", [8, 9, 10])
def test_all_and_any_order_of_the_partitions(version: int) -> None:
    shard = shard_with(range(MANY))
    mixed = [*range(MANY - 1, -1, -1), 3, 3]
    for wanted in (None, list(range(MANY)), mixed, [5]):
        shown = range(MANY) if wanted is None else wanted
        assert asked(shard, wanted, version) == [row(each) for each in shown]
        assert was_packed[-1]


@pytest.mark.parametrize("version", [8, 10])
def test_what_is_not_alike_is_answered_one_by_one(version: int) -> None:
    everything = list(range(MANY))
    note = asked(shard_with(everything, note="note"), None, version)
    assert note == [row(0, "note"), *map(row, everything[1:])]
    assert not was_packed[-1]
    gaps = shard_with(range(0, 2 * MANY, 2))
    assert asked(gaps, None, version) == [row(each) for each in range(0, 2 * MANY, 2)]
    assert was_packed[-1]
    assert asked(gaps, [0, 1, 2], version) == [row(0), nothing(1), row(2)]
    whole = shard_with(everything)
    for outside in (-1, MANY, 2**31 - 1, -(2**31)):
        assert asked(whole, [*everything, outside], version) == [*map(row, everything), nothing(outside)]
        assert not was_packed[-1]


def test_offsets_of_a_former_topic_are_not_shown_by_id() -> None:
    assert asked(shard_with(range(MANY), OTHER_ID), list(range(MANY)), 10) == [*map(nothing, range(MANY))]
    assert asked(shard_with(range(MANY), OTHER_ID), None, 9) == [row(each) for each in range(MANY)]
    assert asked(shard_with(range(MANY), bytes(16)), None, 10) == [row(each) for each in range(MANY)]


def test_an_offset_that_a_transaction_holds_is_unstable_among_many() -> None:
    shard = shard_with(range(MANY))
    held = CommittedOffset(1, 1, "", 1, NO_EXPIRY, bytes(16), 99)
    shard.offsets.transactions.begin(7, 0)
    shard.offsets.transactions.hold(7, HeldKey(GROUP, TOPIC, 4), held)
    unstable = nothing(4, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    expected = [unstable if each == 4 else row(each) for each in range(MANY)]
    assert asked(shard, None, 9, stable=True) == expected
    assert asked(shard, None, 9, stable=False) == [row(each) for each in range(MANY)]


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 60), min_size=1), st.lists(st.integers(-2, 62), min_size=1, max_size=80))
def test_any_offsets_and_any_question(known: set[int], wanted: list[int]) -> None:
    expected = [row(each) if each in known else nothing(each) for each in wanted]
    assert asked(shard_with(sorted(known)), wanted, 9) == expected
