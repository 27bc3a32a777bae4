"""Maps Spark SQL's types to Arrow's: a schema is declared in one of the two, and derived for the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

TYPES: Final[Mapping[str, pa.DataType]] = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "ARRAY<STRING>": pa.list_(pa.string()),
}
"""The Arrow type of each Spark SQL type that our tables use."""

_NAMES: Final = {arrow: name for name, arrow in TYPES.items()}


def ddl_of(fields: Iterable[pa.Field]) -> str:
    """The Spark SQL declaration of Arrow fields. Raises KeyError for a type that our tables do not use."""
    return ", ".join(f"{each.name} {_name_of(each.type)}{_not_null(each)}" for each in fields)


def _name_of(type_: pa.DataType) -> str:
    if not pa.types.is_struct(type_):
        return _NAMES[type_]
    inner = ", ".join(f"{each.name}: {_name_of(each.type)}{_not_null(each)}" for each in type_)
    return f"STRUCT<{inner}>"


def _not_null(field: pa.Field) -> str:
    return "" if field.nullable else " NOT NULL"
