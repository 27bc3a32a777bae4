"""`muster log` on a log with a group of the consumer protocol (KIP-848), some of whose members are classic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.effects import CoordinatorRecord
from coordinator.groups.consumer.records import group_records
from coordinator.groups.consumer.shard_groups import ConsumerGroupSettings
from coordinator.groups.partitioning import partition_for
from muster.cli import run
from muster.log.rows import OffsetRow, read_rows, write_rows
from tests.groups.consumer_groups.new_member import NewMember
from tests.groups.consumer_groups.test_shard import classic_group
from tests.groups.driver import Driver
from tests.log.directories import OFFSETS, PARTITIONS, TOPIC, commit, make_directory

MEMBERS = 3
TYPES = {
    "ConsumerGroupMetadata",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupTargetAssignmentMetadata",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupCurrentMemberAssignment",
    "ConsumerGroupRegularExpression",
}


def of_a_group() -> list[CoordinatorRecord]:
    """The records of group `g`: two classic members, and one that subscribes by an expression."""
    driver = Driver(consumer_settings=ConsumerGroupSettings(assignment_interval_ms=0))
    classic_group(driver)
    NewMember(driver, "new", topics=(), subscribed_topic_regex="ord.*").beat()
    driver.finish_work()
    return list(group_records(driver.shard.consumer_groups["g"]))


@pytest.fixture(scope="module")
def records() -> list[CoordinatorRecord]:
    return [*of_a_group(), commit("g", 0, 7)]


@pytest.fixture
def directory(tmp_path: Path, records: list[CoordinatorRecord]) -> Path:
    return make_directory(tmp_path / "logs", records)


def inspected(directory: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    assert run(["log", "inspect", str(directory), "--json", *more]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_record_is_decoded_and_named_as_those_of_other_groups(
    directory: Path, records: list[CoordinatorRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    found = inspected(directory, capsys, "--group", "g")
    assert len(found) == len(records)
    assert {entry["type"] for entry in found} == {*TYPES, "OffsetCommit"}
    assert all(entry["key"]["group"] == "g" for entry in found)
    keys = {entry["type"]: set(entry["key"]) for entry in found}
    assert keys["ConsumerGroupMetadata"] == {"group"}
    assert keys["ConsumerGroupMemberMetadata"] == {"group", "member_id"}
    assert keys["ConsumerGroupRegularExpression"] == {"group", "regular_expression"}
    assert not any(isinstance(entry["value"], str) for entry in found), "no value is shown as bytes"


def test_what_a_classic_member_offers_is_shown_as_a_subscription(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = [
        entry["value"]["classic_member_metadata"]
        for entry in inspected(directory, capsys)
        if entry["type"] == "ConsumerGroupMemberMetadata"
    ]
    classic = [each for each in members if each is not None]
    assert (len(members), len(classic)) == (MEMBERS, 2)
    for each in classic:
        (offered,) = each["supported_protocols"]
        assert (offered["name"], offered["metadata"]["topics"]) == ("range", [TOPIC])


def test_such_a_log_is_well_and_its_records_belong_to_the_partition_of_their_group(
    directory: Path, records: list[CoordinatorRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "verify", str(directory)]) == 0
    home = partition_for("g", PARTITIONS)
    (directory / f"{OFFSETS}-{home}").rename(directory / f"{OFFSETS}-{(home + 1) % PARTITIONS}")
    (directory / "recovery-point-offset-checkpoint").unlink()
    capsys.readouterr()
    assert run(["log", "verify", str(directory)]) == 1
    said = capsys.readouterr().out
    assert said.count(f"group g belongs to partition {home} of {PARTITIONS}") == len(records)


def test_an_export_knows_the_groups_epoch_and_its_members(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    assert run(["log", "export", str(directory), str(file)]) == 0
    (row,) = read_rows(file)
    assert (row.group, row.offset, row.protocol_type, row.members) == ("g", 7, "consumer", MEMBERS)
    assert row.generation == 2


def test_an_import_is_refused_while_it_has_members(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    write_rows(file, [OffsetRow("g", TOPIC, 0, 5)])
    assert run(["log", "import", str(file), str(directory)]) == 2
    assert f"group g has {MEMBERS} members" in capsys.readouterr().err
