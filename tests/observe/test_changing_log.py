"""`muster observe` beside an Apache Kafka whose `__consumer_offsets` changes under it.

Records are deleted ahead of the reading, partitions are added, a record is of a version that is not known, and the
only trace of an earlier run is what it wrote to `__group_events`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from coordinator.effects import GroupEvent
from coordinator.groups.record_codec import encode_record
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer, unique
from harness.processes import wait_until
from harness.wire import WireClient
from muster.cli import run
from muster.cluster import connected
from muster.observe.follow import Follower, Progress, find_log
from muster.observe.reading import read_stored_history
from muster.observe.store import STATE, open_events
from tests.clients.conftest import QUICK
from tests.clients.fleet import ROOT
from tests.observe.offsets_log import generation, member
from tests.server.joining import join, leave, sync

pytestmark = pytest.mark.xdist_group("changing-log")

OFFSETS: Final = "__consumer_offsets"
DEADLINE_S: Final = 60.0
JOIN_VERSION, SYNC_VERSION, LEAVE_VERSION = (
    3,
    2,
    3,
)  # A first JoinGroup is answered with a generation up to version 3.
SOON: Final = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"}
FOR_EVER: Final = "-1"
INTERNAL: Final = "__admin_client"
"""The client id whose records Kafka takes for its internal topics."""


@pytest.fixture(scope="module")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that deletes records of its log of offsets when it is told to."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), QUICK | SOON) as broker:
        watcher = Observer(broker.bootstrap)
        watcher.commit(unique("group"), watcher.create_topic("observed", 1), {0: 0})  # Then there is the log.
        configure(broker, "cleanup.policy", "delete")
        configure(broker, "retention.ms", FOR_EVER)
        yield broker


def configure(broker: KafkaBroker, name: str, value: str) -> None:
    """Change a setting of the log."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=[entry])
    administer(broker, lambda admin: admin.incremental_alter_configs([resource]))


def administer(broker: KafkaBroker, ask: Callable[[AdminClient], dict[Any, Any]]) -> None:
    """Ask an admin client, and wait until all of it is done."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for done in ask(admin).values():
        done.result(DEADLINE_S)


class Leader:
    """The only member of a group of its own, which has a new generation whenever it joins with other metadata."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.group = unique("group")
        self._client = WireClient(broker.bootstrap)
        self._member_id = ""
        self._joined = 0

    def generations(self, count: int) -> None:
        for _ in range(count):
            self._joined += 1
            request = join(self._member_id)
            request.group_id, request.session_timeout_ms = self.group, 300_000
            request.protocols[0].metadata = str(self._joined).encode()
            joined = self._client.ask(request, JOIN_VERSION)
            self._member_id = joined.member_id
            synced = sync(joined)
            synced.group_id = self.group
            self._client.ask(synced, SYNC_VERSION)

    def leave(self) -> None:
        """Leave, so that nothing of this group is written any more when the next test begins."""
        request = leave(self._member_id)
        request.group_id = self.group
        self._client.ask(request, LEAVE_VERSION)
        self._client.close()


@pytest.fixture
def leader(kafka: KafkaBroker) -> Iterator[Leader]:
    made = Leader(kafka)
    yield made
    made.leave()


def observe(broker: KafkaBroker, *options: str) -> None:
    assert run(["observe", "--bootstrap", broker.bootstrap, "--until-end", *options]) == 0


def events_of(store: Path, group: str) -> tuple[GroupEvent, ...]:
    return read_stored_history(store, group).history.events if (store / STATE).exists() else ()


def is_read(store: Path, broker: KafkaBroker) -> bool:
    """Whether a checkpoint of the store is at the end of every partition that has a record."""
    if not (store / STATE).exists():
        return False
    positions = open_events(store).state.get("positions", {})
    return all(positions.get(str(each), 0) >= end for each, (_, end) in watermarks(broker).items() if end)


