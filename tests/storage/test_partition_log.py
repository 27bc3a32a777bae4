"""Appending to a log and reading it: what is shown, when, and in which pieces."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.doubles.faulty_files import FaultyFiles
from protocol.records.batch import parse_header
from storage.files import File, Files
from storage.log.config import INT64_MAX, LogConfig
from storage.log.log_reader import OffsetOutOfRange
from storage.log.partition_log import Appended, BatchTooLarge
from storage.log.segment_read import WouldBlock
from tests.storage.logs import NOW_MS, OS_SMALL, SMALL, all_spans, batch, fill, open_log, reopen, spans

EVERYTHING = 1 << 30


def test_an_append_assigns_offsets_and_touches_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert log.append(batch(3), wall_ms=NOW_MS) == Appended(0, 2)
    assert log.append(batch(2), wall_ms=NOW_MS) == Appended(3, 4)
    assert (log.next_offset, log.durable_offset) == (5, 0)
    assert not (tmp_path / "t-0").exists()


def test_what_is_staged_is_not_read_until_it_is_flushed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(batch(3), wall_ms=NOW_MS)
    assert log.read(0, EVERYTHING) == b""
    log.flush()
    assert spans(log.read(0, EVERYTHING)) == [(0, 2)]
    log.append(batch(1), wall_ms=NOW_MS)
    assert spans(log.read(0, EVERYTHING)) == [(0, 2)]
    assert log.read(3, EVERYTHING) == b""


def test_appended_batches_carry_their_offset_and_the_leader_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 2, records=2)
    header = parse_header(log.read(2, EVERYTHING))
    assert (header.base_offset, header.leader_epoch) == (2, 0)


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3, records=4)
    assert spans(log.read(5, EVERYTHING)) == [(4, 7), (8, 11)]


def test_a_read_returns_at_least_one_batch_however_small_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    assert spans(log.read(1, 1)) == [(1, 1)]
    assert log.read(1, 1, at_least_one=False) == b""


def test_a_read_ends_below_the_given_offset_with_a_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3, records=2)
    assert spans(log.read(0, EVERYTHING, up_to=5)) == [(0, 1), (2, 3)]
    assert log.read(0, EVERYTHING, up_to=1) == b""


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    with pytest.raises(OffsetOutOfRange):
        log.read(4, EVERYTHING)
    log.advance_start(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, EVERYTHING)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(4)


def test_a_batch_beyond_the_limit_is_refused_and_takes_no_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, max_batch_bytes=100))
    with pytest.raises(BatchTooLarge):
        log.append(batch(10), wall_ms=NOW_MS)
    assert log.append(batch(1), wall_ms=NOW_MS) == Appended(0, 0)


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    with pytest.raises(BatchTooLarge):
        log.append(batch(1, size_bytes=1000), wall_ms=NOW_MS)


def test_a_warm_log_is_read_without_waiting(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 3)
    try:
        found = log.find_nowait(1, EVERYTHING)
    except WouldBlock:
        pytest.skip("this file system does not know whether a read would wait")
    assert found is not None
    assert found.read_nowait(0, len(found)) == log.read(1, EVERYTHING)


def test_a_segment_that_is_not_open_yet_is_left_to_a_thread(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 30)
    log = reopen(log)
    with pytest.raises(WouldBlock):
        log.find_nowait(0, EVERYTHING)
    assert spans(log.read(0, EVERYTHING))[0] == (0, 0)


# Segments.


def test_segments_are_rolled_by_size_and_named_by_their_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 30, per_flush=7)
    names = sorted(path.name for path in (tmp_path / "t-0").glob("*.log"))
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 2
    assert names == [f"{base:020d}.log" for base in bases]
    assert all(path.stat().st_size <= 1000 for path in (tmp_path / "t-0").glob("*.log"))
    assert all_spans(log) == [(offset, offset) for offset in range(30)]


def test_segments_are_rolled_when_timestamps_lie_too_far_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, segment_ms=1000))
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1002):
        log.append(batch(timestamp_ms=timestamp_ms), wall_ms=NOW_MS)
    log.flush()
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_without_timestamps_segments_are_rolled_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, segment_ms=1000))
    for wall_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        log.append(batch(timestamp_ms=-1), wall_ms=wall_ms)
        log.flush()
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize("step_ms", [10, 0])
@pytest.mark.parametrize("per_flush", [1, 3, 50])
def test_a_segment_whose_index_is_full_is_rolled_however_batches_are_flushed(
    tmp_path: Path, per_flush: int, step_ms: int
) -> None:
    """48 bytes are 4 entries of the index of times, one of them for sealing, or 6 of the index of offsets.

    Every batch but a segment's first has an entry; of times only if it is later than all before it.
    """
    config = replace(SMALL, segment_bytes=1 << 20, index_interval_bytes=1, index_max_bytes=48)
    log = open_log(tmp_path / "t-0", config)
    for number in range(30):
        log.append(batch(timestamp_ms=NOW_MS + number * step_ms), wall_ms=NOW_MS)
        if number % per_flush == 0:
            log.flush()
    log.flush()
    batches = 4 if step_ms else 7
    assert [segment.base_offset for segment in log.segments] == list(range(0, 30, batches))
    log.close()
    index_bytes = [path.stat().st_size for path in (tmp_path / "t-0").glob("*index")]
    assert max(index_bytes) == (36 if step_ms else 48), "the last batch is the newest: sealing adds nothing"


def test_an_index_that_holds_nothing_rolls_behind_every_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, index_max_bytes=4))
    fill(log, 3, per_flush=3)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_segments_that_were_begun_together_are_rolled_apart_within_the_jitter(tmp_path: Path) -> None:
    config = replace(SMALL, segment_bytes=1 << 20, segment_ms=1000, segment_jitter_ms=600)
    rolled_ms = []
    for number in range(20):
        log = open_log(tmp_path / f"t-{number}", config)
        for since_ms in range(0, 1021, 20):
            log.append(batch(timestamp_ms=NOW_MS + since_ms), wall_ms=NOW_MS)
        log.flush()
        rolled_ms.append(log.segments[1].base_offset * 20)
    assert 400 < min(rolled_ms) < max(rolled_ms) <= 1020, "20 in the same of 30 places: once in 10 to the 28"


def test_a_jitter_beyond_the_roll_time_leaves_some_of_it(tmp_path: Path) -> None:
    config = replace(SMALL, segment_ms=1000, segment_jitter_ms=10**12)
    for number in range(20):
        log = open_log(tmp_path / f"t-{number}", config)
        fill(log, 1, per_flush=1)
        log.append(batch(timestamp_ms=NOW_MS), wall_ms=NOW_MS)
        log.flush()
        assert len(log.segments) == 1, "no time has passed"


def test_a_flush_writes_once_per_segment_and_syncs_before_it_shows(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", SMALL, files)
    fill(log, 1)
    files.operations.clear()
    for _ in range(5):
        log.append(batch(), wall_ms=NOW_MS)
    log.flush()
    assert files.history(".log") == ["write 00000000000000000000.log", "sync 00000000000000000000.log"]


def test_the_first_flush_makes_names_durable_too(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    fill(open_log(tmp_path / "t-0", SMALL, files), 1)
    history = files.history()
    assert history.index("sync 00000000000000000000.log") < len(history) - 1
    assert "sync t-0" in history[history.index("create 00000000000000000000.log") :]
    assert f"sync {tmp_path.name}" in history


def test_the_os_policy_syncs_only_when_a_segment_is_full(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", OS_SMALL, files)
    fill(log, 5)
    assert "sync 00000000000000000000.log" not in files.history()
    assert (log.durable_offset, log.recovery_point) == (5, 0)
    fill(log, 10)
    assert "sync 00000000000000000000.log" in files.history()
    assert log.recovery_point == log.segments[-1].base_offset


def test_a_segment_is_synced_before_its_successor_is_made(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    log = open_log(tmp_path / "t-0", OS_SMALL, files)
    fill(log, 30, per_flush=30)
    history = files.history()
    for old, new in zip(log.segments, log.segments[1:], strict=False):
        made = history.index(f"create {new.path.name}")
        assert f"sync {old.path.name}" in history[:made]
        assert "sync t-0" in history[history.index(f"create {old.path.name}") : made]


# Against a model.

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5), st.integers(0, 120)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, probe=st.integers(1, 400))
def test_reads_at_every_offset_equal_the_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], probe: int
) -> None:
    directory = tmp_path_factory.mktemp("model") / "t-0"
    log = open_log(directory)
    staged: list[bytearray] = []
    durable: list[bytearray] = []
    for step, records, size_bytes in steps:
        if step == "append":
            data = batch(records, size_bytes=size_bytes)
            log.append(data, wall_ms=NOW_MS)
            staged.append(data)
        else:
            durable, staged = durable + staged, []
            log.flush()
        if step == "reopen":
            log = reopen(log)
    model = [(parse_header(data), bytes(data)) for data in durable]
    bases = [segment.base_offset for segment in log.segments]
    for offset in range(log.durable_offset):
        end = min([base for base in bases if base > offset], default=log.durable_offset)
        expected = [
            data for header, data in model if header.last_offset >= offset and header.base_offset < end
        ]
        assert log.read(offset, EVERYTHING) == b"".join(expected)
        fitting = [
            data for n, data in enumerate(expected) if n == 0 or len(b"".join(expected[: n + 1])) <= probe
        ]
        assert log.read(offset, probe) == b"".join(fitting)
    assert log.read(log.durable_offset, EVERYTHING) == b""


# Time.


def test_the_first_record_at_or_after_a_time_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 30, records=3)  # Batch n holds offsets 3n.. with timestamps NOW + 10n, +1, +2.
    assert log.offset_for_timestamp(0) == (0, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS + 51) == (16, NOW_MS + 51)
    assert log.offset_for_timestamp(NOW_MS + 53) == (18, NOW_MS + 60)
    assert log.offset_for_timestamp(NOW_MS + 292) == (89, NOW_MS + 292)
    assert log.offset_for_timestamp(NOW_MS + 293) is None


def test_times_are_found_when_they_run_backwards(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for timestamp_ms in (500, 900, 100, 700, 1200):
        log.append(batch(timestamp_ms=timestamp_ms), wall_ms=NOW_MS)
        log.flush()
    assert log.offset_for_timestamp(600) == (1, 900)
    assert log.offset_for_timestamp(901) == (4, 1200)


@settings(max_examples=40, deadline=None)
@given(times=st.lists(st.integers(0, 50), min_size=1, max_size=40), reopened=st.booleans())
def test_every_time_is_found_like_a_linear_search_finds_it(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], reopened: bool
) -> None:
    directory = tmp_path_factory.mktemp("times") / "t-0"
    log = open_log(directory)
    for timestamp_ms in times:
        log.append(batch(timestamp_ms=timestamp_ms), wall_ms=NOW_MS)
    log.flush()
    if reopened:
        log = reopen(log)
    for wanted in range(52):
        first = next(((n, t) for n, t in enumerate(times) if t >= wanted), None)
        assert log.offset_for_timestamp(wanted) == first
    assert log.max_timestamp() == (times.index(max(times)), max(times))


def test_an_empty_log_has_no_newest_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert log.max_timestamp() is None
    assert log.offset_for_timestamp(0) is None


# Retention.


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_ms=100))
    fill(log, 30)
    first, second = log.segments[:2]
    newest_ms = NOW_MS + 10 * (second.base_offset - 1)
    assert log.apply_retention(newest_ms + 100) == 0
    assert log.apply_retention(newest_ms + 101) == 1
    assert (log.log_start_offset, log.segments[0]) == (second.base_offset, second)
    assert not first.path.exists()
    assert open_log(tmp_path / "t-0").log_start_offset == second.base_offset


def test_an_active_segment_that_expired_is_rolled_and_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_ms=100))
    fill(log, 3)
    log.append(batch(), wall_ms=NOW_MS)  # Staged bytes outlive it.
    assert log.apply_retention(NOW_MS + 10_000) == 1
    assert (log.log_start_offset, log.durable_offset, log.size_bytes) == (3, 3, 0)
    log.flush()
    assert spans(log.read(3, EVERYTHING)) == [(3, 3)]
    log.close()
    assert all_spans(open_log(tmp_path / "t-0")) == [(3, 3)]


def test_an_empty_active_segment_never_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_ms=100))
    fill(log, 3)
    assert log.apply_retention(NOW_MS + 10_000) == 1
    assert log.apply_retention(NOW_MS + 10_000_000) == 0


def test_the_oldest_segments_go_while_the_rest_is_large_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_bytes=1500))
    fill(log, 40)
    before = log.size_bytes
    deleted = log.apply_retention(NOW_MS)
    assert deleted > 0
    assert 1500 <= log.size_bytes < before
    assert log.size_bytes - log.segments[0].size_bytes < 1500


def test_segments_below_the_start_of_the_log_go(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 30)
    log.advance_start(log.segments[2].base_offset)
    assert log.apply_retention(NOW_MS) == 2


def test_a_replay_asks_the_disk_for_as_much_as_its_buffer_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`offsets.load.buffer.size`: little memory, or few reads."""
    log = open_log(tmp_path / "t-0", LogConfig())
    fill(log, 300, per_flush=100)
    asked: list[int] = []
    read_at = File.read_at

    def noting(file: File, length: int, position: int) -> bytes:
        asked.append(length)
        return read_at(file, length, position)

    monkeypatch.setattr(File, "read_at", noting)
    largest = {}
    for window_bytes in (5_000, 10_000, 1 << 20):
        asked.clear()
        assert len(list(log.batches(0, window_bytes))) == 300
        largest[window_bytes] = max(asked)
    assert largest == {5_000: 5_000, 10_000: 10_000, 1 << 20: log.size_bytes}


