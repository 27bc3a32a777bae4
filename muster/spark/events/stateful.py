"""Aggregates events in Spark: a stateful operator over buckets of groups, in append mode, and its rows as tables.

The operator's rows are JSON with the name of their table, since one plan has one schema; `rows_of` makes columns.

Spark's stateful operators drop an event that is older than the watermark. Here none is dropped: a late event may
be the end of a rebalance. So every record becomes two rows, one that has nothing but the time and moves the
watermark, and one without a time, which is never late; the first is dropped before the shuffle. The time is the
record's own, but no later than now: one record from the future would close every window.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muster.spark.events.aggregators import AggregatorFactory, TableRow
from muster.spark.events.bucket import Bucket, DeadLetter, SourceRecord
from muster.spark.events.worker import read_offsets_as_integers
from muster.spark.tables import DEAD_LETTERS, TABLES

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

BUCKETS: Final = 1024
"""This is fixed, since a checkpoint has its state by bucket. A call costs about 1 ms, so a batch at most 1 s. With
100,000 groups a bucket has a hundred of them, whose states are read and written for an event of any one."""

_OUTPUT: Final = "table STRING, row STRING"
_STATE: Final = "bucket BINARY"
_CLOCK: Final = "struct<bucket:int,partition:int,offset:bigint,timestamp_ms:bigint,key:binary,value:binary>"


class BucketProcessor:
    """The function that Spark calls in a worker for each bucket that has records or is due."""

    def __init__(self, factory: AggregatorFactory, topic: str) -> None:
        self._factory = factory
        self._topic = topic

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_in_worker, (self._factory, self._topic)

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        until_ms = state.getCurrentWatermarkMs()
        bucket = Bucket(self._factory, bytes(state.get[0]) if state.exists else None)
        records = [] if state.hasTimedOut else [each for frame in frames for each in _records(frame)]
        rows, dead_letters = bucket.take(records, until_ms)
        state.update((bucket.dump(),))
        if (due_ms := bucket.due_ms) is not None:
            state.setTimeoutTimestamp(max(due_ms, until_ms + 1))
        rows += [self._dead_letter_row(each) for each in dead_letters]
        if rows:
            yield pd.DataFrame(
                {
                    "table": [row.table for row in rows],
                    "row": [json.dumps(row.columns, ensure_ascii=False) for row in rows],
                }
            )

    def _dead_letter_row(self, dead_letter: DeadLetter) -> TableRow:
        record = dead_letter.record
        columns = {
            "seen_at": record.timestamp_ms,
            "source_topic": self._topic,
            "source_partition": record.partition,
            "source_offset": record.offset,
            "key": _base64(record.key),
            "value": _base64(record.value),
            "reason": dead_letter.reason,
        }
        return TableRow(DEAD_LETTERS.name, columns)


def _unpickle_in_worker(factory: AggregatorFactory, topic: str) -> BucketProcessor:
    """Unpickle a `BucketProcessor` in a worker, and patch PySpark there before the worker reads its first rows."""
    read_offsets_as_integers()
    return BucketProcessor(factory, topic)


def _records(frame: pd.DataFrame) -> Iterable[SourceRecord]:
    numbers = (frame[name].tolist() for name in ("partition", "offset", "timestamp_ms"))
    texts = ([None if each is None else bytes(each) for each in frame[name]] for name in ("key", "value"))
    return map(SourceRecord._make, zip(*numbers, *texts, strict=True))


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def aggregate_events(
    records: DataFrame, factory: AggregatorFactory, topic: str, watermark_ms: int
) -> DataFrame:
    """Aggregate rows of Spark's Kafka source into columns `table` and `row`, which is a table's row as JSON."""
    clock = F.struct(
        F.least("timestamp", F.current_timestamp()).alias("at"), F.lit(None).cast(_CLOCK).alias("record")
    )
    record = F.struct(
        F.pmod(F.hash("key"), F.lit(BUCKETS)).alias("bucket"),
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        "key",
        "value",
    )
    timeless = F.struct(F.lit(None).cast("timestamp").alias("at"), record.alias("record"))
    both = records.select(F.explode(F.array(clock, timeless)).alias("both")).select("both.*")
    timed = both.withWatermark("at", f"{watermark_ms} milliseconds").where(F.col("at").isNull())
    buckets = timed.select("at", "record.*").groupBy("bucket")
    processor = BucketProcessor(factory, topic)
    options = _OUTPUT, _STATE, "append", "EventTimeTimeout"
    return buckets.applyInPandasWithState(processor, *options)  # type: ignore[arg-type]  # An object that is called will do.


def rows_of(aggregated: DataFrame, table: str) -> DataFrame:
    """The rows of `aggregate_events` for `table`, in the table's columns but `job`."""
    columns = [column for column in TABLES[table].columns if column.name != "job"]
    plain = ", ".join(
        f"{each.name} {'BIGINT' if each.type == 'TIMESTAMP' else each.type}" for each in columns
    )
    of_table = aggregated.where(F.col("table") == table).select(F.from_json("row", plain).alias("row"))
    return of_table.select(
        *(
            F.timestamp_millis(f"row.{each.name}").alias(each.name)
            if each.type == "TIMESTAMP"
            else F.col(f"row.{each.name}")
            for each in columns
        )
    )
