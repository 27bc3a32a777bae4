"""History on its way to its topic: in order, in batches that fit, one write at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.effects import GroupEvent, HistoryRow
from coordinator.groups.causes import Cause, CauseKind
from coordinator.history.events import History, decode_event
from coordinator.history.writer import EVENTS_PER_WRITE, WRITE_BYTES, HistoryWriter
from protocol.errors import ErrorCode, OnDone
from protocol.records.records import parse_header, read_records


class FakePartition:
    def __init__(self) -> None:
        self.batches: list[bytearray] = []
        self.waiting: list[OnDone] = []
        self.refuses = False
        self.refused = 0

    def append_local(self, data: bytearray, durable: OnDone | None = None) -> None:
        if self.refuses:
            self.refused += 1
            assert durable is not None
            durable(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self.batches.append(data)
        if durable is not None:
            self.waiting.append(durable)

    def events(self) -> list[GroupEvent]:
        return [event for data in self.batches for event in read_back(data)]

    def group_ids(self) -> list[str]:
        return [event.group_id for event in self.events()]


def read_back(data: bytearray) -> list[GroupEvent]:
    records = read_records(data, parse_header(data), max_inflated_bytes=1 << 20)
    return [decode_event(record.value) for record in records]


class Setup:
    def __init__(self, max_queued: int = 10_000) -> None:
        self.soon: list[Callable[[], None]] = []
        self.partition = FakePartition()
        self.history = History(100, max_queued=max_queued)
        self.writer = HistoryWriter(self.history, self.partition, self.soon.append)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def write_all(self) -> None:
        """Let the disk take one write after the other."""
        self.run_soon()
        while self.partition.waiting:
            self.partition.waiting.pop()(ErrorCode.NONE)
            self.run_soon()


def row(group_id: str) -> HistoryRow:
    return HistoryRow(group_id, 1, "Stable", "PreparingRebalance", Cause(CauseKind.MEMBER_JOINED), 5, 1, 0)


def test_events_are_written_after_the_turn_and_in_order() -> None:
    setup = Setup()
    setup.writer.record((row("a"), row("b")))
    assert not setup.partition.batches, "no reply of this turn waits for it"
    setup.run_soon()
    assert setup.partition.group_ids() == ["a", "b"]


def test_one_write_is_under_way_at_a_time() -> None:
    setup = Setup()
    setup.writer.record((row("a"),))
    setup.run_soon()
    setup.writer.record((row("b"),))
    setup.writer.record((row("c"),))
    setup.run_soon()
    assert setup.partition.group_ids() == ["a"]
    setup.partition.waiting.pop()(ErrorCode.NONE)
    setup.run_soon()
    assert setup.partition.group_ids() == ["a", "b", "c"]


def test_a_failed_write_does_not_stop_the_next_which_reports_it() -> None:
    setup = Setup()
    setup.writer.record((row("a"), row("a")))
    setup.run_soon()
    setup.writer.record((row("b"),))
    setup.partition.waiting.pop()(ErrorCode.KAFKA_STORAGE_ERROR)
    setup.run_soon()
    assert [(e.group_id, e.cause, e.dropped_count) for e in setup.partition.events()] == [
        ("a", "member_joined", 0), ("a", "member_joined", 0), ("", "events_dropped", 2), ("b", "member_joined", 0),
    ]  # fmt: skip


def test_a_disk_that_refuses_everything_is_not_tried_without_end() -> None:
    setup = Setup()
    setup.partition.refuses = True
    setup.writer.record((row("a"), row("b")))
    setup.run_soon()
    assert setup.partition.refused == 1
    setup.writer.record((row("c"),))
    setup.run_soon()
    assert setup.partition.refused == 2
    setup.partition.refuses = False
    setup.writer.record((row("d"),))
    setup.run_soon()
    assert [(e.group_id, e.dropped_count) for e in setup.partition.events()] == [("", 3), ("d", 0)]


def test_while_the_disk_is_stuck_events_are_dropped_and_then_reported_in_the_log_and_on_the_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setup = Setup(max_queued=10)
    setup.writer.record((row("a"),))
    setup.run_soon()
    for _ in range(3):
        setup.writer.record(tuple(row("b") for _ in range(10)))
    setup.run_soon()
    assert setup.partition.group_ids() == ["a"]
    assert capsys.readouterr().out.count("history events are being dropped") == 1, "once, not at every event"
    setup.partition.waiting.pop()(ErrorCode.NONE)
    setup.run_soon()
    assert [(e.group_id, e.dropped_count) for e in setup.partition.events()[1:]] == [("b", 0)] * 10 + [
        ("", 20)
    ]
    assert "dropped=20" in capsys.readouterr().out


def test_a_write_is_cut_by_events_and_where_group_ids_are_long_by_bytes() -> None:
    setup = Setup()
    setup.writer.record(tuple(row("x" * 32_000) for _ in range(100)))
    setup.writer.record(tuple(row("y") for _ in range(2 * EVENTS_PER_WRITE)))
    setup.write_all()
    assert len(setup.partition.group_ids()) == 100 + 2 * EVENTS_PER_WRITE
    assert all(len(batch) < WRITE_BYTES + 70_000 for batch in setup.partition.batches)
    assert [len(read_back(batch)) for batch in setup.partition.batches[:2]] == [8, 8]
    assert max(len(read_back(batch)) for batch in setup.partition.batches) == EVENTS_PER_WRITE


def test_a_stop_writes_what_is_queued_and_the_turn_that_was_due_does_nothing() -> None:
    setup = Setup()
    setup.writer.record((row("a"),))
    setup.run_soon()
    setup.writer.record(tuple(row(f"g{number}") for number in range(1_200)))
    setup.writer.close()
    assert len(setup.partition.group_ids()) == 1_201
    setup.partition.waiting.pop()(ErrorCode.NONE)
    setup.run_soon()
    assert len(setup.partition.group_ids()) == 1_201


def test_a_turn_that_comes_after_the_stop_writes_nothing() -> None:
    setup = Setup()
    setup.writer.record((row("a"),))
    setup.writer.close()
    setup.run_soon()
    assert setup.partition.group_ids() == ["a"]