def test_a_reader_of_a_deleted_segment_finishes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, retention_ms=100))
    fill(log, 30)
    replayed = log.batches(0)
    next(replayed)
    assert log.apply_retention(NOW_MS + 10_000) > 1
    first_segment = log.log_start_offset and next(replayed)[0]
    assert first_segment
    assert first_segment.base_offset == 1


# Changes from outside.


def test_truncation_drops_whole_batches_and_what_is_staged(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    fill(log, 20, records=3)
    log.append(batch(), wall_ms=NOW_MS)
    log.truncate_to(31)
    assert (log.durable_offset, log.next_offset) == (30, 30)
    assert all_spans(log) == [(n, n + 2) for n in range(0, 30, 3)]
    fill(log, 1)
    log.close()
    assert all_spans(open_log(tmp_path / "t-0"))[-1] == (30, 30)


@pytest.mark.parametrize("flush_messages", [1, INT64_MAX])
def test_a_config_may_change_while_the_log_is_used(tmp_path: Path, flush_messages: int) -> None:
    log = open_log(tmp_path / "t-0", replace(SMALL, flush_messages=flush_messages))
    fill(log, 3)
    log.config = LogConfig(segment_bytes=500, flush_messages=1)
    fill(log, 10)
    assert log.recovery_point == log.durable_offset == 13
    assert all(segment.size_bytes <= 500 for segment in log.segments[1:])


def test_an_empty_topic_is_found_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.topic_id = bytes(range(16))
    log.make_directory()
    assert (tmp_path / "t-0" / "partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert open_log(tmp_path / "t-0", files=Files()).topic_id == bytes(range(16))


# Threads.


def test_readers_on_other_threads_see_whole_batches_in_order(tmp_path: Path) -> None:
    """Two readers walk the log again and again while it is appended to, flushed, rolled and shortened."""
    log = open_log(tmp_path / "t-0", replace(OS_SMALL, segment_bytes=9000, retention_bytes=20_000))
    problems: list[BaseException] = []
    stopped = threading.Event()

    def walk_on() -> None:
        offset = 0
        try:
            while not stopped.is_set() or offset < log.durable_offset:
                try:
                    found = spans(log.read(offset, 700))
                except OffsetOutOfRange:
                    offset = log.log_start_offset
                    continue
                assert [base for base, _ in found] == list(range(offset, offset + len(found)))
                offset += len(found)
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=walk_on) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1000):
        log.append(batch(timestamp_ms=NOW_MS + number), wall_ms=NOW_MS)
        if number % 5 == 0:
            log.flush()
        if number % 50 == 0:
            log.apply_retention(NOW_MS)
    log.flush()
    stopped.set()
    for reader in readers:
        reader.join(30)
    assert not problems
    assert log.log_start_offset > 0
