"""`muster groups` against a real server: Muster's daemon, or Apache Kafka with MUSTER_TEST_TARGET=kafka.

The commands run as users run them, as processes; groups are made with aiokafka.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.structs import TopicPartition
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from harness.daemon import MusterDaemon
from harness.kafka_broker import KafkaBroker
from harness.processes import ServerProcess, unread
from muster.closed_output import STATUS_NOT_READ
from muster.cluster import connected
from muster.groups.offsets import committed_offsets

ROOT = Path(__file__).parent.parent
PARTITIONS = 2
RECORDS_PER_PARTITION = 10
FIRST_RECORD = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)  # Within any retention.
IS_MUSTER = os.environ.get("MUSTER_TEST_TARGET", "muster") == "muster"

pytestmark = pytest.mark.xdist_group("group commands")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    kind = MusterDaemon if IS_MUSTER else KafkaBroker
    with kind(tmp_path_factory.mktemp("server"), {"group.initial.rebalance.delay.ms": "0"}) as running:
        asyncio.run(fill_topic(running.bootstrap, "orders"))
        yield running


async def fill_topic(bootstrap: str, topic: str) -> None:
    """RECORDS_PER_PARTITION records in each partition, a second apart from FIRST_RECORD on."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for partition in range(PARTITIONS):
        for number in range(RECORDS_PER_PARTITION):
            at_ms = round(FIRST_RECORD.timestamp() * 1000) + 1000 * number
            await producer.send_and_wait(topic, b"%d" % number, partition=partition, timestamp_ms=at_ms)
    await producer.stop()


