"""The jobs' tables: what the documentation says of them, and what a reader sees while they are written."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from harness.spark_tables import read_arrow
from muster.spark.arrow_types import ddl_of
from muster.spark.batch_files import write_batch
from muster.spark.tables import (
    TABLES,
    arrow_schema,
    read_spark,
    spark_schema,
    table_path,
)

ROOT = Path(__file__).resolve().parent.parent.parent
EVENING = datetime(2026, 1, 1, 23, 59, tzinfo=UTC)


def documented() -> dict[str, list[tuple[str, str, str]]]:
    """The columns of each table as the page has them."""
    page = (ROOT / "docs/spark-jobs.md").read_text()
    sections = re.split(r"^### `(\w+)`$", page, flags=re.M)[1:]
    return {
        name: re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", text, flags=re.M)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }


def test_the_documentation_has_every_table_with_its_columns() -> None:
    assert documented() == {
        table.name: [
            (each.name, each.type + (" or null" if each.nullable else ""), each.says)
            for each in table.columns
        ]
        for table in TABLES.values()
    }


@pytest.mark.parametrize("name", TABLES)
def test_what_arrow_has_is_declared_as_the_table_is(name: str) -> None:
    assert ddl_of(arrow_schema(name)) == TABLES[name].ddl()


def test_a_struct_of_arrows_is_declared_with_its_fields() -> None:
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.binary())])
    assert ddl_of([pa.field("s", inner)]) == "s STRUCT<a: INT NOT NULL, b: BINARY>"


@pytest.mark.xdist_group("spark")  # A schema is parsed by the JVM.
@pytest.mark.parametrize("name", TABLES)
def test_arrow_and_spark_have_the_same_columns(spark: SparkSession, name: str) -> None:
    ours, theirs = arrow_schema(name, with_day=True), spark_schema(name, with_day=True)
    assert [(field.name, field.nullable) for field in ours] == [
        (field.name, field.nullable) for field in theirs
    ]
    assert ours.field(TABLES[name].day_of).type == pa.timestamp("us", tz="UTC")


def rows(*minutes: int) -> list[tuple[object, ...]]:
    return [(EVENING + timedelta(minutes=minute), f"g{minute}", 3, 2, 0.05, False) for minute in minutes]


def groups(out: Path) -> list[str]:
    return sorted(read_arrow(out, "commits").column("group_id").to_pylist())


@pytest.mark.xdist_group("spark")
def test_a_batch_written_again_takes_the_place_of_the_first_time(spark: SparkSession, tmp_path: Path) -> None:
    def write(batch_id: int, *minutes: int) -> int:
        frame = spark.createDataFrame(rows(*minutes), spark_schema("commits"))
        return write_batch(frame, tmp_path, "commits", batch_id, job="commits")

    assert write(1, 0) == 1
    assert write(2, 0, 1, 2) == 2  # Two days of it.
    assert groups(tmp_path) == ["g0", "g0", "g1", "g2"]
    assert write(2, 1, 2) == 1  # The first day has nothing now.
    assert write(2, 1, 2) == 1
    assert groups(tmp_path) == ["g0", "g1", "g2"]
    assert write(3) == 0
    shown = pd.read_parquet(table_path(tmp_path, "commits"))
    assert sorted(shown.group_id) == ["g0", "g1", "g2"]
    seen = {(row.group_id, row.day) for row in read_spark(spark, tmp_path, "commits").collect()}
    assert seen == {("g0", date(2026, 1, 1)), ("g1", date(2026, 1, 2)), ("g2", date(2026, 1, 2))}


@pytest.mark.xdist_group("spark")
def test_a_reader_sees_whole_files_alone_whatever_is_being_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What Spark has written and is not moved yet, as a kill leaves it, is none of the table's."""
    frame = spark.createDataFrame(rows(0), spark_schema("commits"))
    write_batch(frame, tmp_path, "commits", 1, job="commits")
    staged = tmp_path / "_staging/commits/commits/day=2026-01-01"
    staged.mkdir(parents=True)
    (staged / "part-0.parquet").write_bytes(b"half of a fil")
    assert groups(tmp_path) == ["g0"]
    assert [path.name for path in (tmp_path / "commits").rglob("*") if path.is_file()] == [
        "commits-000000000001.parquet"
    ]


def test_a_table_that_no_job_has_made_has_no_rows(tmp_path: Path) -> None:
    found = read_arrow(tmp_path, "lag")
    assert (found.num_rows, found.schema) == (0, arrow_schema("lag", with_day=True))
