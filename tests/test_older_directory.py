"""Data directories that the daemon of commit 7e117a8 wrote are opened by today's, and nothing in them is missed.

`python -m tools.older_directory` made them, one of a daemon that was stopped and one of a daemon that was killed,
and the JSON beside each is what that daemon answered last.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.daemon import MusterDaemon
from harness.directory_answers import TIMEOUT_S, answers, history_json
from muster.spark.events.aggregators import (
    AggregatorFactory,
    MemberAggregatorFactory,
    RebalanceAggregatorFactory,
    TableRow,
)
from muster.spark.events.bucket import Bucket, SourceRecord
from muster.spark.events.storms import StormRule
from tools.older_directory import OVERRIDES

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data" / "older_directory"
RENAMED = {
    "nobody_left": "group_emptied",
    "metadata_changed": "member_metadata_changed",
    "partitions_changed": "partition_counts_changed",
}
"""The former slugs that are in the directories, and their names of today; not read from the code."""


@dataclass(frozen=True, slots=True)
class Reopened:
    """A daemon of today on a directory of before, what it answers, and what the daemon of before had answered."""

    bootstrap: str
    found: dict[str, Any]
    before: dict[str, Any]


@pytest.fixture(scope="module", params=["stopped", "killed"])
def reopened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reopened]:
    folder = tmp_path_factory.mktemp(request.param)
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    before = json.loads((DATA / f"{request.param}.json").read_text())
    with MusterDaemon(folder, OVERRIDES) as daemon:
        yield Reopened(daemon.bootstrap, answers(daemon.bootstrap), before)
        assert daemon.terminate() == 0


@pytest.mark.parametrize("what", ["topics", "configs", "records", "groups", "offsets"])
def test_what_the_older_daemon_answered_is_answered_again(reopened: Reopened, what: str) -> None:
    assert reopened.found[what] == reopened.before[what]


def test_the_directories_hold_what_they_are_meant_to_show(reopened: Reopened) -> None:
    before = reopened.before
    assert {group["state"] for group in before["groups"].values()} == {"EMPTY", "STABLE"}
    assert all(before["offsets"][name] for name in ("billing", "exactly-once", "standalone"))
    causes = {event["cause"] for events in before["histories"].values() for event in events}
    assert causes >= {*RENAMED, "session_expired", "group_deleted"}
    seen = [
        before["records"][level]["orders-1"]["records"] for level in ("read_committed", "read_uncommitted")
    ]
    assert len(seen[1]) == len(seen[0]) + 1, "one record of a transaction that was aborted"


@pytest.mark.parametrize("group", ["billing", "growing", "crashing", "deleted", "living"])
def test_groups_history_shows_the_old_events_under_the_causes_of_today(
    reopened: Reopened, group: str
) -> None:
    """`muster groups history GROUP --json`; today's daemon may have added events of its own."""
    expected = [_renamed(event) for event in reopened.before["histories"][group]]
    found = history_json(reopened.bootstrap, group, ROOT)
    of_then = [{name: event[name] for name in expected[0]} for event in found]  # Fields were added since.
    assert [event for event in of_then if event in expected] == expected
    assert {event["cause"] for event in found}.isdisjoint(RENAMED)


def test_groups_history_has_the_old_rebalances(reopened: Reopened) -> None:
    command = [
        sys.executable,
        "-m",
        "muster",
        "groups",
        "history",
        "crashing",
        "--bootstrap",
        reopened.bootstrap,
    ]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert [word in shown for word in ("session expired", "Stable", "Empty")] == [True] * 3


def test_the_jobs_have_the_old_events_in_rows_under_the_causes_of_today(reopened: Reopened) -> None:
    """The fold that runs in Spark, over the records of the topic as its Kafka source gives them."""
    records = _records_of_events(reopened.bootstrap)
    rebalances = _rows(RebalanceAggregatorFactory(StormRule(600_000, 0.2)), "rebalances", records)
    causes = {row["cause"] for row in rebalances} | {cause for row in rebalances for cause in row["causes"]}
    assert causes >= {"group_emptied", "member_metadata_changed", "partition_counts_changed"}
    assert causes.isdisjoint(RENAMED)
    members = _rows(MemberAggregatorFactory(), "members", records)
    assert sorted(row["ended_by"] for row in members if row["group_id"] == "crashing") == ["session_expired"]


def test_the_daemon_goes_on_from_there(reopened: Reopened) -> None:
    """Last, since it writes: a record behind the old ones, and an offset over an old one."""
    end = reopened.before["records"]["read_committed"]["prices-0"]["end"]
    producer = Producer({"bootstrap.servers": reopened.bootstrap, "enable.idempotence": True})
    offsets: list[int | None] = []
    producer.produce(
        "prices", b"new", b"new", 0, on_delivery=lambda _, message: offsets.append(message.offset())
    )
    assert producer.flush(TIMEOUT_S) == 0
    assert offsets == [end]
    consumer = Consumer({"bootstrap.servers": reopened.bootstrap, "group.id": "standalone"})
    consumer.commit(offsets=[TopicPartition("prices", 0, end)], asynchronous=False)
    (found,) = consumer.committed([TopicPartition("prices", 0)], TIMEOUT_S)
    consumer.close()
    assert found.offset == end


def _renamed(event: dict[str, Any]) -> dict[str, Any]:
    causes = {name: RENAMED.get(event[name], event[name]) for name in ("cause", "rebalance_cause")}
    return {**event, **causes}


def _records_of_events(bootstrap: str) -> list[SourceRecord]:
    topic = TopicPartition("__group_events", 0, 0)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(topic, TIMEOUT_S)
        consumer.assign([topic])
        found: list[SourceRecord] = []
        while not found or found[-1].offset + 1 < end:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            offset, key, value = message.offset(), message.key(), message.value()
            assert offset is not None
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            found.append(SourceRecord(0, offset, message.timestamp()[1], key, value))
        return found
    finally:
        consumer.close()


def _rows(factory: AggregatorFactory, table: str, records: list[SourceRecord]) -> list[dict[str, Any]]:
    rows: list[TableRow]
    rows, letters = Bucket(factory, None).take(records, 0)
    assert letters == []
    return [row.columns for row in rows if row.table == table]
