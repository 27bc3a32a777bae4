"""The jobs `rebalances` and `members` on a daemon whose groups rebalance for every cause that can be provoked.

Judged by what was done, and by pandas over the raw topic, which shares no code with the jobs. Windows take their
time to be over: storms and churn are those of a topic with events of three hours ago, written by a stock client.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from confluent_kafka import Message, Producer
from pyspark.sql import SparkSession

from coordinator.effects import GroupEvent
from coordinator.history.events import encode_event
from harness.daemon import MusterDaemon
from harness.messages import value_of
from harness.observer import Observer
from harness.processes import wait_until
from harness.spark_tables import read_arrow
from muster.spark.jobs.job import load_job
from muster.spark.jobs.options import RunOptions
from muster.spark.jobs.runner import run
from tests.observe.offsets_log import OffsetsLog, member
from tests.spark.provoked_rebalances import DEADLINE_S, ProvokedRebalance, RebalanceProvoker

pytestmark = pytest.mark.xdist_group("spark")

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "100",
}
TOPIC = "__group_events"
NOW_MS = time.time_ns() // 1_000_000
PAST_MS = NOW_MS - NOW_MS % 3_600_000 - 3 * 3_600_000  # Three full hours ago, or a little more.
WINDOW_MS = 300_000
SHARE = 0.2
BAD = [(b"g", b"{"), (b"g", b'{"schema": 2}'), (None, b'{"schema": 1}'), (b"\xff", None)]
CAUSES = {
    "member_joined", "member_left", "session_expired", "removed_by_admin", "member_metadata_changed",
    "partition_counts_changed", "leader_rejoined", "sync_timeout",
}  # fmt: skip


@dataclass
class Done:
    """What was done, what the topic holds after it, and where the tables are."""

    provoked: list[ProvokedRebalance]
    log: list[Message]
    out: Path

    def table(self, name: str) -> pd.DataFrame:
        frame: pd.DataFrame = read_arrow(self.out, name).to_pandas()
        return frame

    def events(self) -> pd.DataFrame:
        values = [
            json.loads(value)
            for each in self.log
            if (value := each.value() or b"").startswith(b'{"schema":1,')
        ]
        return pd.DataFrame(values)


def past_rebalance(
    group_id: str, generation: int, start_s: int, join_s: int, member_id: str
) -> list[dict[str, Any]]:
    """Begin and end of a rebalance for a member that joins and is gone at once, `start_s` after PAST_MS."""
    start_ms, spent_ms = PAST_MS + start_s * 1000, {"PreparingRebalance": join_s * 1000}
    common = {"schema": 1, "group_id": group_id, "reason": "", "client_id": "old", "client_host": "/10.0.0.9"}
    begin = {
        "from_state": "Empty",
        "to_state": "PreparingRebalance",
        "cause": "member_joined",
        "member_id": member_id,
        "member_count": 1,
        "wall_ms": start_ms,
        "generation_id": generation,
    }
    end = {
        "from_state": "PreparingRebalance",
        "to_state": "Empty",
        "cause": "group_emptied",
        "wall_ms": start_ms + join_s * 1000,
        "generation_id": generation + 1,
        "removed_count": 1,
        "removed_member_ids": [member_id],
        "phase_ms": spent_ms,
        "rebalance_cause": "member_joined",
        "rebalance_ms": spent_ms,
    }
    return [{**common, **begin}, {**common, **end}]


def past() -> list[dict[str, Any]]:
    """Storms: one that fills its window, one that straddles two, one of many short ones, and what is none."""
    spans = {"full": [(0, 299)], "long": [(200, 800)], "calm": [(10, 50), (400, 50)],
             "busy": [(n * 40, 12) for n in range(12)], "boundary": [(240, 60), (300, 0)]}  # fmt: skip
    written = [
        past_rebalance(f"past-{name}", number, start, length, f"{name}-{number}")
        for name, group in spans.items()
        for number, (start, length) in enumerate(group)
    ]
    return sorted((event for each in written for event in each), key=lambda event: event["wall_ms"])


def observed() -> list[GroupEvent]:
    """A first generation as `muster observe` infers it: 40 ms of syncing, and of joining it is not known."""
    log = OffsetsLog()
    log.now_ms = PAST_MS + 3_000_000
    return log.generation(1, member("old"), group="past-observed")


def write_past(bootstrap: str, topic: str) -> None:
    """The past, records that are no events, and an event of two hours later, by which all windows are over."""
    end = {"schema": 1, "group_id": "past-clock", "generation_id": 1, "from_state": "Stable", "to_state": "Stable",
           "cause": "static_member_replaced", "reason": "", "wall_ms": PAST_MS + 7_200_000}  # fmt: skip
    producer = Producer({"bootstrap.servers": bootstrap})
    for each in [*past(), end]:
        event = json.dumps(each, separators=(",", ":"))
        producer.produce(topic, event, each["group_id"], partition=0, timestamp=each["wall_ms"])
    for inferred in observed():
        encoded = encode_event(inferred)
        producer.produce(topic, encoded[1], encoded[0], partition=0, timestamp=inferred.wall_ms)
    for key, value in BAD:
        producer.produce(topic, value, key, partition=0, timestamp=PAST_MS)
    assert producer.flush(20) == 0


def run_job(spark: SparkSession, bootstrap: str, out: Path, name: str, topic: str = TOPIC) -> None:
    options = RunOptions(bootstrap=bootstrap, out=str(out), storm_window_ms=WINDOW_MS, storm_share=SHARE)
    run(spark, replace(load_job(name), topic=topic), options, lambda progress: None)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    with MusterDaemon(tmp_path_factory.mktemp("daemon"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def done(
    spark: SparkSession, daemon: MusterDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Done]:
    """Job `rebalances` is run in the middle of a rebalance and at the end, over a restart of the coordinator."""
    out = tmp_path_factory.mktemp("tables")
    observer = Observer(daemon.bootstrap)
    provoker = RebalanceProvoker(daemon.bootstrap, observer)
    for provoke in (
        provoker.leaving,
        provoker.removed,
        provoker.replaced,
        provoker.changing,
        provoker.late,
        provoker.pending,
    ):
        provoke()
    provoker.begin_a_rebalance_for_the_restart()
    wait_until(
        lambda: has_event(observer, "restarted", "PreparingRebalance"),
        "the rebalance is recorded",
        DEADLINE_S,
    )
    run_job(spark, daemon.bootstrap, out, "rebalances")
    daemon.kill()
    daemon.start()
    observer.connect()
    for provoke in (
        provoker.after_the_restart,
        provoker.deleted,
        provoker.unsynced,
        provoker.with_stock_clients,
    ):
        provoke()
    wait_until(lambda: has_event(observer, "stock", "Empty"), "the last of all is recorded", DEADLINE_S)
    log = observer.read(TOPIC, 0)
    run_job(spark, daemon.bootstrap, out, "rebalances")
    run_job(spark, daemon.bootstrap, out, "members")
    yield Done(provoker.done, log, out)
    provoker.close()


@pytest.fixture(scope="module")
def long_ago(spark: SparkSession, daemon: MusterDaemon, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Both jobs on a topic of events of hours ago: windows are over."""
    out = tmp_path_factory.mktemp("past")
    observer = Observer(daemon.bootstrap)
    topic = observer.create_topic("past-events", 1)
    write_past(daemon.bootstrap, topic)
    for name in ("rebalances", "members"):
        run_job(spark, daemon.bootstrap, out, name, topic)
    return Done([], observer.read(topic, 0), out)


