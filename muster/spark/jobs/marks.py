"""The marks of many logs: the log ends that a step asked for, after those of the day before in `log_ends`.

A run keeps them in memory from step to step, some 23 KB for each partition that is committed. A run that begins
reads the table; so does one whose step failed, since its memory is then of another step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.spark.decoding.lag import HISTORY_MINUTES, UNKNOWN, Marks
from muster.spark.decoding.offsets import MINUTE_US
from muster.spark.hadoop_files import HadoopFiles
from muster.spark.jobs.ends import MinuteEnds
from muster.spark.jobs.job import Step
from muster.spark.jobs.minutes import MinutesSnapshot
from muster.spark.tables import DAY, LOG_ENDS, arrow_schema, read_spark
from protocol.topic_partition import TopicPartition

_kept: dict[
    str, tuple[int, dict[TopicPartition, Marks]]
] = {}  # By output folder: the newest snapshot's sequence, and its marks.


def marks_of(
    step: Step, found: MinuteEnds, first_us: int, after: MinutesSnapshot
) -> Mapping[TopicPartition, Marks]:
    """The marks of all partitions in `found`, whose first time is the end of the minute from `first_us` on."""
    sequence, older = _kept.pop(step.options.out, (None, {}))
    if sequence != after.sequence - 1:
        older = _read(step.spark, step.options.out, first_us)
    nothing = Marks(first_us, np.zeros(0, np.int64))
    fresh = {where: Marks(first_us, ends) for where, ends in found.ends.items()}
    marks = {where: older.get(where, nothing).followed_by(each) for where, each in fresh.items()}
    _kept.clear()
    _kept[step.options.out] = after.sequence, marks
    return marks


def _read(spark: SparkSession, out: str, first_us: int) -> dict[TopicPartition, Marks]:
    """The marks that the table has of the HISTORY_MINUTES before `first_us`, by partition."""
    if not HadoopFiles(spark, out).names(LOG_ENDS.name, f"{DAY}="):
        return {}
    since_us = first_us - HISTORY_MINUTES * MINUTE_US
    day = F.date_from_unix_date(F.lit(since_us // (24 * 60 * MINUTE_US)).cast("int"))
    minute_us = F.unix_micros("minute")
    rows = read_spark(spark, out, LOG_ENDS.name).where(
        (F.col(DAY) >= day) & (minute_us >= since_us) & (minute_us < first_us)
    )
    table = rows.select("topic", "partition", minute_us.alias("minute_us"), "log_end_offset").toPandas()
    marks: dict[TopicPartition, Marks] = {}
    by_partition: Any = table.dropna().groupby(["topic", "partition"])
    for (topic, partition), some in by_partition:
        ends = np.full(HISTORY_MINUTES, UNKNOWN, np.int64)
        ends[(some.minute_us.to_numpy() - since_us) // MINUTE_US] = some.log_end_offset.to_numpy(np.int64)
        marks[TopicPartition(topic, int(partition))] = Marks(since_us, ends)
    return marks


def frame_of(spark: SparkSession, found: MinuteEnds) -> DataFrame:
    """The log ends as rows of the table `log_ends`."""
    schema = arrow_schema(LOG_ENDS.name)
    minutes = pa.array(found.times_ms * 1000 - MINUTE_US).cast(schema.field("minute").type)
    tables = [
        pa.table(
            [
                minutes,
                pa.array([topic] * len(ends)),
                pa.array([partition] * len(ends), pa.int32()),
                pa.array(ends, mask=ends == UNKNOWN),
            ],
            schema=schema,
        )
        for (topic, partition), ends in found.ends.items()
    ]
    return spark.createDataFrame(pa.concat_tables([schema.empty_table(), *tables]))