@asynccontextmanager
async def member(server: ServerProcess, group: str, **more: Any) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer in the group that has its partitions."""
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=server.bootstrap, group_id=group, enable_auto_commit=False, **more
    )
    await consumer.start()
    try:
        assert consumer.assignment()
        yield consumer
    finally:
        await consumer.stop()


async def commit(server: ServerProcess, group: str, *offsets: int) -> None:
    """Leave an empty group behind that has committed these offsets, by partition."""
    async with member(server, group) as consumer:
        await consumer.commit({TopicPartition("orders", n): offset for n, offset in enumerate(offsets)})


async def groups(server: ServerProcess, *arguments: str, status: int = 0) -> Any:
    """Run `muster groups ... --json`; return what it printed, or its error where a `status` is expected."""
    command = [
        sys.executable,
        "-m",
        "muster",
        "groups",
        *arguments,
        "--json",
        "--bootstrap",
        server.bootstrap,
    ]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    if done.stdout:
        return json.loads(done.stdout)
    return f"muster: {json.loads(done.stderr.splitlines()[-1])['error']}\n"  # As it is without --json.


async def committed(server: ServerProcess, group: str) -> dict[int, int]:
    async with connected(server.bootstrap) as cluster:
        return {
            where.partition: offset for where, offset in (await committed_offsets(cluster, group)).items()
        }


async def test_list_shows_every_group_with_its_state(server: ServerProcess) -> None:
    await commit(server, "list-empty", 1)
    async with member(server, "list-live"):
        found = {group["group_id"]: group for group in await groups(server, "list")}
    assert found["list-empty"]["state"] == "Empty"
    assert found["list-live"]["state"] == "Stable"
    assert found["list-live"]["protocol_type"] == "consumer"


async def test_describe_shows_members_offsets_ends_and_lag(server: ServerProcess) -> None:
    async with member(server, "described", client_id="app", group_instance_id="static-1") as consumer:
        await consumer.commit({TopicPartition("orders", 0): 4})
        (found,) = await groups(server, "describe", "described")
    assert (found["state"], found["protocol_type"]) == ("Stable", "consumer")
    (only,) = found["members"]
    assert (only["client_id"], only["group_instance_id"]) == ("app", "static-1")
    assert only["partitions"] == ["orders-0", "orders-1"]
    assert only["client_host"] == "/127.0.0.1"
    columns = ("partition", "committed_offset", "log_end_offset", "lag")
    rows = [[row[name] for name in columns] for row in found["progress"]]
    assert rows == [[0, 4, 10, 6], [1, None, 10, None]]
    assert {row["member_id"] for row in found["progress"]} == {only["member_id"]}


@asynccontextmanager
async def consumer_member(server: ServerProcess, group: str, client_id: str) -> AsyncIterator[Consumer]:
    """A member by the consumer protocol (KIP-848) that has its partitions; its heartbeats go on by themselves."""
    settings = {"bootstrap.servers": server.bootstrap, "group.id": group, "client.id": client_id}
    consumer = Consumer({**settings, "group.protocol": "consumer", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        await asyncio.to_thread(consumer.poll, 0.1)
    try:
        yield consumer
    finally:
        await asyncio.to_thread(consumer.close)


async def test_a_consumer_group_is_described_with_its_epochs_and_targets(server: ServerProcess) -> None:
    async with consumer_member(server, "consumers", "app") as consumer:
        consumer.commit(offsets=[ClientPartition("orders", 0, 4)], asynchronous=False)
        (found,) = await groups(server, "describe", "consumers")
        listed = {group["group_id"]: group for group in await groups(server, "list")}
        text = await asyncio.to_thread(printed, server, "describe", "consumers")
    assert (found["group_type"], found["state"], found["protocol"]) == ("consumer", "Stable", "uniform")
    assert found["group_epoch"] == found["target_assignment_epoch"] > 0
    (only,) = found["members"]
    assert (only["client_id"], only["upgraded"]) == ("app", True)
    assert only["member_epoch"] == found["group_epoch"]
    assert only["partitions"] == only["target_partitions"] == ["orders-0", "orders-1"]
    rows = [[row[name] for name in ("committed_offset", "lag", "member_id")] for row in found["progress"]]
    assert rows == [[4, 6, only["member_id"]], [None, None, only["member_id"]]]
    assert listed["consumers"]["group_type"] == found["group_type"]
    assert f"type consumer, assignment strategy uniform, group epoch {found['group_epoch']}" in text
    assert "current assignment" in text


async def test_a_consumer_group_is_reset_and_deleted_once_it_has_no_members(server: ServerProcess) -> None:
    reset = ["reset-offsets", "consumers-reset", "--topic", "orders", "--to-offset", "3", "--execute"]
    async with consumer_member(server, "consumers-reset", "app"):
        refused = await groups(server, *reset, status=1)
        kept = await groups(server, "delete", "consumers-reset", status=1)
    assert refused == "muster: group consumers-reset has 1 live member (state Stable); stop it first\n"
    assert kept == {"consumers-reset": "NON_EMPTY_GROUP"}
    await groups(server, *reset)
    assert await committed(server, "consumers-reset") == {0: 3, 1: 3}
    (empty,) = await groups(server, "describe", "consumers-reset")
    assert (empty["group_type"], empty["state"], empty["members"]) == ("consumer", "Empty", [])
    assert await groups(server, "delete", "consumers-reset") == {"consumers-reset": "NONE"}
    assert (await groups(server, "describe", "consumers-reset", status=1)).startswith(
        "muster: there is no group"
    )


async def test_describing_a_group_that_is_not_there_says_so(server: ServerProcess) -> None:
    assert await groups(server, "describe", "absent", status=1) == "muster: there is no group absent\n"


async def test_delete_answers_for_each_group(server: ServerProcess) -> None:
    await commit(server, "deleted", 1)
    async with member(server, "delete-live"):
        outcome = await groups(server, "delete", "deleted", "delete-live", "delete-absent", status=1)
    assert outcome == {
        "deleted": "NONE",
        "delete-live": "NON_EMPTY_GROUP",
        "delete-absent": "GROUP_ID_NOT_FOUND",
    }
    assert "deleted" not in {group["group_id"] for group in await groups(server, "list")}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 10, 1: 10}),
        (["--to-offset", "7"], {0: 7, 1: 7}),
        (["--to-offset", "70"], {0: 10, 1: 10}),
        (["--shift-by", "-2"], {0: 1, 1: 3}),
        (["--shift-by", "100"], {0: 10, 1: 10}),
        (["--to-datetime", (FIRST_RECORD + timedelta(seconds=3.5)).isoformat()], {0: 4, 1: 4}),
        (["--to-datetime", "2100-01-01T00:00:00"], {0: 10, 1: 10}),
    ],
)
async def test_reset_moves_the_committed_offsets_within_the_log(
    server: ServerProcess, flags: list[str], expected: dict[int, int]
) -> None:
    group = f"reset{flags[0]}-{expected[0]}-{expected[1]}"
    await commit(server, group, 3, 5)
    planned = await groups(server, "reset-offsets", group, "--all-topics", *flags)
    assert planned["executed"] is False
    assert {move["partition"]: move["to_offset"] for move in planned["moves"]} == expected
    assert await committed(server, group) == {0: 3, 1: 5}  # Only shown so far.
    await groups(server, "reset-offsets", group, "--all-topics", *flags, "--execute")
    assert await committed(server, group) == expected


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("describe", "unread", "--json"),
        ("history", "unread", "--json"),
        ("reset-offsets", "unread", "--all-topics", "--to-latest"),
    ],
)
async def test_a_command_whose_output_is_not_read_ends_quietly(
    server: ServerProcess, command: tuple[str, ...]
) -> None:
    await commit(server, "unread", 3, 5)
    known = [sys.executable, "-m", "muster", "groups", *command, "--bootstrap", server.bootstrap]
    status, errors = await asyncio.to_thread(unread, known)
    assert status == STATUS_NOT_READ, errors
    assert "Traceback" not in errors
    assert "Error" not in errors


async def test_reset_of_one_partition_leaves_the_others(server: ServerProcess) -> None:
    await commit(server, "reset-one", 3, 5)
    await groups(server, "reset-offsets", "reset-one", "--topic", "orders:1", "--to-earliest", "--execute")
    assert await committed(server, "reset-one") == {0: 3, 1: 0}


async def test_a_shift_takes_what_is_committed_and_is_refused_where_a_named_partition_has_nothing(
    server: ServerProcess,
) -> None:
    """As with Kafka's own tool, which changes nothing at all then."""
    await commit(server, "shifted", 3)
    arguments = ["reset-offsets", "shifted", "--shift-by", "2", "--execute"]
    refused = await groups(server, *arguments, "--topic", "orders", status=1)
    assert refused == "muster: group shifted has committed no offset to shift: orders:1\n"
    assert await committed(server, "shifted") == {0: 3}
    await groups(server, *arguments, "--all-topics")
    assert await committed(server, "shifted") == {0: 5}
    await groups(server, *arguments, "--topic", "orders:0")
    assert await committed(server, "shifted") == {0: 7}


