"""A page stays a page: of very many groups and rows, and of texts that were made to be large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muster.spark.report.reading import Selection
from muster.spark.report.rebalancing import BARS_MAX
from muster.spark.report.report import make_report
from muster.spark.report.survey import DETAILED_GROUPS_MAX
from muster.spark.report.texts import as_json
from muster.spark.tables import arrow_schema
from tests.spark.report.sample import BEGIN_MS, MINUTE_MS, Kind, Sample

PAGE_BYTES_MAX = 8_000_000
WEEK_MINUTES = 7 * 1_440


def write(out: Path, table: str, rows: dict[str, object]) -> None:
    folder = out / table
    folder.mkdir(parents=True)
    schema = arrow_schema(table)
    pq.write_table(
        pa.table([pa.array(rows[each.name]).cast(each.type) for each in schema], schema=schema),
        folder / "x.parquet",
    )


def many_groups(
    out: Path, chance: np.random.Generator, *, groups: int, lag_rows: int, rebalance_rows: int
) -> None:
    """A week of many groups, some of them busy, in two tables; without folders of days."""
    names = np.array([f"team-{each % 97}.service-{each:06d}" for each in range(groups)], dtype=object)
    of_lag = np.minimum(chance.geometric(0.0004, lag_rows), groups) - 1
    of_lag[:groups] = np.arange(groups)
    minutes = (BEGIN_MS + chance.integers(0, WEEK_MINUTES, lag_rows) * MINUTE_MS) * 1000
    behind = chance.integers(0, 1_000_000_000, lag_rows)
    write(out, "lag", {
        "minute": minutes, "group_id": names[of_lag], "topic": np.full(lag_rows, "events"),
        "partition": of_lag % 12,
        "committed_offset": behind, "log_end_offset": behind * 2, "lag_records": behind, "lag_seconds": behind / 7,
    })  # fmt: skip
    of_rebalance = np.minimum(chance.geometric(0.002, rebalance_rows), groups) - 1
    ended = (BEGIN_MS + chance.integers(0, WEEK_MINUTES, rebalance_rows) * MINUTE_MS) * 1000
    ms, clients = chance.integers(1, 60_000, rebalance_rows), names[of_rebalance] + "-client"
    # Clients may choose long ids, and of what JSON and HTML have to escape.
    reasons = np.array(
        [f"member left: {each} {'</script>' * 30}" for each in range(rebalance_rows)], dtype=object
    )
    hosts, causes = np.full(rebalance_rows, "/10.1.2.3"), np.array(["member_left", "session_expired"])
    write(out, "rebalances", {
        "group_id": names[of_rebalance], "generation_id": ms, "started_at": ended - ms * 1000, "ended_at": ended,
        "duration_ms": ms, "join_ms": ms, "sync_ms": ms * 0, "attempts": ms * 0 + 1,
        "cause": causes[of_rebalance % 2],
        "reason": reasons, "causes": pa.repeat(pa.scalar(["member_left"]), rebalance_rows), "member_id": clients,
        "client_id": clients, "client_host": hosts, "last_member_id": clients, "last_client_id": clients,
        "last_client_host": hosts, "last_arrival_ms": ms, "last_group_instance_id": clients,
        "last_given_up_count": ms * 0, "last_given_up": pa.repeat(pa.scalar(["orders-1"]), rebalance_rows),
        "member_count": ms * 0 + 4,
        "outcome": np.full(rebalance_rows, "Stable"),
    })  # fmt: skip


def test_a_page_of_many_groups_stays_small_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    """A tenth of what `tests/long` does."""
    many_groups(tmp_path, np.random.default_rng(11), groups=10_000, lag_rows=150_000, rebalance_rows=30_000)
    found = make_report(tmp_path, Selection())
    document = found.document
    assert (found.groups, found.rebalances, found.problems) == (10_000, 30_000, [])
    assert document["group_count"] == 10_000
    assert len(document["groups"]["group"]) == DETAILED_GROUPS_MAX
    assert len(document["rebalances"]["group_id"]) == BARS_MAX < document["rebalances"]["seen"]
    assert sum(document["causes"]["rows"]) > 30_000, "all of them together, and those of the groups in detail"
    assert len(as_json(document)) < PAGE_BYTES_MAX


def test_texts_that_were_made_to_be_large_do_not_make_the_page_large(tmp_path: Path) -> None:
    sample = Sample(3, minutes=8)
    for each in range(DETAILED_GROUPS_MAX + 10):
        sample.add(Kind(f"g{each}" + "<\u202e" * 1_000, "t" * 3_000, 3, 2, 900, 50))
    sample.write(tmp_path)
    document = make_report(tmp_path, Selection()).document
    assert document["group_count"] == DETAILED_GROUPS_MAX + 10
    assert len(document["groups"]["group"]) == DETAILED_GROUPS_MAX
    assert len(as_json(document)) < PAGE_BYTES_MAX
