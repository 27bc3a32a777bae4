"""Our directories are Kafka's and Kafka's are ours: segments are swapped between the two, both ways.

One Kafka lives twice for all of these tests. In its first life it writes groups of every kind, which Muster
then loads. In its second its `__consumer_offsets` holds the segments that a Muster wrote, and an import.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator.topics.catalogue import CatalogueEntry, write_catalogue
from harness import java_tools
from harness import kafka_groups as made
from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.kafka_groups import CLASSIC_GROUPS, KIP_848, SHARE, STREAMS, TOPIC, TRANSACTIONAL
from harness.swap import OFFSETS, swap_in
from harness.wire import WireClient
from muster.cli import run
from muster.log.rows import OffsetRow, write_rows
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from storage.directory.log_directory import LogDirectory
from storage.files import Files
from storage.log.partition_files import PARTITION_METADATA, write_partition_metadata
from storage.log.shard_snapshot import SHARD_SNAPSHOT
from tests.clients.fleet import Fleet

PARTITIONS = 4
SETTINGS = {"group.initial.rebalance.delay.ms": "1000", "offsets.topic.num.partitions": str(PARTITIONS)}
MUSTER = {**SETTINGS, "node.id": "0", "auto.create.topics.enable": "false"}
OUR_GROUPS = (*CLASSIC_GROUPS, KIP_848)
FILLER = "filler"
OF_THE_NEW_PROTOCOL = 1  # The type of a member, as it is described.
IMPORTED, IMPORTED_ONLINE = "imported", "imported-online"
GROUPS = "consumer.group.ConsumerGroupCommand"
CONSUMER = "consumer.ConsoleConsumer"

pytestmark = [pytest.mark.xdist_group("kafka log"), pytest.mark.timeout(300)]


@dataclass
class Written:
    """A server's directory after its clean end, and what it said of its groups before."""

    log_dir: Path
    report: dict[str, Any]
    listed: dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka that is not started yet: each test starts it where it needs it."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), SETTINGS)
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def by_kafka(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Kafka's first life."""
    kafka.start()
    with WireClient(kafka.bootstrap) as client:
        made.make_topic(client)
    made.make_classic_groups(kafka.bootstrap)
    made.make_newer_groups(kafka.bootstrap)
    made.make_transactional_offsets(kafka.bootstrap)
    report = made.report(kafka.bootstrap, [*CLASSIC_GROUPS, KIP_848, TRANSACTIONAL])
    listed = made.listed(kafka.bootstrap)
    kafka.terminate()
    copy = tmp_path_factory.mktemp("copy") / "logs"
    shutil.copytree(kafka.log_dir, copy)
    return Written(copy, report, listed)


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    """A Muster with groups of both kinds."""
    with MusterDaemon(tmp_path_factory.mktemp("muster"), MUSTER) as daemon:
        with WireClient(daemon.bootstrap) as client:
            made.make_topic(client)
        made.make_classic_groups(daemon.bootstrap)
        made.make_consumer_groups(daemon.bootstrap)
        yield daemon


@pytest.fixture(scope="module")
def by_muster(muster: MusterDaemon) -> Written:
    """What Muster wrote. This ends the daemon, so tests that need it alive come before."""
    with WireClient(muster.bootstrap) as client:
        fill(client)
    written = Written(
        muster.log_dir, made.report(muster.bootstrap, OUR_GROUPS), made.listed(muster.bootstrap)
    )
    assert muster.terminate() == 0
    assert snapshots(muster.log_dir), "the log of one shard is long enough to leave one"
    return written


def fill(client: WireClient) -> None:
    """Make the log of one shard long, by commits with all the metadata that there may be."""
    longest = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="x" * 4_000
    )
    request = OffsetCommitRequest(
        group_id=FILLER, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[longest])]
    )
    made.await_coordinator(client, [FILLER])
    for _ in range(100):
        assert client.ask(request, 8).topics[0].partitions[0].error_code == ErrorCode.NONE


def snapshots(log_dir: Path) -> list[str]:
    return sorted(str(path.relative_to(log_dir)) for path in log_dir.glob(f"{OFFSETS}-*/{SHARD_SNAPSHOT}"))


# What Kafka wrote.


