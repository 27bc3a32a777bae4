"""What a running server does by itself, seen through the wire and in its directory.

Retention by time and by size, and none of compacted topics; new segments; recovery points; producers that are
forgotten; what the cleaner leaves of them; how the offsets log is compressed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.processes import wait_until
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.records.batch import Codec
from storage.log.checkpoints import RECOVERY_POINTS
from tests.living.conftest import PRODUCER_EXPIRATION_MS, ZSTD
from tests.living.peer import DEADLINE_S, Peer, wall_ms
from tests.topics.world import batch

pytestmark = pytest.mark.xdist_group("living")  # They share one server.

MINUTE_MS = 60_000
ROLL_MS = str(MINUTE_MS // 2)  # Batches that are a minute apart lie in segments of their own.
OLD = {"retention_ms": str(MINUTE_MS), "segment_ms": ROLL_MS}
BATCH_BYTES = 700_000
LARGE = {"segment_bytes": str(1 << 20), "retention_bytes": "1200000"}  # A batch to a segment.


def write_old_and_new(peer: Peer, topic: str) -> None:
    now_ms = wall_ms()
    peer.write_at(topic, now_ms - 2 * MINUTE_MS, now_ms, key=b"a")


def await_start(peer: Peer, topic: str, offset: int) -> None:
    wait_until(lambda: peer.earliest(topic) >= offset, f"{topic} begins at {offset}", DEADLINE_S)
    assert peer.earliest(topic) == offset


def await_a_round(peer: Peer, name: str) -> None:
    """Retention has been looked at once more, of every topic: those that were there before come first."""
    peer.make_topic(name, **OLD)
    write_old_and_new(peer, name)
    await_start(peer, name, 1)


def test_segments_are_rolled_by_time(peer: Peer) -> None:
    peer.make_topic("rolled", segment_ms=ROLL_MS)
    now_ms = wall_ms()
    peer.write_at("rolled", now_ms - 2 * MINUTE_MS, now_ms - 2 * MINUTE_MS + int(ROLL_MS), now_ms)
    assert peer.segments("rolled") == [0, 2]


def test_old_segments_go_by_time(peer: Peer) -> None:
    peer.make_topic("aged", **OLD)
    write_old_and_new(peer, "aged")
    await_start(peer, "aged", 1)
    assert peer.fetch("aged").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert peer.fetch("aged", 1).records
    wait_until(lambda: peer.segments("aged") == [1], "the file is gone", DEADLINE_S)


def test_old_segments_go_by_size_while_as_much_is_left_as_is_to_be_kept(peer: Peer) -> None:
    peer.make_topic("sized", **LARGE)
    now_ms = wall_ms()
    peer.write_at("sized", *[now_ms] * 4, size_bytes=BATCH_BYTES)
    await_start(peer, "sized", 2)
    await_a_round(peer, "sized-round")
    assert peer.earliest("sized") == 2
    wait_until(lambda: peer.segments("sized") == [2, 3], "the files are gone", DEADLINE_S)


def test_what_is_compacted_is_never_deleted_for_its_age_or_its_size(peer: Peer) -> None:
    compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "1"}
    peer.make_topic("table", **compacted, **OLD)
    peer.make_topic("large-table", **compacted, **LARGE)
    peer.make_topic("both", **{**compacted, "cleanup_policy": "compact,delete"}, **OLD)
    for topic in ("table", "both"):
        write_old_and_new(peer, topic)
    peer.write_at("large-table", *[wall_ms()] * 4, size_bytes=BATCH_BYTES)
    await_start(peer, "both", 1)
    await_a_round(peer, "table-round")
    assert (peer.earliest("table"), peer.segments("table")) == (0, [0, 1])
    assert (peer.earliest("large-table"), peer.segments("large-table")) == (0, [0, 1, 2, 3])


def test_recovery_points_are_written_while_it_runs(peer: Peer) -> None:
    """So a kill makes the next start look back no further."""
    peer.make_topic("synced", segment_ms=ROLL_MS)
    write_old_and_new(peer, "synced")
    points = Path(peer.log_dir, RECOVERY_POINTS)

    def is_written() -> bool:
        """Behind what was rolled: of the newest segment a topic promises nothing."""
        return points.exists() and "synced 0 1" in points.read_text().splitlines()

    wait_until(is_written, "a recovery point", DEADLINE_S)


def test_a_producer_that_is_silent_is_forgotten(peer: Peer) -> None:
    peer.make_topic("producers")
    producer_id = peer.new_producer_id()

    def records(sequence: int) -> bytes:
        return batch(b"v", at_ms=wall_ms(), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    began_ms = wall_ms()
    assert peer.produce("producers", records(0), records(7)) == [
        ErrorCode.NONE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ]
    wait_until(lambda: not peer.producers("producers"), "the producer is forgotten", DEADLINE_S)
    assert wall_ms() - began_ms >= PRODUCER_EXPIRATION_MS
    assert peer.produce("producers", records(7)) == [ErrorCode.NONE]


def test_the_cleaner_keeps_nothing_of_a_producer_that_is_forgotten(peer: Peer) -> None:
    """While it may come back its last batch stays, emptied."""
    peer.make_topic("cleaned", cleanup_policy="compact", segment_ms=ROLL_MS, min_cleanable_dirty_ratio="0.01")
    now_ms = wall_ms()
    last = batch(
        b"1",
        at_ms=now_ms - 2 * MINUTE_MS,
        producer_id=peer.new_producer_id(),
        producer_epoch=0,
        base_sequence=0,
    )
    assert peer.produce("cleaned", last) == [ErrorCode.NONE]
    peer.write_at("cleaned", now_ms - MINUTE_MS, now_ms)

    def cleaned() -> bool:
        first = peer.batches("cleaned")[0]
        return first.base_offset > 0 or first.record_count == 0

    wait_until(cleaned, "the log is cleaned", DEADLINE_S)
    first = peer.batches("cleaned")[0]
    assert (first.base_offset, first.record_count) == (1, 1)


def test_offsets_are_compressed_as_the_setting_says(peer: Peer) -> None:
    peer.make_topic("orders")
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[offset])]
    )

    def is_committed() -> bool:
        peer.client.ask(FindCoordinatorRequest(key="g"), 3)  # The first has Kafka make the offsets topic.
        return bool(peer.client.ask(request, 8).topics[0].partitions[0].error_code == ErrorCode.NONE)

    wait_until(is_committed, "a commit", DEADLINE_S)

    def codecs() -> set[Codec]:
        """Of what is in the segments by now."""
        return {each.codec for index in (0, 1) for each in peer.batches("__consumer_offsets", index)}

    assert wait_until(codecs, "the commit is in a segment", DEADLINE_S) == {Codec(ZSTD)}
