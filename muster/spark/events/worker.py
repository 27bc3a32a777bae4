"""Patches PySpark 4.0.0 for stateful operators, in the worker that runs them and nowhere else."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamPandasUDFSerializer


def read_offsets_as_integers() -> None:
    """Patch the worker's side of `applyInPandasWithState` for today's Arrow. A second call changes nothing.

    Spark passes the offsets of each group's rows in a column of structs with nulls at its end; pandas makes them
    floats, which `RecordBatch.slice` no longer accepts.
    """
    serializer: Any = ApplyInPandasWithStateSerializer
    serializer.arrow_to_pandas = _arrow_to_pandas


def _arrow_to_pandas(self: ArrowStreamPandasUDFSerializer, column: pa.Array) -> pd.Series[Any]:
    if pa.types.is_struct(column.type) and column.type.get_field_index("startOffset") >= 0:
        return pd.Series(column.to_pylist(), dtype=object)
    inherited: Any = ArrowStreamPandasUDFSerializer.arrow_to_pandas
    read: pd.Series[Any] = inherited(self, column)
    return read
