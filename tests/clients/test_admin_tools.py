"""Kafka's own command line tools for settings, records, offsets, log directories and leaders, unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.observer import Observer
from harness.processes import ServerProcess
from tests.clients.fleet import Fleet

CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "GetOffsetShell"
RECORDS = 10

pytestmark = pytest.mark.usefixtures("java")


def altered(fleet: Fleet, *arguments: str) -> str:
    return fleet.run_tool(CONFIGS, "--alter", *arguments)


def refused(fleet: Fleet, *arguments: str) -> str:
    """What kafka-configs says to a change that it does not make."""
    said = fleet.ask_tool(CONFIGS, "--alter", *arguments)
    assert said["status"] == 1
    return f"{said['text']}{said['error']}"


def described(fleet: Fleet, *arguments: str) -> dict[str, str]:
    """The dynamic settings that kafka-configs shows."""
    lines = fleet.run_tool(CONFIGS, "--describe", *arguments).splitlines()
    settings = (line.split()[0].partition("=") for line in lines if line.startswith("  "))
    return {name: value for name, _, value in settings}


def test_configs_of_a_topic(fleet: Fleet, observer: Observer) -> None:
    topic = ("--entity-type", "topics", "--entity-name", observer.create_topic("altered", 1))
    altered(fleet, *topic, "--add-config", "retention.ms=1234567,cleanup.policy=[compact,delete]")
    assert described(fleet, *topic) == {"retention.ms": "1234567", "cleanup.policy": "compact,delete"}
    altered(fleet, *topic, "--delete-config", "cleanup.policy")
    assert described(fleet, *topic) == {"retention.ms": "1234567"}
    assert "Unknown topic config name: foo" in refused(fleet, *topic, "--add-config", "foo=1")


def test_configs_of_a_group(fleet: Fleet) -> None:
    group = ("--entity-type", "groups", "--entity-name", "tuned")
    altered(
        fleet,
        *group,
        "--add-config",
        "consumer.session.timeout.ms=50000,share.isolation.level=read_committed",
    )
    assert described(fleet, *group) == {
        "consumer.session.timeout.ms": "50000",
        "share.isolation.level": "read_committed",
    }
    assert "tuned" in fleet.run_tool(CONFIGS, "--describe", "--entity-type", "groups")
    altered(fleet, *group, "--delete-config", "consumer.session.timeout.ms,share.isolation.level")
    assert described(fleet, *group) == {}
    assert "Unknown group config name: foo" in refused(fleet, *group, "--add-config", "foo=1")


def test_configs_of_the_broker(fleet: Fleet) -> None:
    all_brokers = ("--entity-type", "brokers", "--entity-default")
    key = "log.cleaner.delete.retention.ms"
    altered(fleet, *all_brokers, "--add-config", f"{key}=77777777")
    assert described(fleet, *all_brokers)[key] == "77777777"
    altered(fleet, *all_brokers, "--delete-config", key)
    assert key not in described(fleet, *all_brokers)
    words = "Cannot update these configs dynamically: [num.partitions]"
    assert words in refused(fleet, *all_brokers, "--add-config", "num.partitions=7")


def test_records_are_deleted_and_offsets_listed(fleet: Fleet, observer: Observer, tmp_path: Path) -> None:
    topic = observer.create_topic("emptied", 2)
    observer.write(topic, map(str, range(RECORDS)), 0, base_ms=1_700_000_000_000)
    asked = tmp_path / "delete.json"
    asked.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]})
    )
    assert "low_watermark: 4" in fleet.run_tool("DeleteRecordsCommand", "--offset-json-file", str(asked))

    def listed(moment: str) -> list[str]:
        return fleet.run_tool(OFFSETS, "--topic", topic, "--time", moment).splitlines()

    assert listed("earliest") == [f"{topic}:0:4", f"{topic}:1:0"]
    assert listed("latest") == [f"{topic}:0:{RECORDS}", f"{topic}:1:0"]
    assert listed("max-timestamp") == [f"{topic}:0:{RECORDS - 1}"]
    assert listed("earliest-local") == listed("earliest")
    assert listed("latest-tiered") == []
    assert listed("1700000006500") == [f"{topic}:0:7"]


def test_sizes_leaders_and_reassignments(fleet: Fleet, observer: Observer, tmp_path: Path) -> None:
    topic = observer.create_topic("sized", 1)
    observer.write(topic, ["x" * 1000], 0)
    described_dirs = fleet.run_tool("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1]
    directories = [each for broker in json.loads(described_dirs)["brokers"] for each in broker["logDirs"]]
    (partition,) = (partition for each in directories for partition in each["partitions"])
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 1000
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "already elected" in fleet.run_tool("LeaderElectionCommand", *election)
    assert "No partition reassignments" in fleet.run_tool("reassign.ReassignPartitionsCommand", "--list")


def test_a_replica_is_reassigned_to_where_it_is(
    fleet: Fleet, observer: Observer, broker: ServerProcess, tmp_path: Path
) -> None:
    """The plan names the directory, so that the tool alters replicas' directories as well."""
    topic, tool = observer.create_topic("stays", 1), "reassign.ReassignPartitionsCommand"
    asked = tmp_path / "reassign.json"
    move = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(broker.log_dir)]}
    asked.write_text(json.dumps({"version": 1, "partitions": [move]}))
    chosen = ("--reassignment-json-file", str(asked))
    done = fleet.run_tool(tool, "--execute", *chosen)
    assert f"Successfully started partition reassignment for {topic}-0" in done
    assert f"Reassignment of partition {topic}-0 is completed." in fleet.run_tool(tool, "--verify", *chosen)


def test_features_are_described_and_downgraded(fleet: Fleet) -> None:
    features = fleet.run_tool("FeatureCommand", "describe").splitlines()
    (transactions,) = (line.split() for line in features if "transaction.version" in line)
    shown = ["SupportedMinVersion:", "0", "SupportedMaxVersion:", "2", "FinalizedVersionLevel:", "2"]
    assert transactions[2:-2] == shown
    checked = fleet.run_tool("FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert "transaction.version can be downgraded to 1" in checked


def test_the_quorum_is_described(fleet: Fleet) -> None:
    quorum = fleet.run_tool("MetadataQuorumCommand", "describe", "--status")
    assert {"LeaderId: 1", "MaxFollowerLag: 0", "CurrentObservers: []"} <= {
        " ".join(line.split()) for line in quorum.splitlines()
    }
