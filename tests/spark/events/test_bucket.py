"""Records in, rows and dead letters out, and a state that is carried and does not grow."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from coordinator.effects import GroupEvent
from coordinator.groups.causes import CauseKind as Kind
from coordinator.history.events import encode_event
from muster.spark.events.aggregators import (
    AggregatorFactory,
    MemberAggregatorFactory,
    RebalanceAggregatorFactory,
)
from muster.spark.events.bucket import IDLE_MS, Bucket, SourceRecord
from muster.spark.events.storms import StormRule
from tests.spark.events.histories import Chronicle, T, event, records
from tests.spark.events.test_rebalances import END, RESTART, WHOLE

REBALANCES = RebalanceAggregatorFactory(StormRule(300_000, 0.2))
FACTORIES: tuple[AggregatorFactory, AggregatorFactory] = (REBALANCES, MemberAggregatorFactory())
HOUR = 3_600_000


class Stream:
    """A bucket from batch to batch as in Spark: the time is a batch behind, and a call may be for it alone."""

    def __init__(self, factory: AggregatorFactory) -> None:
        self.factory = factory
        self.state: bytes | None = None
        self.due_ms: int | None = None

    def batch(self, batch: list[SourceRecord], until_ms: int) -> list[tuple[str, str]]:
        """The rows as they are written."""
        bucket = Bucket(self.factory, self.state)
        rows, letters = bucket.take(batch, until_ms)
        assert letters == []
        self.state, self.due_ms = bucket.dump(), bucket.due_ms
        return [(row.table, json.dumps(row.columns)) for row in rows]


def history(seed: int) -> list[GroupEvent]:
    """Some groups, each with a history of its own, one after the other in time and mixed in the topic."""
    mixed: list[GroupEvent] = []
    for number in range(4):
        chronicle = Chronicle(seed * 10 + number)
        for _ in range(60):
            chronicle.step()
        mixed += [replace(each, group_id=f"g{number}") for each in chronicle.driver.history]
    return sorted(mixed, key=lambda each: each.wall_ms)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_rows_are_the_same_however_the_stream_is_cut(seed: int, factory: AggregatorFactory) -> None:
    chance = random.Random(seed)
    topic = records(history(seed))
    end_ms = topic[-1].timestamp_ms + 3 * HOUR
    whole = Stream(factory)
    expected = whole.batch(topic, 0) + whole.batch([], end_ms)
    cut, found, until_ms, at = Stream(factory), [], 0, 0
    while at < len(topic):
        batch = topic[at : at + chance.randrange(1, 40)]
        at += len(batch)
        chance.shuffle(batch)
        found += cut.batch(batch, until_ms)
        until_ms = max(until_ms, max(each.timestamp_ms for each in batch) - 60_000)
        if cut.due_ms is not None and cut.due_ms <= until_ms and chance.random() < 0.5:
            found += cut.batch([], until_ms)
    found += cut.batch([], end_ms)
    assert sorted(found) == sorted(expected)
    assert len(found) > 20


@pytest.mark.parametrize("factory", FACTORIES)
def test_records_that_come_twice_count_once(factory: AggregatorFactory) -> None:
    topic = records(history(3))
    once, twice = Stream(factory), Stream(factory)
    until_ms = topic[-1].timestamp_ms - 60_000
    expected = once.batch(topic, 0) + once.batch([], until_ms)
    again = [each._replace(offset=each.offset + 10_000) for each in topic[-20:]]
    found = twice.batch([*topic, *again[:10]], 0) + twice.batch(again[10:], 0) + twice.batch([], until_ms)
    assert found == expected


def test_a_batch_whose_records_are_swapped_is_put_in_order_by_the_states() -> None:
    swapped = [WHOLE[1], WHOLE[0], WHOLE[3], WHOLE[2]]
    assert Stream(REBALANCES).batch(records(swapped), 0) == Stream(REBALANCES).batch(records(WHOLE), 0)


def test_a_clock_that_is_set_back_changes_no_order() -> None:
    """The second rebalance is later in the topic, and an hour earlier by the clock."""
    second = [
        replace(each, generation_id=each.generation_id + 1, wall_ms=each.wall_ms - HOUR, cause="member_left")
        for each in WHOLE
    ]
    rows = Stream(REBALANCES).batch(records([*WHOLE, *second]), 0)
    assert [json.loads(row)["generation_id"] for _, row in rows] == [2, 3]


@pytest.mark.parametrize("factory", FACTORIES)
def test_groups_that_are_gone_leave_nothing_behind(factory: AggregatorFactory) -> None:
    stream = Stream(factory)
    lives = [
        event(0, "Empty PreparingRebalance", Kind.MEMBER_JOINED, member_id="a", member_count=1),
        event(9, "PreparingRebalance Empty", Kind.GROUP_EMPTIED, removed_count=1, removed_member_ids=("a",)),
        event(20, "Empty Dead", Kind.GROUP_DELETED),
    ]
    sizes = []
    for day in range(5):
        shift = day * 24 * HOUR
        events = [
            replace(each, group_id=f"g{day}-{number}", wall_ms=each.wall_ms + shift)
            for number in range(200)
            for each in lives
        ]
        stream.batch(records(events), T + shift - 60_000)
        stream.batch([], T + shift + 2 * HOUR)
        sizes.append(len(stream.state or b""))
    assert stream.due_ms is None
    assert max(sizes) < 100


def test_a_group_without_events_is_forgotten_in_the_end() -> None:
    for factory, begin in zip(FACTORIES, (WHOLE[0], replace(WHOLE[1], member_count=1)), strict=True):
        stream = Stream(factory)
        stream.batch(records([begin]), 0)
        stream.batch([], T + IDLE_MS - HOUR)
        assert stream.due_ms is not None
        stream.batch([], stream.due_ms)
        assert stream.due_ms is None


def test_a_member_of_a_quiet_group_is_remembered_for_weeks() -> None:
    stream = Stream(MemberAggregatorFactory())
    joined = event(0, "Stable PreparingRebalance", Kind.MEMBER_JOINED, member_id="a", member_count=1)
    left = event(IDLE_MS // 2, "Stable Empty", Kind.MEMBER_LEFT, removed_count=1, removed_member_ids=("a",))
    stream.batch(records([joined]), 0)
    stream.batch([], T + IDLE_MS // 2 - HOUR)
    ((_, row),) = stream.batch(records([left], 1), T + IDLE_MS // 2 - HOUR)
    assert json.loads(row)["duration_ms"] == IDLE_MS // 2


def without(event: GroupEvent, **fields: Any) -> bytes:
    """The event's value with some fields set to something else; `...` takes one away."""
    value = {**json.loads(encode_event(event)[1]), **fields}
    return json.dumps({name: each for name, each in value.items() if each is not ...}).encode()


