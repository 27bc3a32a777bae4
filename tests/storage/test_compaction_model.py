"""Any log, cleaned any number of times: held against a model that forgets nothing."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.records import Codec, Record, read_records
from storage.log.partition_log import PartitionLog
from tests.batches import encode_batch
from tests.storage.cleaning import (
    ABORT,
    COMMIT,
    COMPACTED,
    NOW_MS,
    RETENTION_MS,
    clean,
    data_records,
    end_transaction,
    open_compacted,
    roll,
)
from tests.storage.logs import reopen

EVERYTHING = 1 << 30
PRODUCERS = (1, 2)


@dataclass(frozen=True)
class Append:
    """One batch. `producer` is 0 for none; with one it is part of a transaction."""

    pairs: list[tuple[str, str | None]]
    codec: Codec
    producer: int


@dataclass(frozen=True)
class End:
    producer: int
    kind: int


@dataclass(frozen=True)
class Clean:
    after_ms: int
    buffer_bytes: int


class Roll:
    pass


class Reopen:
    pass


values = st.none() | st.text("xy", min_size=1, max_size=120)
pairs = st.lists(st.tuples(st.sampled_from("abcdef"), values), min_size=1, max_size=6)
steps = st.one_of(
    st.builds(Append, pairs, st.sampled_from(Codec), st.sampled_from((0, 0, 0, *PRODUCERS))),
    st.builds(Append, pairs, st.just(Codec.NONE), st.just(0)),
    st.builds(End, st.sampled_from(PRODUCERS), st.sampled_from((ABORT, COMMIT))),
    st.builds(
        Clean,
        st.sampled_from((0, 1, RETENTION_MS // 2, RETENTION_MS, 2 * 86_400_000)),
        st.sampled_from((1, 500, 1 << 20)),
    ),
    st.builds(Roll),
    st.builds(Reopen),
)


@dataclass
class World:
    """The log, and all that was ever appended to it."""

    log: PartitionLog
    wall_ms: int = NOW_MS
    checkpoint: int = 0
    appended: dict[int, Record] = field(default_factory=dict)  # By offset; markers are not records.
    open: dict[int, list[int]] = field(default_factory=dict)  # Offsets of open transactions, by producer.
    aborted: set[int] = field(default_factory=set)
    # When a tombstone was first below the end.
    first_cleanable_ms: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)

    def append(self, step: Append) -> None:
        records = [
            Record(
                key.encode(), None if value is None else value.encode(), self.wall_ms + number, (("h", b"1"),)
            )
            for number, (key, value) in enumerate(step.pairs)
        ]
        sequence = self.sequences.get(step.producer, 0)
        if step.producer:
            batch = encode_batch(
                records,
                codec=step.codec,
                producer_id=step.producer,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
            self.sequences[step.producer] = sequence + len(records)
        else:
            batch = encode_batch(records, codec=step.codec)
        base_offset = self.log.append(batch, wall_ms=self.wall_ms).base_offset
        self.log.flush()
        for offset, record in enumerate(records, base_offset):
            self.appended[offset] = replace(record, offset=offset)
            if step.producer:
                self.open.setdefault(step.producer, []).append(offset)

    def end(self, step: End) -> None:
        offsets = self.open.pop(step.producer, [])
        end_transaction(self.log, step.producer, step.kind, self.wall_ms)
        if step.kind == ABORT:
            self.aborted.update(offsets)

    def clean(self, step: Clean) -> None:
        self.wall_ms += step.after_ms
        done = clean(
            self.log, checkpoint=self.checkpoint, wall_ms=self.wall_ms, buffer_bytes=step.buffer_bytes
        )
        assert self.checkpoint <= done.end_offset <= self.log.segments[-1].base_offset
        self.checkpoint = done.end_offset

    def newest(self) -> dict[bytes, Record]:
        """The newest record of each key that counts, by offset; of what is still open nothing counts."""
        unsettled = {offset for offsets in self.open.values() for offset in offsets} | self.aborted
        return {
            record.key or b"": record
            for offset, record in sorted(self.appended.items())
            if offset not in unsettled
        }

    def check(self) -> None:
        found = {record.offset: record for record in data_records(self.log)}
        for offset, record in found.items():
            assert self.appended[offset] == record, "nothing is invented or changed"
        for offsets in self.open.values():
            assert found.keys() >= set(offsets), "an open transaction is whole"
        for record in self.newest().values():
            if record.value is not None:
                assert found.get(record.offset) == record, "the newest value of a key is there"
            elif record.offset not in found:
                assert not [
                    other
                    for other in found.values()
                    if other.key == record.key
                    and other.offset not in self.aborted
                    and all(other.offset not in offsets for offsets in self.open.values())
                ], "a tombstone outlives what it deletes"
                assert self.wall_ms >= record.timestamp_ms + RETENTION_MS - 6
        self.check_reads()

    def check_reads(self) -> None:
        """A reader from an offset gets the first batch that ends at or behind it."""
        log = self.log
        assert log.next_offset == log.durable_offset
        starts = [(batch.base_offset, batch.last_offset) for batch, _ in log.batches(0)]
        for offset in range(0, log.next_offset, 3):
            wanted = next(first for first, last in starts if last >= offset)
            assert int.from_bytes(log.read(offset, EVERYTHING)[:8], "big") == wanted
            assert next(iter(log.batches(offset)))[0].base_offset == wanted


@settings(max_examples=120, deadline=None)
@given(st.lists(steps, max_size=40))
def test_any_number_of_cleanings_keeps_the_newest_of_each_key(history: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(open_compacted(Path(folder) / "c-0", config=replace(COMPACTED, segment_bytes=700)))
        for step in [*history, Roll(), Clean(0, 1 << 20), Clean(RETENTION_MS, 1 << 20), Reopen()]:
            end = world.log.next_offset
            match step:
                case Append():
                    world.append(step)
                case End():
                    world.end(step)
                case Clean():
                    if world.log.segments:
                        world.clean(step)
                    assert world.log.next_offset == end
                case Roll():
                    if world.log.segments:
                        roll(world.log)
                case Reopen():
                    world.log = reopen(world.log)
                    assert world.log.next_offset == end
            world.check()
        world.log.close()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), values), min_size=1, max_size=30),
    st.integers(0, 29),
    st.sampled_from(Codec),
)
def test_after_two_cleanings_only_the_newest_records_are_left(
    history: list[tuple[str, str | None]], split: int, codec: Codec
) -> None:
    """The other side of it: what may go does go."""
    with tempfile.TemporaryDirectory() as folder:
        log = open_compacted(Path(folder) / "c-0", config=replace(COMPACTED, segment_bytes=20_000))
        for part in (history[:split], history[split:]):
            if part:
                records = [
                    Record(key.encode(), None if value is None else value.encode(), NOW_MS)
                    for key, value in part
                ]
                log.append(encode_batch(records, codec=codec), wall_ms=NOW_MS)
                log.flush()
                roll(log)
        clean(log, wall_ms=NOW_MS)
        newest = {key: offset for offset, (key, _) in enumerate(history)}
        assert [each.offset for each in data_records(log)] == sorted(newest.values())
        clean(log, wall_ms=NOW_MS + RETENTION_MS)
        kept = sorted(offset for offset in newest.values() if history[offset][1] is not None)
        assert [each.offset for each in data_records(log)] == kept
        for batch, data in log.batches(0):
            assert len(read_records(data, batch)) == batch.record_count
        log.close()
