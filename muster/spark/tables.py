"""The tables that jobs write and reports read: every column declared once, with what it says.

Table T of `--out DIR` is `DIR/T/day=YYYY-MM-DD/*.parquet`: Parquet under Hive's partition column `day`, the UTC
day of the column that the table names. Whatever reads Parquet reads it: files and folders that begin with _ are
none of a table's. All times are instants in UTC, stored in microseconds. How files come to be there, and what a
reader may see meanwhile, is in `batch_files`. Nothing here needs a Spark to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DAY: Final = "day"
CHECKPOINTS: Final = "_checkpoints"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, its Spark SQL type, and its text in the documentation."""

    name: str
    type: str
    says: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its job ("" for every job), its columns, and the column whose UTC day is a row's day."""

    name: str
    job: str
    day_of: str
    columns: tuple[Column, ...]

    def ddl(self) -> str:
        """The columns in Spark SQL's DDL, without `day`."""
        return ", ".join(
            f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in self.columns
        )


def _null(name: str, type_: str, says: str) -> Column:
    return Column(name, type_, says, nullable=True)


LAG: Final = Table(
    "lag",
    "lag",
    "minute",
    (
        Column("minute", "TIMESTAMP", "start of the minute; the figures are as of its end"),
        Column("group_id", "STRING", "the group"),
        Column("topic", "STRING", "the topic it consumes"),
        Column("partition", "INT", "the partition"),
        Column("committed_offset", "BIGINT", "the group's newest committed offset"),
        _null("log_end_offset", "BIGINT", "the log's end; null where it is not known"),
        _null("lag_records", "BIGINT", "records between the two, never below 0; null without a log end"),
        _null(
            "lag_seconds", "DOUBLE", "from the first record not consumed to the minute's end; 0.0 without lag"
        ),
    ),
)
LOG_ENDS: Final = Table(
    "log_ends",
    "lag",
    "minute",
    (
        Column("minute", "TIMESTAMP", "start of the minute; the offset is as of its end"),
        Column("topic", "STRING", "the topic"),
        Column("partition", "INT", "the partition"),
        _null("log_end_offset", "BIGINT", "the offset that the next record gets; null where it is not known"),
    ),
)
COMMITS: Final = Table(
    "commits",
    "commits",
    "minute",
    (
        Column("minute", "TIMESTAMP", "start of the minute"),
        Column("group_id", "STRING", "the group"),
        Column("commits", "BIGINT", "offset records written within it: one per partition and commit"),
        Column("partitions", "BIGINT", "different partitions among them"),
        Column("per_second", "DOUBLE", "commits / 60"),
        Column("noisy", "BOOLEAN", "whether a partition of it is committed more often than the threshold"),
    ),
)
REBALANCES: Final = Table(
    "rebalances",
    "rebalances",
    "ended_at",
    (
        Column("group_id", "STRING", "the group"),
        Column("generation_id", "INT", "the generation it led to; of a consumer group its epoch"),
        Column("started_at", "TIMESTAMP", "when it began; a classic group had no assignment from then on"),
        Column("ended_at", "TIMESTAMP", "when it was Stable again, or Empty or Dead"),
        _null("duration_ms", "BIGINT", "join_ms + sync_ms; null if one of them is"),
        _null(
            "join_ms",
            "BIGINT",
            "ms in PreparingRebalance or Assigning, all attempts together; null where not known",
        ),
        _null(
            "sync_ms",
            "BIGINT",
            "ms in CompletingRebalance or Reconciling, all attempts together; null where not known",
        ),
        Column("attempts", "INT", "how often it began, the first time included"),
        Column("cause", "STRING", "the cause that began it, for programs"),
        Column("reason", "STRING", "the same for people"),
        Column("causes", "ARRAY<STRING>", "the causes of all that happened within it, in order"),
        _null("member_id", "STRING", "the member behind the cause"),
        _null("client_id", "STRING", "of that member"),
        _null("client_host", "STRING", "of that member"),
        _null(
            "last_member_id",
            "STRING",
            "who came last: to the last join phase; of a consumer group, who was waited for",
        ),
        _null("last_client_id", "STRING", "of that member"),
        _null("last_client_host", "STRING", "of that member"),
        _null(
            "last_arrival_ms", "BIGINT", "how long after that phase, or the consumer group's rebalance, began"
        ),
        _null("last_group_instance_id", "STRING", "of that member, if it is static"),
        _null("last_given_up_count", "INT", "number of partitions that it gave up then"),
        _null("last_given_up", "ARRAY<STRING>", "the first ten of them, as topic-partition"),
        Column("member_count", "INT", "members when it ended"),
        Column("outcome", "STRING", "the state it ended in; Unknown if no event shows its end"),
    ),
)
STORMS: Final = Table(
    "storms",
    "rebalances",
    "window_start",
    (
        Column("window_start", "TIMESTAMP", "begin of the window"),
        Column("window_end", "TIMESTAMP", "its end, exclusive"),
        Column("group_id", "STRING", "the group"),
        Column("rebalances", "BIGINT", "rebalances that were on in it, wholly or in part"),
        Column("rebalancing_ms", "BIGINT", "ms of the window that the group spent rebalancing"),
        Column("share", "DOUBLE", "the same as a share of the window"),
    ),
)
MEMBERS: Final = Table(
    "members",
    "members",
    "ended_at",
    (
        Column("group_id", "STRING", "the group"),
        Column("member_id", "STRING", "the member"),
        _null("client_id", "STRING", "its client id"),
        _null("client_host", "STRING", "its host, as Kafka shows it: /10.0.0.1"),
        _null("group_instance_id", "STRING", "its instance id, if it is static"),
        _null("started_at", "TIMESTAMP", "when it joined; null if that was before the topic begins"),
        Column("ended_at", "TIMESTAMP", "when it was a member no longer"),
        _null("duration_ms", "BIGINT", "between the two; null without the first"),
        _null("joined_by", "STRING", "the cause of the event it joined by"),
        Column("ended_by", "STRING", "the cause of the event it ended by"),
    ),
)
CHURN: Final = Table(
    "churn",
    "members",
    "window_start",
    (
        Column("window_start", "TIMESTAMP", "begin of the hour"),
        Column("window_end", "TIMESTAMP", "its end, exclusive"),
        Column("group_id", "STRING", "the group"),
        _null("client_id", "STRING", "the members' client id"),
        _null("client_host", "STRING", "the members' host"),
        Column("joined", "BIGINT", "members that joined"),
        Column("left", "BIGINT", "members that left, or were removed"),
        Column("expired", "BIGINT", "members that expired, as they did not do their part in time"),
    ),
)
DEAD_LETTERS: Final = Table(
    "dead_letters",
    "",
    "seen_at",
    (
        Column("job", "STRING", "the job that could not use the record"),
        Column("seen_at", "TIMESTAMP", "the record's timestamp"),
        Column("source_topic", "STRING", "where it is"),
        Column("source_partition", "INT", "its partition"),
        Column("source_offset", "BIGINT", "its offset"),
        _null("key", "BINARY", "its key as it is there"),
        _null("value", "BINARY", "its value as it is there"),
        Column("reason", "STRING", "what is wrong with it"),
    ),
)

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for table in (LAG, LOG_ENDS, COMMITS, REBALANCES, STORMS, MEMBERS, CHURN, DEAD_LETTERS)
}