def has_event(observer: Observer, group_id: str, state: str) -> bool:
    """The newest event of the group ends in that state."""
    values = [value_of(each) for each in observer.read(TOPIC, 0) if each.key() == group_id.encode()]
    return bool(values) and json.loads(values[-1])["to_state"] == state


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """The frame's rows, whose columns are attributes of the types that the table gave them."""
    yield from frame.itertuples()


def as_ms(times: pd.Series) -> pd.Series:
    return (times - pd.Timestamp(0, tz="UTC")) // pd.Timedelta("1ms")


def test_every_rebalance_that_was_caused_is_there_with_its_cause(done: Done) -> None:
    found = done.table("rebalances").sort_values("ended_at", kind="stable")
    for group_id in sorted({each.group_id for each in done.provoked}):
        mine = found[found.group_id == group_id]
        causes = [(row.cause, tuple(row.causes), row.outcome) for row in rows_of(mine)]
        assert causes == [
            (each.cause, (each.cause, *each.within), each.outcome)
            for each in done.provoked
            if each.group_id == group_id
        ], group_id
    assert {each.cause for each in done.provoked} == CAUSES
    assert len(found) == len(done.provoked)


def test_the_rebalances_are_those_of_pandas_over_the_raw_topic(done: Done) -> None:
    """An end that the coordinator records, with its figures; the begin is the group's last step out of quiet."""
    events = done.events()
    quiet = ["Empty", "Stable"]
    begins = events[events.from_state.isin(quiet) & ~events.to_state.isin([*quiet, "Dead"])]
    ends = events[events.rebalance_cause.notna()]
    rows = [
        (
            end.group_id,
            end.generation_id,
            end.rebalance_cause,
            sum(end.rebalance_ms.values()),
            end.rebalance_ms.get("PreparingRebalance", 0),
            begins[(begins.group_id == end.group_id) & (begins.index < end.Index)].wall_ms.iloc[-1],
            end.wall_ms,
            end.to_state,
        )
        for end in rows_of(ends)
    ]
    found = done.table("rebalances")
    found = found[found.outcome != "Dead"].assign(
        started=lambda t: as_ms(t.started_at), ended=lambda t: as_ms(t.ended_at)
    )
    names = ["group_id", "generation_id", "cause", "duration_ms", "join_ms", "started", "ended", "outcome"]
    assert sorted(found[names].itertuples(index=False, name=None)) == sorted(rows)