BAD = {
    "not JSON": b"{",
    "not an event": b"[]",
    "no value": None,
    "not UTF-8": b'{"schema": "\xff"}',
    "a later schema": without(END, schema=2),
    "a field is missing": without(END, to_state=...),
    "a number is a text": without(END, wall_ms="today"),
    "true is no number": without(END, generation_id=True),
    "a text is a number": without(END, member_id=5),
    "not an object": without(END, phase_ms=[1]),
    "not milliseconds": without(END, rebalance_ms={"PreparingRebalance": "long"}),
    "not ids": without(END, removed_member_ids=[1]),
    "ids are no list": without(END, removed_member_ids=7),
    "too large": without(END, generation_id=1 << 40),
    "negative": without(END, removed_count=-1),
    "after the last year": without(END, wall_ms=1 << 60),
    "half a surrogate pair": without(END, reason="\ud800"),
    "another group's": without(END, group_id="other"),
    "nested too deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_event_is_a_dead_letter_and_nothing_else(what: str) -> None:
    bad = SourceRecord(0, 1, T, b"g", BAD[what])
    good = [each._replace(offset=each.offset + 2) for each in records(WHOLE)]
    rows, letters = Bucket(REBALANCES, None).take([bad, *good], 0)
    assert [each.record for each in letters] == [bad]
    assert letters[0].reason
    assert len(rows) == 1


def test_a_record_without_its_groups_key_is_a_dead_letter() -> None:
    (end,) = records([END])
    for key in (None, b"", b"h"):
        rows, letters = Bucket(REBALANCES, None).take([end._replace(key=key)], 0)
        assert (rows, [each.reason for each in letters]) == ([], ["the key is not the group id"])


def test_fields_of_a_later_version_are_passed_over() -> None:
    record = SourceRecord(0, 0, T, b"g", without(END, mood="good", cause="moon_phase"))
    rows, letters = Bucket(REBALANCES, None).take([record], 0)
    assert (len(rows), letters) == (1, [])


def test_events_that_were_dropped_are_reported_as_a_dead_letter() -> None:
    gap = GroupEvent("", -1, "", "", "7 events", T, cause="events_dropped", dropped_count=7)
    rows, letters = Bucket(REBALANCES, None).take(records([gap, RESTART]), 0)
    assert [each.reason for each in letters] == ["7 events are missing here, of any groups"]
    assert rows == []