def test_muster_loads_what_kafka_wrote(by_kafka: Written, tmp_path: Path) -> None:
    """Groups, members and offsets are equal to what Kafka reported; what Muster does not keep is skipped."""
    daemon = MusterDaemon(tmp_path, MUSTER)
    adopt(by_kafka.log_dir, daemon.log_dir)
    with daemon:
        report = made.report(daemon.bootstrap, [*CLASSIC_GROUPS, KIP_848, TRANSACTIONAL])
        listed = made.listed(daemon.bootstrap)
        assert daemon.terminate() == 0
    for group in (*CLASSIC_GROUPS, TRANSACTIONAL):
        assert report[group] == by_kafka.report[group], group
    assert report[TRANSACTIONAL][-1] == {(TOPIC, 0): (50, -1, "")}
    assert report[KIP_848] == by_kafka.report[KIP_848]
    assert report[KIP_848][-1] != {}
    assert [kind for _, kind, _ in report[KIP_848][0].values()] == [OF_THE_NEW_PROTOCOL]
    assert by_kafka.listed.keys() == {
        *CLASSIC_GROUPS,
        TRANSACTIONAL,
        KIP_848,
        f"{KIP_848}-left",
        SHARE,
        STREAMS,
    }
    assert listed == {name: seen for name, seen in by_kafka.listed.items() if name not in (SHARE, STREAMS)}
    lines = [json.loads(line) for line in daemon.log_path.read_text().splitlines() if line.startswith("{")]
    (loaded,) = [line for line in lines if line["event"] == "offsets loaded"]
    skipped = [each for each in others_in(by_kafka.log_dir) if not each.startswith("Consumer")]
    assert loaded["skipped"] == len(skipped) >= 10


def test_kafka_wrote_every_type_that_its_groups_have(by_kafka: Written) -> None:
    """The test above rests on every type being there. Left out are a type that 4.3 only deletes, the oldest
    form of a commit, and the targets of a streams group, which come with its first task."""
    types = set(others_in(by_kafka.log_dir))
    assert {name.partition("Group")[0] for name in types} == {"Consumer", "Share", "Streams"}
    assert len(types) == 16


def others_in(log_dir: Path) -> list[str]:
    """The types of the records of other groups than classic ones."""
    return [
        entry["type"]
        for entry in inspected(log_dir)
        if entry["type"] not in ("OffsetCommit", "GroupMetadata")
    ]


def inspected(log_dir: Path) -> list[dict[str, Any]]:
    from muster.log.entries import entries
    from muster.log.places import chosen_places, open_source

    source = open_source(log_dir)
    found = [
        entry
        for place in chosen_places(source, OFFSETS, None)
        for entry in entries(source, place, decoded=True, advance=lambda _: None)
    ]
    assert all(entry["kind"] in ("record", "batch") for entry in found)
    return [entry for entry in found if entry["kind"] == "record"]


def adopt(kafka_dir: Path, log_dir: Path) -> None:
    """A directory for Muster with Kafka's segments of the offsets topic under an id of our own."""
    offsets_id = bytes(range(16))
    directory = LogDirectory.open(log_dir, Files(), node_id=0)
    topics = [CatalogueEntry(OFFSETS, offsets_id, PARTITIONS, {"cleanup.policy": "compact"})]
    topics.append(CatalogueEntry(TOPIC, bytes(range(16, 32)), made.PARTITIONS, {}))
    write_catalogue(Files(), log_dir, topics)
    assert directory.close() == []
    for number in range(PARTITIONS):
        target = log_dir / f"{OFFSETS}-{number}"
        shutil.copytree(kafka_dir / target.name, target)
        (target / PARTITION_METADATA).unlink()
        write_partition_metadata(Files(), target, offsets_id)


