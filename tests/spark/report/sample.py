"""Tables as the jobs write them, of groups that never were: seeded, consistent with each other, small.

Members come and go, each time with a rebalance that ends a session or begins one; consumers fall behind while
their group rebalances or stands still. So what one table has can be found in the others. Written without Spark.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muster.spark.tables import DAY, TABLES, arrow_schema

BEGIN_MS = int(datetime(2026, 3, 2, 6, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
STORM_MS, STORM_SHARE = 10 * MINUTE_MS, 0.25
Rows = dict[str, list[dict[str, Any]]]


@dataclass
class Kind:
    """How a group behaves: minutes between changes, what a rebalance takes, how often it is a crash."""

    group_id: str
    topic: str
    members: int
    minutes_between: float
    rebalance_ms: int
    records_per_minute: int
    crashes: float = 0.1
    deploys: bool = False
    halts: tuple[int, int] | None = None  # Minutes from the begin in which nothing is consumed.
    commits_per_minute: int = 12


KINDS = (
    Kind("billing", "orders", 6, 140, 900, 4_200, deploys=True),
    Kind("fraud-scoring", "payments", 8, 28, 5_200, 6_500, crashes=0.75, halts=(1_010, 1_090)),
    Kind("search-index", "catalogue", 4, 210, 1_400, 1_900, halts=(400, 640)),
    Kind("email-notifications", "orders", 3, 260, 700, 800),
    Kind("clickstream-sessions", "clicks", 12, 45, 2_600, 22_000, crashes=0.35, deploys=True),
    Kind("warehouse-export", "orders", 2, 600, 1_100, 3_000, halts=(0, 170), commits_per_minute=2),
    Kind("recommendations", "clicks", 5, 160, 1_800, 9_000, commits_per_minute=1_500),
    Kind("audit-log", "payments", 2, 500, 500, 2_500),
    Kind("inventory-sync", "catalogue", 3, 9, 9_500, 700, crashes=0.6),
    Kind("etl-nightly", "orders", 10, 330, 3_900, 1_200, deploys=True),
)


@dataclass
class Sample:
    """The rows of all tables by table, and where they are written to."""

    seed: int
    minutes: int = 1_440
    rows: Rows = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def add(self, kind: Kind) -> None:
        """A group's life."""
        rebalances = self._changes(kind)
        self.rows["rebalances"] += rebalances
        self.rows["storms"] += storms_of(rebalances)
        self._consume(kind, rebalances)

    def add_dead_letters(self, count: int) -> None:
        reasons = ("schema 7 is from the future", "value is no JSON", "unknown record type 19 in the key")
        for offset in range(count):
            job = self.random.choice(("rebalances", "members", "lag"))
            topic = "__consumer_offsets" if job == "lag" else "__group_events"
            at = BEGIN_MS + self.random.randrange(self.minutes * MINUTE_MS)
            self.rows["dead_letters"].append(
                {"job": job, "seen_at": at, "source_topic": topic, "source_partition": 0, "source_offset": offset,
                 "key": b"\0", "value": None, "reason": self.random.choice(reasons)}
            )  # fmt: skip

    def _changes(self, kind: Kind) -> list[dict[str, Any]]:
        at, end = BEGIN_MS, BEGIN_MS + self.minutes * MINUTE_MS
        found: list[dict[str, Any]] = []
        living = {f"{kind.group_id}-{number}": at for number in range(kind.members)}
        if kind.deploys:
            moments = [
                BEGIN_MS + hour * HOUR_MS + 90_000 * each for hour in (3, 9) for each in range(kind.members)
            ]
        else:
            moments = []
        while True:
            at += int(self.random.expovariate(1 / (kind.minutes_between * MINUTE_MS))) + 30_000
            if at >= end:
                break
            moments.append(at)
        for moment in sorted(each for each in moments if each < end):
            if not found or moment > found[-1]["ended_at"]:
                found.append(self._rebalance(kind, moment, living, len(found) + 1))
        return found

    def _rebalance(self, kind: Kind, at: int, living: dict[str, int], generation: int) -> dict[str, Any]:
        client = self.random.choice(sorted(living))
        crashed = self.random.random() < kind.crashes
        cause = self.random.choice(
            ("session_expired", "session_expired", "sync_timeout") if crashed
            else ("member_left", "member_joined", "member_joined", "leader_rejoined", "member_metadata_changed",
                  "partition_counts_changed")
        )  # fmt: skip
        join = int(self.random.lognormvariate(0, 0.7) * kind.rebalance_ms * (2.5 if crashed else 1))
        sync = int(self.random.lognormvariate(0, 0.5) * kind.rebalance_ms * 0.3) + 4
        late = self.random.choice(sorted(living))
        if cause in ("session_expired", "member_left"):
            self._end_session(kind, client, living, at, cause)
        return {
            "group_id": kind.group_id, "generation_id": generation, "started_at": at, "ended_at": at + join + sync,
            "duration_ms": join + sync, "join_ms": join, "sync_ms": sync,
            "attempts": self.random.choice((1, 1, 1, 2)), "cause": cause,
            "reason": f"{cause.replace('_', ' ')}: {client}", "causes": [cause, "all_members_joined"],
            "member_id": f"{client}-{generation:04x}", "client_id": client, "client_host": host(client),
            "last_member_id": f"{late}-{generation:04x}", "last_client_id": late, "last_client_host": host(late),
            "last_arrival_ms": int(join * 0.97), "last_group_instance_id": None,
            "last_given_up_count": 0, "last_given_up": [],
            "member_count": kind.members, "outcome": "Stable",
        }  # fmt: skip

    def _end_session(self, kind: Kind, client: str, living: dict[str, int], at: int, cause: str) -> None:
        began = living[client]
        living[client] = at + 5_000
        self.rows["members"].append(
            {"group_id": kind.group_id, "member_id": f"{client}-{at:x}", "client_id": client,
             "client_host": host(client), "group_instance_id": None,
             "started_at": began if began > BEGIN_MS else None, "ended_at": at,
             "duration_ms": at - began if began > BEGIN_MS else None,
             "joined_by": "member_joined" if began > BEGIN_MS else None, "ended_by": cause}
        )  # fmt: skip
        hour = at // HOUR_MS * HOUR_MS
        self.rows["churn"].append(
            {"window_start": hour, "window_end": hour + HOUR_MS, "group_id": kind.group_id, "client_id": client,
             "client_host": host(client), "joined": 1, "left": int(cause == "member_left"),
             "expired": int(cause == "session_expired")}
        )  # fmt: skip

    def _consume(self, kind: Kind, rebalances: list[dict[str, Any]]) -> None:
        lost: dict[int, int] = defaultdict(int)
        for each in rebalances:
            lost[(each["ended_at"] - BEGIN_MS) // MINUTE_MS] += each["duration_ms"]
        behind, rate, halts = 0.0, kind.records_per_minute, kind.halts or (-1, -1)
        for minute in range(self.minutes):
            at = BEGIN_MS + minute * MINUTE_MS
            halted = halts[0] <= minute < halts[1]
            busy = 0.0 if halted else max(0.0, 1 - lost[minute] / MINUTE_MS)
            wave = 1 + 0.5 * math.sin(minute / 1_440 * math.tau)
            behind = max(0.0, behind + rate * wave * self.random.uniform(0.7, 1.3) - rate * 1.9 * busy)
            # What is under way at its end.
            behind = max(behind, rate * wave * self.random.uniform(-0.01, 0.03))
            if not behind and self.random.random() < 0.4:
                continue
            self._lag_rows(kind, at, behind, rate)
            if busy:
                commits = int(kind.commits_per_minute * busy * self.random.uniform(0.8, 1.2)) + 1
                self.rows["commits"].append(
                    {"minute": at, "group_id": kind.group_id, "commits": commits, "partitions": 3,
                     "per_second": commits / 60, "noisy": commits > 600}
                )  # fmt: skip

    def _lag_rows(self, kind: Kind, at: int, behind: float, rate: int) -> None:
        for partition, share in enumerate((0.5, 0.3, 0.2)):
            records = int(behind * share)
            end = (at - BEGIN_MS) // MINUTE_MS * rate
            self.rows["lag"].append(
                {"minute": at, "group_id": kind.group_id, "topic": kind.topic, "partition": partition,
                 "committed_offset": end - records, "log_end_offset": end, "lag_records": records,
                 "lag_seconds": round(60 * behind / rate, 3) if records else 0.0}
            )  # fmt: skip

    def write(self, out: Path) -> Path:
        for table in TABLES:
            if self.rows.get(table):
                write_table(out, table, self.rows[table])
        return out


def storms_of(rebalances: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Windows in which one group's rebalances took more than STORM_SHARE."""
    windows: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for each in rebalances:
        windows[each["ended_at"] // STORM_MS * STORM_MS].append(each)
    found = []
    for begin, within in sorted(windows.items()):
        ms = min(sum(each["duration_ms"] for each in within), STORM_MS)
        if ms > STORM_SHARE * STORM_MS:
            found.append(
                {"window_start": begin, "window_end": begin + STORM_MS, "group_id": within[0]["group_id"],
                 "rebalances": len(within), "rebalancing_ms": ms, "share": ms / STORM_MS}
            )  # fmt: skip
    return found


def host(client: str) -> str:
    return f"/10.0.{sum(client.encode()) % 8}.{len(client) + int(client[-1], 36) % 200}"


def write_table(out: Path, table: str, rows: list[dict[str, Any]], name: str = "sample-000000000000") -> None:
    """The rows as one file for each of their days; times are ms since 1970."""
    by_day: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_day[str(datetime.fromtimestamp(row[TABLES[table].day_of] / 1000, UTC).date())].append(row)
    schema = arrow_schema(table)
    for day, of_day in by_day.items():
        folder = out / table / f"{DAY}={day}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.Table.from_arrays([_column(of_day, each) for each in schema], schema=schema),
            folder / f"{name}.parquet",
        )


def _column(rows: list[dict[str, Any]], declared: pa.Field) -> pa.Array:
    values = [row[declared.name] for row in rows]
    if pa.types.is_timestamp(declared.type):
        values = [None if value is None else value * 1000 for value in values]
        return pa.array(values, pa.int64()).cast(declared.type)
    return pa.array(values, declared.type)


def ordinary_day(out: Path, seed: int = 7) -> Sample:
    """Ten groups over a day; returns the sample as it was written under `out`."""
    sample = Sample(seed)
    for kind in KINDS:
        sample.add(kind)
    sample.add_dead_letters(23)
    sample.write(out)
    return sample
