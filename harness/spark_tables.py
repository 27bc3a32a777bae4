"""Reads the tables that the Spark jobs write, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from muster.spark.tables import DAY, arrow_schema, table_path


def read_arrow(out: str | Path, table: str) -> pa.Table:
    """A table with its `day`, in the declared schema, without Spark; empty if no job has written it."""
    folder, schema = Path(table_path(out, table)), arrow_schema(table, with_day=True)
    if not folder.is_dir():
        return schema.empty_table()
    day = ds.partitioning(schema.empty_table().select([DAY]).schema, flavor="hive")
    files = ds.dataset(str(folder), schema=schema, format="parquet", partitioning=day)
    return files.to_table()
