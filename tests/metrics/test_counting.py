"""What is counted beside what happens: errors in answers, durations, long turns, stalls, lost events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.effects import HistoryRow
from coordinator.groups.causes import Cause, CauseKind
from coordinator.history.events import History
from coordinator.metrics.text import buckets, histogram, number
from coordinator.runtime.clock import STALL_MS, Clock
from coordinator.runtime.turn_watch import LONG_TURN_S, RECENT, TurnWatch
from coordinator.server.api_counts import ApiCounts
from harness.wire import WireClient
from protocol.codec.packed import packing_of
from protocol.errors import ErrorCode
from protocol.framing import encode_request
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from storage.latencies import Latencies
from tests.metrics.world import asked, running, samples, text_of, value
from tests.server.joining import beat, join, leave, sync

BURST = 40


def test_a_duration_counts_in_the_first_bound_that_holds_it() -> None:
    latencies = Latencies((0.1, 1.0))
    for took_s in (0.05, 0.1, 0.5, 1.0, 7.0, -3.0):
        latencies.add(took_s)
    assert latencies.counts == [3, 2, 1]
    assert latencies.sum_s == pytest.approx(8.65)
    assert histogram("h", (), latencies) == (
        'h_bucket{le="0.1"} 3\nh_bucket{le="1"} 5\nh_bucket{le="+Inf"} 6\nh_sum 8.65\nh_count 6\n'
    )


def test_the_last_bucket_has_all() -> None:
    assert (
        buckets("h", (("a", "b"),), [(1.0, 2)], 3)
        == 'h_bucket{a="b",le="1"} 2\nh_bucket{a="b",le="+Inf"} 5\n'
    )


@pytest.mark.parametrize(("given", "shown"), [(3, "3"), (3.0, "3"), (0.25, "0.25"), (1e20, "1e+20")])
def test_whole_numbers_have_no_point(given: float, shown: str) -> None:
    assert number(given) == shown


def test_every_error_in_an_answer_is_counted_as_often_as_it_is_there() -> None:
    counts = ApiCounts(8)
    fine, wrong = (
        OffsetCommitResponsePartition(partition_index=0, error_code=error)
        for error in (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION)
    )
    topics = [OffsetCommitResponseTopic(name="a", partitions=[fine, wrong, wrong]) for _ in range(2)]
    counts.add(OffsetCommitResponse(topics=topics))
    counts.add(OffsetCommitResponse(topics=[]))
    assert (counts.requests, counts.errors) == (2, {ErrorCode.ILLEGAL_GENERATION: 4})


def test_errors_in_columns_are_counted_too() -> None:
    """Long lists are columns of numbers, not objects."""
    counts = ApiCounts(8)
    packing = packing_of(OffsetCommitResponsePartition, 8, True)
    packed: Any = packing.pack(partition_index=range(30), error_code=[0, 22, 25] * 10)
    counts.add(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="a", partitions=packed)]))
    assert counts.errors == {22: 10, 25: 10}


def test_answers_that_are_encoded_once_count_themselves() -> None:
    counts = ApiCounts(12)
    counts.encoded().sent += 3
    counts.encoded(ErrorCode.UNKNOWN_MEMBER_ID).sent += 2
    counts.add(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert (counts.requests, counts.errors) == (6, {ErrorCode.UNKNOWN_MEMBER_ID: 3})
    assert counts.encoded() is counts.encoded(0)


async def test_heartbeats_that_come_in_one_segment_are_all_counted(tmp_path: Path) -> None:
    """They are answered together, without being cut into frames."""

    def in_a_burst(client: WireClient) -> None:
        joined = client.ask(join(), 3)
        client.ask(sync(joined), 3)
        for _ in range(3):
            client.ask(beat(joined), 4)
        frames = b"".join(encode_request(beat(joined), 4, 1000 + each, "wire") for each in range(BURST))
        client.socket.sendall(frames)
        for _ in range(BURST):
            client.receive_frame()

    async with running(tmp_path) as daemon:
        await asked(daemon, in_a_burst)
        assert value(samples(text_of(daemon.metrics)), "muster_requests_total", api="Heartbeat") == BURST + 3


async def test_a_scrape_shows_a_group_as_it_is_and_not_as_it_was_walked(tmp_path: Path) -> None:
    """Its lines are kept from scrape to scrape, and made anew where something in them has changed."""

    async def shown() -> tuple[float | None, ...]:
        found = samples(text_of(daemon.metrics))
        return (
            value(found, "muster_group_members", group="m"),
            value(found, "muster_group_state", group="m", state="Empty"),
            value(found, "muster_group_rebalances_total", group="m", cause="member_left"),
        )

    async with running(tmp_path) as daemon:
        member_ids = []

        def joins(client: WireClient) -> None:
            joined = client.ask(join(), 3)
            client.ask(sync(joined), 3)
            member_ids.append(joined.member_id)

        await asked(daemon, joins)
        for _ in daemon.metrics.walk.steps():
            pass
        assert await shown() == (1, None, None)
        assert await shown() == (1, None, None)
        await asked(daemon, lambda client: client.ask(leave(member_ids[0]), 3))
        assert await shown() == (0, 1, 1)


def test_events_that_a_full_queue_drops_are_counted() -> None:
    history = History(10, max_queued=2)
    row = HistoryRow("g", 1, "Stable", "Stable", Cause(CauseKind.MEMBER_JOINED), 0, 1, 0)
    history.record([row] * 5)
    assert history.dropped == 3
    history.count_lost(4, 0)
    assert history.dropped == 7


def test_the_time_in_which_the_process_was_stopped_adds_up() -> None:
    now_ns = 0
    clock = Clock(lambda: now_ns, lambda: 0)
    for stop_ms in (5_000, 7_000):
        clock.wake_by(clock.now_ms() + 10)
        now_ns += (10 + stop_ms) * 1_000_000
        clock.now_ms()
        clock.take_stall_ms()
    assert clock.stalled_ms == 12_000
    clock.wake_by(clock.now_ms() + 10)
    now_ns += (10 + STALL_MS // 2) * 1_000_000
    clock.now_ms()
    assert clock.stalled_ms == 12_000


def test_long_turns_are_counted_by_how_long_they_were_and_short_ones_only_counted() -> None:
    watch = TurnWatch(100, lambda cpu_s: None, cpu_s=lambda: 0.0)
    busy_s = 0.0
    for wall_s in (0.0, LONG_TURN_S / 2, LONG_TURN_S, 0.004, 9.0, *[0.0] * RECENT):
        busy_s += wall_s
        watch.turn_ended(busy_s)
    assert watch.counted == 4, "the first is the start; the last few may yet be taken back"
    assert sum(watch.long_turns.counts) == 3
    assert watch.long_turns.counts[-1] == 1
    assert watch.busy_s == busy_s