async def test_reset_of_all_topics_is_about_the_partitions_that_are_committed(server: ServerProcess) -> None:
    """As with Kafka's own tool: what no member has ever committed begins where members are told to begin."""
    await commit(server, "partly", 3)
    await groups(server, "reset-offsets", "partly", "--all-topics", "--to-latest", "--execute")
    assert await committed(server, "partly") == {0: 10}


async def test_reset_does_not_lead_below_the_start_of_a_log(server: ServerProcess) -> None:
    await fill_topic(server.bootstrap, "trimmed")
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    await admin.delete_records({TopicPartition("trimmed", 0): RecordsToDelete(before_offset=4)})
    await admin.close()
    await groups(server, "reset-offsets", "drawn-up", "--topic", "trimmed", "--to-offset", "1", "--execute")
    assert await committed(server, "drawn-up") == {0: 4, 1: 1}


async def test_what_is_to_stay_stays_though_the_log_is_past_it(server: ServerProcess) -> None:
    """As with Kafka's own tool: an export by --to-current is what is committed."""
    await fill_topic(server.bootstrap, "overtaken")
    reset = ("reset-offsets", "overtaken", "--topic", "overtaken")
    await groups(server, *reset, "--to-offset", "1", "--execute")
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    await admin.delete_records({TopicPartition("overtaken", 0): RecordsToDelete(before_offset=4)})
    await admin.close()
    planned = await groups(server, *reset, "--to-current")
    assert [move["to_offset"] for move in planned["moves"]] == [1, 1]


async def test_reset_gives_a_group_offsets_before_its_first_member(server: ServerProcess) -> None:
    await groups(server, "reset-offsets", "reset-new", "--topic", "orders", "--to-offset", "6", "--execute")
    assert await committed(server, "reset-new") == {0: 6, 1: 6}


async def test_reset_of_all_that_a_group_has_not_committed_moves_nothing_and_is_no_failure(
    server: ServerProcess,
) -> None:
    """As kafka-consumer-groups of Apache Kafka 4.3.1 has it: an empty table, and status 0."""
    reset = ["reset-offsets", "reset-nothing", "--all-topics", "--to-latest", "--execute"]
    assert await groups(server, *reset) == {"executed": True, "moves": [], "refused": {}}
    command = [sys.executable, "-m", "muster", "groups", *reset, "--bootstrap", server.bootstrap]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["topic", "partition", "committed", "new", "offset"])
    assert done.stderr == "nothing to move: group reset-nothing has committed no offset\n"
    listed = await groups(server, "list")
    assert "reset-nothing" not in {group["group_id"] for group in listed}


