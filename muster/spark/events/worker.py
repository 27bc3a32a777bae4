"""Readies a worker of Spark 4.0.0 for stateful operators: it changes PySpark, and so does it nowhere else."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamPandasUDFSerializer


def read_offsets_as_integers() -> None:
    """Mend the worker's side of `applyInPandasWithState` for the Arrow of today. Twice does nothing more.

    Spark hands the offsets of each group's rows over in a column of structs with nulls at its end; pandas makes
    floats of them, and `RecordBatch.slice` no longer takes any.
    """
    serializer: Any = ApplyInPandasWithStateSerializer
    serializer.arrow_to_pandas = _arrow_to_pandas


def _arrow_to_pandas(self: ArrowStreamPandasUDFSerializer, column: pa.Array) -> pd.Series[Any]:
    if pa.types.is_struct(column.type) and column.type.get_field_index("startOffset") >= 0:
        return pd.Series(column.to_pylist(), dtype=object)
    inherited: Any = ArrowStreamPandasUDFSerializer.arrow_to_pandas
    read: pd.Series[Any] = inherited(self, column)
    return read