def test_the_storms_are_those_of_pandas_second_by_second(long_ago: Done) -> None:
    ends = long_ago.events()
    ends = ends[ends.rebalance_cause.notna()]
    expected = []
    for group_id, of_group in ends.groupby("group_id"):
        on = np.zeros((len(of_group), 3_600), dtype=bool)  # Which rebalance was on in which second.
        for row, end in enumerate(rows_of(of_group)):
            last = (end.wall_ms - PAST_MS) // 1000
            on[row, last - end.rebalance_ms.get("PreparingRebalance", 0) // 1000 : last] = True
        for start in range(0, 3_600, WINDOW_MS // 1000):
            window = on[:, start : start + WINDOW_MS // 1000]
            spent_ms = int(window.any(axis=0).sum()) * 1000
            if spent_ms > SHARE * WINDOW_MS:
                rebalances = int(window.any(axis=1).sum())
                expected.append(
                    (group_id, PAST_MS + start * 1000, rebalances, spent_ms, spent_ms / WINDOW_MS)
                )
    found = long_ago.table("storms").assign(start=lambda t: as_ms(t.window_start))
    storms = found[["group_id", "start", "rebalances", "rebalancing_ms", "share"]]
    assert {each[0] for each in expected} == {"past-busy", "past-full", "past-long"}
    assert sorted(storms.itertuples(index=False, name=None)) == sorted(expected)


def test_a_length_that_no_record_shows_is_null(long_ago: Done) -> None:
    found = read_arrow(long_ago.out, "rebalances").to_pylist()
    lengths = [
        (row["join_ms"], row["sync_ms"], row["duration_ms"])
        for row in found
        if row["group_id"] == "past-observed"
    ]
    assert lengths == [(None, 40, None)]


def test_the_sessions_are_those_of_pandas_over_the_raw_topic(done: Done) -> None:
    events = done.events()
    joins = events[events.cause.isin(["member_joined", "static_member_replaced"])]
    begun = joins.set_index("member_id")[["wall_ms", "client_id", "group_instance_id", "cause"]]
    assert begun.index.is_unique
    removed = events.explode("removed_member_ids").dropna(subset=["removed_member_ids"])
    both = removed.merge(begun, left_on="removed_member_ids", right_index=True, suffixes=("", "_begun"))
    expected = both.assign(duration=both.wall_ms - both.wall_ms_begun)
    found = done.table("members").assign(ended=lambda t: as_ms(t.ended_at))
    names = ["group_id", "member_id", "client_id", "ended", "duration_ms", "joined_by", "ended_by"]
    raw = ["group_id", "removed_member_ids", "client_id_begun", "wall_ms", "duration", "cause_begun", "cause"]
    assert sorted(found[names].itertuples(index=False, name=None)) == sorted(
        expected[raw].itertuples(index=False, name=None)
    )
    by = dict(found.groupby("ended_by").size())
    assert by["session_expired"] == 1
    assert by["rebalance_timeout"] == 1
    assert by["sync_timeout"] == 1
    assert by["static_member_replaced"] == 1


def test_churn_is_that_of_pandas_for_the_hours_that_are_over(long_ago: Done) -> None:
    events = long_ago.events()
    events = events[events.group_id != "past-clock"]
    hours = events.assign(hour=events.wall_ms // 3_600_000 * 3_600_000)
    expected = {
        (group_id, hour, (of.cause == "member_joined").sum(), (of.cause == "group_emptied").sum())
        for (group_id, hour), of in hours.groupby(["group_id", "hour"])
    }
    found = long_ago.table("churn").assign(hour=lambda t: as_ms(t.window_start))
    assert (
        set(found[["group_id", "hour", "joined", "expired"]].itertuples(index=False, name=None)) == expected
    )
    assert set(found.left) == {0}
    assert set(found.client_id) == {"old"}


def test_what_is_no_event_is_a_dead_letter_of_each_job_with_its_bytes(long_ago: Done) -> None:
    letters = long_ago.table("dead_letters").sort_values(["job", "source_offset"])
    bad = [each for each in long_ago.log if (each.key(), each.value()) in BAD]
    for job in ("members", "rebalances"):
        mine = letters[letters.job == job]
        assert list(mine.source_offset) == [each.offset() for each in bad]
        assert list(zip(mine.key, mine.value, strict=True)) == BAD
        assert mine.reason.str.len().min() > 5