def table_path(out: str | Path, table: str) -> str:
    """The folder of a table, for Spark, pandas and pyarrow to read. `out` may be a URL of Hadoop's."""
    return f"{str(out).rstrip('/')}/{TABLES[table].name}"


def checkpoint_path(out: str | Path, job: str) -> str:
    """The folder of a job's checkpoint."""
    return f"{str(out).rstrip('/')}/{CHECKPOINTS}/{job}"


def spark_schema(table: str, *, with_day: bool = False) -> StructType:
    """A table's columns for Spark; with `with_day` also `day`, as a reader of the folder has it."""
    from pyspark.sql.types import DateType, StructType

    schema = StructType.fromDDL(TABLES[table].ddl())
    assert isinstance(schema, StructType)
    return schema.add(DAY, DateType()) if with_day else schema


def arrow_schema(table: str, *, with_day: bool = False) -> pa.Schema:
    """A table's columns for Arrow: times as timestamp[us, UTC], `day` as date32."""
    import pyarrow as pa

    from muster.spark.arrow_types import TYPES

    columns = TABLES[table].columns
    schema = pa.schema([pa.field(each.name, TYPES[each.type], each.nullable) for each in columns])
    return schema.append(pa.field(DAY, pa.date32())) if with_day else schema


def read_spark(spark: SparkSession, out: str | Path, table: str) -> DataFrame:
    """A table with its `day`, in the declared schema. Raises Spark's AnalysisException if no job wrote it."""
    return spark.read.schema(spark_schema(table, with_day=True)).parquet(table_path(out, table))