async def test_reset_of_a_group_with_members_is_refused(server: ServerProcess) -> None:
    async with member(server, "reset-live"):
        arguments = ["reset-offsets", "reset-live", "--topic", "orders", "--to-latest", "--execute"]
        sentence = await groups(server, *arguments, status=1)
    assert sentence == "muster: group reset-live has 1 live member (state Stable); stop it first\n"


async def test_reset_on_a_topic_that_is_not_there_is_refused_and_makes_none(server: ServerProcess) -> None:
    arguments = ["reset-offsets", "reset-absent", "--topic", "absent", "--topic", "orders:9", "--to-latest"]
    sentence = await groups(server, *arguments, status=1)
    assert sentence == "muster: not in the cluster: absent, orders:9\n"
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    assert "absent" not in await admin.list_topics()
    await admin.close()


async def test_history_shows_why_a_group_rebalanced(server: ServerProcess) -> None:
    if not IS_MUSTER:
        sentence = await groups(server, "history", "any", status=1)
        assert (
            sentence
            == "muster: this cluster keeps no history of its groups: it has no topic __group_events\n"
        )
        return
    await commit(server, "history", 1)
    events = await wait_for_events(server, "history", "Empty")
    assert [event["to_state"] for event in events][-1] == "Empty"
    assert {"PreparingRebalance", "CompletingRebalance", "Stable"} <= {event["to_state"] for event in events}
    assert all(event["reason"] and event["cause"] for event in events)
    for more, heading in (((), "waited for"), (("--events",), "took")):
        done = await asyncio.to_thread(history_as_text, server, "history", *more)
        assert heading in done.stdout.splitlines()[0]
        assert "member joined" in done.stdout
        assert done.stderr == ""
    done = await asyncio.to_thread(history_as_text, server, "history", "--newest", "2", "--events")
    assert len(done.stdout.splitlines()) == 1 + 2
    assert done.stderr == f"only the newest 2 of {len(events)} events are shown: see --newest\n"


async def test_history_shows_the_phases_of_a_consumer_group(server: ServerProcess) -> None:
    if not IS_MUSTER:
        pytest.skip("only Muster keeps a history")
    async with consumer_member(server, "consumers-history", "a"):
        pass
    events = await wait_for_events(server, "consumers-history", "Empty")
    assert {event["cause"] for event in events} >= {"member_joined", "member_left"}
    ends = [event for event in events if event["rebalance_cause"] is not None]
    shown = await asyncio.to_thread(printed, server, "history", "consumers-history")
    assert len(shown.splitlines()) == 1 + len(ends)


async def test_history_shows_that_a_topic_has_grown(server: ServerProcess) -> None:
    """The protocol says no more than that the leader joins again."""
    if not IS_MUSTER:
        pytest.skip("only Muster keeps a history")
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("grows", PARTITIONS, 1)])
    consumer = AIOKafkaConsumer(
        "grows", bootstrap_servers=server.bootstrap, group_id="grown", metadata_max_age_ms=200
    )
    await consumer.start()
    await admin.create_partitions({"grows": NewPartitions(PARTITIONS + 3)})
    while len(consumer.assignment()) < PARTITIONS + 3:
        await consumer.getmany(timeout_ms=100)
    await consumer.stop()
    await admin.close()
    events = await wait_for_events(server, "grown", "Empty")
    (grown,) = (event for event in events if event["cause"] == "partition_counts_changed")
    assert grown["reason"] == "partition counts changed: grows from 2 to 5"
    assert (grown["from_state"], grown["member_id"]) == ("Stable", events[0]["member_id"])


def history_as_text(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`muster groups history` as people see it."""
    return as_text(server, "history", *arguments)


def as_text(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `muster groups ...` as people do."""
    command = [sys.executable, "-m", "muster", "groups", *arguments, "--bootstrap", server.bootstrap]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)


def printed(server: ServerProcess, *arguments: str) -> str:
    return as_text(server, *arguments).stdout


async def wait_for_events(server: ServerProcess, group: str, last_state: str) -> list[dict[str, Any]]:
    """The group's history, once it has come to `last_state`: events reach the topic a little later."""
    for _ in range(50):
        events: list[dict[str, Any]] = await groups(server, "history", group)
        if events and events[-1]["to_state"] == last_state:
            return events
        await asyncio.sleep(0.1)
    raise AssertionError(f"no event to {last_state}: {events}")
