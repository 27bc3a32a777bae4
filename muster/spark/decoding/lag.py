"""Computes lag by the minute from spans, which are minutes in which a group stood at one offset of a partition.

A span is a commit and the minutes until the next one. With it goes where the log ended at the end of each
minute: its marks. A minute of a span becomes a row if the group committed in it, or was behind at its end. The
seconds of lag are from the time at which the first record not consumed was written, which is found between two
marks, by their offsets in proportion: marks are a minute apart as a rule, so it is off by less than that. If
the record is older than the oldest mark (HISTORY_MINUTES old, or an hour older than the first minute the job
saw), the seconds are null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from muster.spark.decoding.offsets import MINUTE_US
from muster.spark.decoding.windows import Bools, Ints
from muster.spark.decoding.workers import task
from muster.spark.tables import LAG, arrow_schema
from protocol.topic_partition import TopicPartition

UNKNOWN: Final = -1
HISTORY_MINUTES: Final = 24 * 60
"""The number of marks kept for each partition, a day of them: 16 bytes each, so 23 KB a partition."""
ROWS_AT_A_TIME: Final = 200_000
"""The number of minutes of spans that are computed at a time: some 20 MB, and as much in the JVM."""

SPANS: Final = ("group_id", "topic", "partition", "committed_offset", "from_us", "until_us", "is_commit")
"""A span is of the minutes from `from_us` to `until_us`, exclusive; `is_commit`: the first one has a commit."""
SCHEMA: Final = arrow_schema(LAG.name)
DDL: Final = ", ".join(f"{column.name} {column.type}" for column in LAG.columns)

Seconds: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Marks:
    """`ends[i]` is where a log ended at the end of minute `first_us` + i minutes, or UNKNOWN."""

    first_us: int
    ends: Ints

    def at(self, minutes_us: Ints) -> Ints:
        """The log ends at the end of each minute, given by its begin; UNKNOWN for minutes without a mark."""
        places = (minutes_us - self.first_us) // MINUTE_US
        inside = (places >= 0) & (places < len(self.ends))
        found = np.full(len(minutes_us), UNKNOWN, np.int64)
        found[inside] = self.ends[places[inside]]
        return found

    def written_us(self, offsets: Ints) -> Seconds:
        """When the records at `offsets` were written, in us; nan for an offset that is not between two marks."""
        known = np.flatnonzero(self.ends != UNKNOWN)
        times, ends = self.first_us + (known + 1) * MINUTE_US, np.maximum.accumulate(self.ends[known])
        after = np.searchsorted(ends, offsets, "right")
        found = np.full(len(offsets), np.nan)
        between = (after > 0) & (after < len(ends))
        at = after[between]
        share = (offsets[between] - ends[at - 1]) / (ends[at] - ends[at - 1])
        found[between] = times[at - 1] + share * (times[at] - times[at - 1])
        return found

    def followed_by(self, later: Marks) -> Marks:
        """These marks and the later ones, UNKNOWN in between, of this one's at most the last HISTORY_MINUTES."""
        since_us = max(self.first_us, later.first_us - HISTORY_MINUTES * MINUTE_US)
        minutes_us = np.arange(since_us, later.first_us, MINUTE_US)
        return Marks(since_us, np.concatenate([self.at(minutes_us), later.ends]))


def rows(
    marks: Mapping[TopicPartition, Marks],
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """A function for `mapInArrow` that turns batches of SPANS into batches of SCHEMA."""

    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from rows_of(batch, marks)

    return task(measure)


def rows_of(spans: pa.RecordBatch, marks: Mapping[TopicPartition, Marks]) -> Iterator[pa.RecordBatch]:
    """The rows of the lag table for one batch of spans, in batches of bounded size."""
    first = np.asarray(spans.column("from_us"))
    counts = (np.asarray(spans.column("until_us")) - first) // MINUTE_US
    named, numbers = _partitions_of(spans)
    has_marks = np.array([where in marks for where in named], bool)[numbers]
    counts = np.where(has_marks, counts, np.asarray(spans.column("is_commit")).astype(np.int64))
    done = 0
    while done < spans.num_rows:
        upto = int(np.searchsorted(np.cumsum(counts[done:]), ROWS_AT_A_TIME, "right")) + done
        upto = max(upto, done + 1)
        yield _lag_rows(spans.slice(done, upto - done), counts[done:upto], marks)
        done = upto


def _partitions_of(spans: pa.RecordBatch) -> tuple[list[TopicPartition], Ints]:
    """The partitions that spans are of, each once, and for every span the place of its own among them."""
    topics = spans.column("topic").dictionary_encode()
    partitions = np.asarray(spans.column("partition")).astype(np.int64)
    per_topic = int(partitions.max(initial=0)) + 1
    indices = np.asarray(topics.indices).astype(np.int64)
    codes, places = np.unique(indices * per_topic + partitions, return_inverse=True)
    names = topics.dictionary.to_pylist()
    return [TopicPartition(names[code // per_topic], code % per_topic) for code in codes.tolist()], places


def _lag_rows(spans: pa.RecordBatch, counts: Ints, marks: Mapping[TopicPartition, Marks]) -> pa.RecordBatch:
    """The rows for `counts` minutes of each span: those with a commit, and those at whose end the group lags."""
    span_of = np.repeat(np.arange(spans.num_rows), counts)
    nth = np.arange(len(span_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    minutes_us = np.asarray(spans.column("from_us"))[span_of] + nth * MINUTE_US
    committed = np.asarray(spans.column("committed_offset"))[span_of]
    is_commit = np.asarray(spans.column("is_commit"))[span_of] & (nth == 0)
    ends, written_us = _ends_and_write_times(spans, span_of, minutes_us, committed, marks)
    behind = (ends != UNKNOWN) & (ends > committed)
    keep = np.flatnonzero(is_commit | behind)
    seconds = np.where(behind, np.maximum(minutes_us + MINUTE_US - written_us, 0) / 1e6, 0.0)
    return _batch(spans.take(pa.array(span_of[keep])), minutes_us[keep], ends[keep], seconds[keep])


def _ends_and_write_times(
    spans: pa.RecordBatch,
    span_of: Ints,
    minutes_us: Ints,
    committed: Ints,
    marks: Mapping[TopicPartition, Marks],
) -> tuple[Ints, Seconds]:
    """The log end of each minute, and the time at which the record at its committed offset was written."""
    ends, written_us = np.full(len(span_of), UNKNOWN, np.int64), np.full(len(span_of), np.nan)
    named, numbers = _partitions_of(spans)
    order = np.argsort(numbers[span_of], kind="stable")
    bounds = np.searchsorted(numbers[span_of][order], np.arange(len(named) + 1))
    for number, where in enumerate(named):
        some = order[bounds[number] : bounds[number + 1]]
        if where in marks:
            ends[some] = marks[where].at(minutes_us[some])
            written_us[some] = marks[where].written_us(committed[some])
    return ends, written_us


def _batch(spans: pa.RecordBatch, minutes_us: Ints, ends: Ints, seconds: Seconds) -> pa.RecordBatch:
    unknown: Bools = ends == UNKNOWN
    committed = np.asarray(spans.column("committed_offset"))
    columns = [
        pa.array(minutes_us).cast(pa.timestamp("us", "UTC")),
        spans.column("group_id"),
        spans.column("topic"),
        spans.column("partition"),
        spans.column("committed_offset"),
        pa.array(ends, mask=unknown),
        pa.array(np.maximum(ends - committed, 0), mask=unknown),
        pa.array(seconds, mask=unknown | np.isnan(seconds)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