def watermarks(broker: KafkaBroker) -> dict[int, tuple[int, int]]:
    """The first offset and the end of each partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "log_level": 0})
    partitions = consumer.list_topics(OFFSETS, timeout=20).topics[OFFSETS].partitions
    found = {
        each: consumer.get_watermark_offsets(TopicPartition(OFFSETS, each), timeout=20) for each in partitions
    }
    consumer.close()
    return found


def delete_all(broker: KafkaBroker) -> None:
    """Have the broker delete all records that there are. (It refuses DeleteRecords for this topic.)"""
    configure(broker, "retention.ms", "1")
    wait_until(
        lambda: all(begin == end for begin, end in watermarks(broker).values()), "all is gone", DEADLINE_S
    )
    configure(broker, "retention.ms", FOR_EVER)


def gaps(events: tuple[GroupEvent, ...]) -> list[str]:
    return [event.reason for event in events if event.cause == "generations_missing"]


@pytest.mark.timeout(180)
def test_what_was_deleted_ahead_of_the_reading_is_a_gap_and_nothing_is_invented(
    kafka: KafkaBroker, leader: Leader, tmp_path: Path
) -> None:
    """Once while it is stopped in the midst, by a signal that it does not notice, and once between two runs."""
    store = tmp_path / "store"
    leader.generations(1)
    command = [sys.executable, "-m", "muster", "observe", "--bootstrap", kafka.bootstrap]
    with subprocess.Popen([*command, "--store", str(store)], cwd=ROOT, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: is_read(store, kafka), "the log is read", DEADLINE_S)
            process.send_signal(signal.SIGSTOP)
            leader.generations(3)
            delete_all(kafka)
            leader.generations(1)
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: is_read(store, kafka), "the log is read again", DEADLINE_S)
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
    leader.generations(2)
    delete_all(kafka)
    leader.generations(1)
    observe(kafka, "--store", str(store))
    events = events_of(store, leader.group)
    listed = [each.generation_id for each in events if each.observed and each.observed.members is not None]
    assert {1, 5, 8} <= set(listed)
    assert {3, 4, 6, 7}.isdisjoint(listed), "2 may have been on its way already"
    why = "not on the log, compacted or never stored"
    first = "3 to 4" if 2 in listed else "2 to 4"
    assert gaps(events) == [f"generations are missing: {each}, {why}" for each in (first, "6 to 7")]
    assert {event.cause for event in events} == {
        "member_joined", "assignment_stored", "generations_missing", "cause_unknown",
    }  # fmt: skip


def test_a_record_of_a_later_version_is_an_event_and_reading_goes_on(
    kafka: KafkaBroker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store, group, partition = tmp_path / "store", unique("group"), added_partition(kafka)
    first, second, third = (
        encode_record(generation(number, member("app-1"), group=group)) for number in (1, 2, 3)
    )
    write(kafka, partition, *first)
    write(kafka, partition, second[0], b"\x00\x63" + (second[1] or b"")[2:])
    write(kafka, partition, *third)
    observe(kafka, "--store", str(store))
    assert capfd.readouterr().err == "1 record could not be decoded\n"
    events = events_of(store, group)
    assert [event.cause for event in events] == [
        "member_joined", "assignment_stored", "record_not_read",
        "generations_missing", "cause_unknown", "assignment_stored",
    ]  # fmt: skip
    assert "99" in events[2].reason
    assert gaps(events) == ["generations are missing: 2, not readable, or never stored"]


def added_partition(broker: KafkaBroker) -> int:
    """Add a partition to the log; return its number. No coordinator of this broker writes it before a restart."""
    count = len(watermarks(broker))
    administer(broker, lambda admin: admin.create_partitions([NewPartitions(OFFSETS, count + 1)]))
    wait_until(lambda: len(watermarks(broker)) > count, "the partition is there", DEADLINE_S)
    return count


def write(broker: KafkaBroker, partition: int, key: bytes, value: bytes | None) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": INTERNAL,
            "log_level": 0,
            "partitioner": "random",
        }
    )
    failed: list[Any] = []
    producer.produce(
        OFFSETS, value, key, partition, on_delivery=lambda error, _: failed.append(error) if error else None
    )
    assert (producer.flush(20), failed) == (0, [])


def test_on_the_topic_alone_a_restart_goes_on_behind_its_last_event(
    kafka: KafkaBroker, leader: Leader, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    for _ in range(2):
        leader.generations(2)
        observe(kafka, "--to-topic")
        observe(kafka, "--store", str(store))
    observe(kafka, "--to-topic")
    capfd.readouterr()
    assert run(["groups", "history", leader.group, "--json", "--bootstrap", kafka.bootstrap]) == 0
    of_topic = json.loads(capfd.readouterr().out)
    assert run(["groups", "history", leader.group, "--json", "--store", str(store)]) == 0
    assert of_topic == json.loads(capfd.readouterr().out)
    values = [message.value() for message in Observer(kafka.bootstrap).read("__group_events", 0)]
    assert len(values) == len(set(values)), "nothing is there twice"


@dataclass
class Kept:
    """A sink that keeps events in memory."""

    events: list[GroupEvent] = field(default_factory=list)
    is_checkpoint_due: bool = False

    async def write(self, events: list[GroupEvent]) -> None:
        self.events += events

    async def checkpoint(self, dump: Callable[[], dict[str, Any]]) -> None:
        """Nothing is kept beyond the test."""


def test_partitions_that_are_added_are_read_and_nothing_is_read_twice(kafka: KafkaBroker) -> None:
    """The last one: the broker is restarted, and takes on the partitions that were added."""
    leader = Leader(kafka)
    leader.generations(2)
    leader.leave()
    count = len(watermarks(kafka))
    sink, group, later = Kept(), unique("group"), unique("group")

    async def follow() -> None:
        stop = asyncio.Event()
        async with connected(kafka.bootstrap) as cluster:
            log = await find_log(cluster)
            assert log is not None
            assert len(log.partitions) == count
            follower = Follower(log, Progress(), sink, look_every_s=0.0)
            running = asyncio.create_task(follower.run(cluster, stop, from_latest=False, until_end=False))
            await asyncio.to_thread(grow)
            await asyncio.to_thread(
                wait_until, lambda: running.done() or has(later), "reading goes on", DEADLINE_S
            )
            stop.set()
            await running

    def grow() -> None:
        wait_until(lambda: has(leader.group), "the others are read", DEADLINE_S)
        assert added_partition(kafka) == count
        write(kafka, count, *encode_record(generation(1, member("app-1"), group=group)))
        wait_until(lambda: has(group), "the new partition is read", DEADLINE_S)
        kafka.restart()  # Whoever looks for partitions meanwhile finds no broker, and looks again.
        write(kafka, count, *encode_record(generation(1, member("app-1"), group=later)))

    def has(name: str) -> bool:
        return any(event.group_id == name and event.to_state == "Stable" for event in sink.events)

    asyncio.run(follow())
    places = [(each.observed, each.cause, each.reason) for each in sink.events]
    assert len(places) == len(set(map(repr, places))), "nothing is read twice"
    added = [each.observed.partition for each in sink.events if each.group_id == group and each.observed]
    assert set(added) == {count}