def test_muster_log_takes_kafkas_directory_as_it_is(
    by_kafka: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "verify", str(by_kafka.log_dir), "--strict"]) == 0
    assert run(["log", "repair", str(by_kafka.log_dir), str(tmp_path / "copy")]) == 0
    capsys.readouterr()
    assert run(["log", "export", str(by_kafka.log_dir)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found: dict[str, dict[tuple[str, int], tuple[int, int, str]]] = {}
    for row in rows:
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        found.setdefault(row["group"], {})[row["topic"], row["partition"]] = (
            row["offset"],
            epoch,
            row["metadata"],
        )
    assert found == {group: row[-1] for group, row in by_kafka.report.items()}


# What Muster wrote.


@pytest.mark.usefixtures("java")
def test_the_console_consumers_formatters_read_us_through_the_wire(
    muster: MusterDaemon, tmp_path: Path
) -> None:
    report = made.report(muster.bootstrap, OUR_GROUPS)
    offsets = {
        (group, topic, partition): offset
        for group, row in report.items()
        for (topic, partition), (offset, *_) in row[-1].items()
    }
    members = {group: sorted(row[-2]) for group, row in report.items() if row[-2]}
    assert printed_offsets(formatted("OffsetsMessageFormatter", muster, tmp_path)) == offsets
    printed = printed_members(formatted("GroupMetadataMessageFormatter", muster, tmp_path))
    assert {group: names for group, names in printed.items() if group in CLASSIC_GROUPS and names} == members


def formatted(formatter: str, muster: MusterDaemon, tmp_path: Path) -> list[Any]:
    """All records of the offsets topic as one of Kafka's formatters prints them, which is without line ends.

    The consumer's own group writes two records before it fetches: made, and stable.
    """
    count = len(inspected(muster.log_dir)) + 2
    fleet = Fleet(muster.bootstrap, tmp_path)
    try:
        text = fleet.run_tool(
            CONSUMER,
            *("--topic", OFFSETS, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        )
    finally:
        fleet.close()
    decoder, found, position = json.JSONDecoder(), [], 0
    while position < len(text):
        record, position = decoder.raw_decode(text, position)
        found.append(record)
    return found


def printed_offsets(found: list[Any]) -> dict[tuple[str, str, int], int]:
    """What remains of the commits that the formatter printed."""
    offsets: dict[tuple[str, str, int], int] = {}
    for record in found:
        key, value = record["key"]["data"], record["value"]
        where = (key["group"], key["topic"], key["partition"])
        if value is None:
            offsets.pop(where, None)
        else:
            offsets[where] = value["data"]["offset"]
    return offsets


def printed_members(found: list[Any]) -> dict[str, list[str]]:
    by_group: dict[str, list[str]] = {}
    for record in found:
        members = record["value"]["data"]["members"] if record["value"] else []
        by_group[record["key"]["data"]["group"]] = sorted(member["memberId"] for member in members)
    return by_group


@pytest.mark.usefixtures("java")
def test_kafka_dump_log_decodes_our_segments(by_muster: Written) -> None:
    shown = dumped(by_muster.log_dir)
    records = inspected(by_muster.log_dir)
    assert len(re.findall(r"^\| offset: ", shown, re.MULTILINE)) == len(records)
    for group, (*_, members, offsets) in by_muster.report.items():
        for member in members:
            assert f'"memberId":"{member}"' in shown
        for (topic, partition), (offset, epoch, note) in offsets.items():
            key = json.dumps(
                {"type": "1", "data": {"group": group, "topic": topic, "partition": partition}},
                separators=(",", ":"),
                ensure_ascii=False,
            )
            assert key in shown
            assert f'"offset":{offset},"leaderEpoch":{epoch},"metadata":"{note}"' in shown


def dumped(log_dir: Path) -> str:
    """What kafka-dump-log says of the offsets topic; it must find nothing wrong."""
    files = sorted(
        path
        for pattern in ("*.log", "*.index", "*.timeindex")
        for path in log_dir.glob(f"{OFFSETS}-*/{pattern}")
    )
    command = [java_tools.java(), "-cp", java_tools.classpath(), "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--print-data-log", "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "isvalid: false" not in done.stdout
    assert not re.search(r"mismatch|Found timestamp|not found|invalid bytes|rror", done.stdout + done.stderr)
    return done.stdout


def test_inspect_decodes_records_of_all_kinds_as_kafka_does(by_kafka: Written) -> None:
    """Records are equal field by field, but for what Kafka leaves out because it is the default."""
    shown = re.findall(r" key: (\{.*?\}) payload: (.*)$", dumped(by_kafka.log_dir), re.MULTILINE)
    theirs = [(json.loads(key), None if value == "<DELETE>" else json.loads(value)) for key, value in shown]
    theirs = [pair for pair in theirs if pair[0]["type"] not in ("0", "1", "2")]
    ours = [entry for entry in inspected(by_kafka.log_dir) if entry["type"] in others_in(by_kafka.log_dir)]
    assert len(ours) == len(theirs) > 20
    for entry, (key, value) in zip(ours, theirs, strict=True):
        assert list(entry["key"].values()) == list(key["data"].values())
        if value is None:
            assert entry["value"] is None
        else:
            assert_same(entry["value"], value["data"], entry["type"])


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Assert equality but for names in snake_case and defaults that Kafka does not show."""
    if isinstance(ours, dict):
        names = {re.sub("_([a-z])", lambda found: found[1].upper(), name): name for name in ours}
        assert theirs.keys() <= names.keys(), where
        for shown, name in names.items():
            if shown in theirs:
                assert_same(ours[name], theirs[shown], f"{where}.{name}")
            else:
                assert ours[name] in (None, 0, -1, []), f"{where}.{name}"
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, where)
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def second_life(
    kafka: KafkaBroker, by_kafka: Written, by_muster: Written, tmp_path_factory: pytest.TempPathFactory
) -> KafkaBroker:
    """Kafka on the segments that Muster wrote, each under Kafka's own `partition.metadata`, and an import."""
    swap_in(by_muster.log_dir, kafka.log_dir, PARTITIONS)
    file = tmp_path_factory.mktemp("import") / "rows.jsonl"
    write_rows(file, [OffsetRow(IMPORTED, TOPIC, 1, 33, metadata="by import")])
    assert run(["log", "import", str(file), str(kafka.log_dir)]) == 0
    assert snapshots(kafka.log_dir) == snapshots(by_muster.log_dir)
    return kafka.start()


def test_kafka_itself_loads_what_muster_wrote(second_life: KafkaBroker, by_muster: Written) -> None:
    """All that DescribeGroups and OffsetFetch say is equal, and the deleted group is gone."""
    report = made.report(second_life.bootstrap, OUR_GROUPS)
    for group in OUR_GROUPS:
        assert report[group] == by_muster.report[group], group
    with WireClient(second_life.bootstrap) as client:
        assert made.offsets_of(client, IMPORTED) == {(TOPIC, 1): (33, -1, "by import")}
    assert made.listed(second_life.bootstrap) == {**by_muster.listed, IMPORTED: ("Empty", "")}


def test_kafkas_tools_report_our_groups(second_life: KafkaBroker, by_muster: Written, tmp_path: Path) -> None:
    fleet = Fleet(second_life.bootstrap, tmp_path)
    try:
        shown = fleet.run_tool(GROUPS, "--describe", "--all-groups", "--offsets")
    finally:
        fleet.close()
    rows = [line.split() for line in shown.splitlines()]
    committed = {
        (row[0], row[1], int(row[2])): int(row[3]) for row in rows if len(row) > 5 and row[3].isdigit()
    }
    assert committed == {
        (FILLER, TOPIC, 0): 1,
        **{
            (group, topic, partition): offset
            for group, (*_, offsets) in by_muster.report.items()
            for (topic, partition), (offset, *_) in offsets.items()
        },
        (IMPORTED, TOPIC, 1): 33,
    }
    owners = {row[6] for row in rows if row and row[0] == made.STABLE}
    assert owners == by_muster.report[made.STABLE][-2].keys()


def test_kafka_takes_an_import_through_the_wire(second_life: KafkaBroker, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    rows = [OffsetRow(IMPORTED_ONLINE, TOPIC, n, 70 + n, leader_epoch=0, metadata=f"m{n}") for n in range(3)]
    write_rows(file, rows)
    assert run(["log", "import", str(file), "--bootstrap", second_life.bootstrap]) == 0
    with WireClient(second_life.bootstrap) as client:
        assert made.offsets_of(client, IMPORTED_ONLINE) == {
            (TOPIC, n): (70 + n, 0, f"m{n}") for n in range(3)
        }


def test_what_kafka_leaves_when_it_is_killed_is_readable(
    second_life: KafkaBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed, Kafka leaves indexes full of zeros allotted ahead, and nothing closed. It has to come last."""
    second_life.kill()
    assert run(["log", "verify", str(second_life.log_dir)]) == 0
    capsys.readouterr()
    assert run(["log", "export", str(second_life.log_dir), "--group", IMPORTED_ONLINE]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["partition"]: row["offset"] for row in rows} == {0: 70, 1: 71, 2: 72}
