"""`muster observe` beside a real Apache Kafka, with clients of both protocols that join, leave and are killed.

The judge is the log itself, read by an independent consumer: every generation that was stored must be found with
its members, numbers without a record as gaps; and neither a record nor a request that writes may come from it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import IO, Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from coordinator.effects import GroupEvent
from coordinator.groups.consumer.record_schemas import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
)
from coordinator.groups.record_codec import decode_record
from coordinator.groups.record_schemas import GroupMetadataKey
from coordinator.history.events import encode_event
from coordinator.history.rebalances import RebalanceFold, known_ms
from harness.kafka_broker import KafkaBroker
from harness.observer import Observer, unique
from harness.processes import free_port, wait_until
from harness.wire import WireClient
from muster.cli import run
from muster.closed_output import STATUS_NOT_READ
from muster.connection import Endpoint
from muster.groups.rebalance_views import rebalance_views
from muster.observe.commands import Extent, Output, observe
from muster.observe.reading import read_stored_history
from muster.observe.store import STATE, open_events
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.clients.conftest import QUICK
from tests.clients.fleet import ROOT, Fleet, Worker
from tests.server.joining import beat, join, leave, sync

pytestmark = pytest.mark.xdist_group("beside-kafka")

OFFSETS = "__consumer_offsets"
DEADLINE_S = 60.0
JOIN_VERSION, SYNC_VERSION, LEAVE_VERSION = (
    3,
    2,
    3,
)  # A first JoinGroup is answered with a generation up to version 3.
BEAT_VERSION = 3
LEADERLESS = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
"""What a partition answers that was made a moment ago."""
READS = {1: "Fetch", 2: "ListOffsets", 3: "Metadata", 18: "ApiVersions"}

Generations = dict[int, set[str]]
"""The client ids of the members of each generation."""


@pytest.fixture(scope="module")
def kafka(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), QUICK) as broker:
        yield broker


@contextmanager
def observing(
    broker: KafkaBroker, *options: str, output: int | IO[str] = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """`muster observe` as a process; asked to end if it still runs."""
    command = [sys.executable, "-m", "muster", "observe", "--bootstrap", broker.bootstrap, *options]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=output, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    """End it by a signal; return what it said."""
    process.send_signal(number)
    said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, said
    return said


def log_records(bootstrap: str) -> Iterator[tuple[Any, Any]]:
    """All records of the log as they are now, by a consumer of another library."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    partitions = consumer.list_topics(OFFSETS, timeout=20).topics[OFFSETS].partitions
    try:
        for partition in partitions:
            begin, end = consumer.get_watermark_offsets(TopicPartition(OFFSETS, partition), timeout=20)
            consumer.assign([TopicPartition(OFFSETS, partition, OFFSET_BEGINNING)])
            at = begin
            while at < end and (message := consumer.poll(20)) is not None:
                at = (message.offset() or 0) + 1
                if record := decode_record(message.key(), message.value()):
                    yield record.key, record.value
    finally:
        consumer.close()


def stored_generations(bootstrap: str, group: str) -> Generations:
    """The generations of a group that the log has, each with its members, as the judge reads them."""
    found: Generations = {}
    members: dict[str, str] = {}
    for key, value in log_records(bootstrap):
        match key:
            case GroupMetadataKey() if key.group == group and value is not None and value.generation:
                found[value.generation] = {member.client_id for member in value.members}
            case ConsumerGroupMemberMetadataKey() if key.group_id == group:
                members.pop(key.member_id, None)
                if value is not None:
                    members[key.member_id] = value.client_id
            case ConsumerGroupMetadataKey() if key.group_id == group and value is not None:
                found[value.epoch] = set(members.values())
    return found


def observed_generations(events: tuple[GroupEvent, ...]) -> Generations:
    """The generations that events list, each with its members."""
    return {
        event.generation_id: {str(member["client_id"]) for member in event.observed.members}
        for event in events
        if event.observed is not None and event.observed.members is not None
    }


def member_ids(events: tuple[GroupEvent, ...]) -> set[str]:
    """The ids of the members of the newest generation that events list."""
    listing = [event for event in events if event.observed is not None and event.observed.members is not None]
    newest = max(listing, key=lambda event: event.generation_id)
    assert newest.observed is not None
    return {str(member["member_id"]) for member in newest.observed.members or ()}


def missing_generations(events: tuple[GroupEvent, ...]) -> set[int]:
    gaps = [event.observed.missing_generations for event in events if event.observed is not None]
    return {number for gap in gaps if gap is not None for number in range(gap[0], gap[1] + 1)}


class Script:
    """A group whose members come and go, each step waited for in the store."""

    def __init__(self, broker: KafkaBroker, fleet: Fleet, store: Path, family: str, protocol: str) -> None:
        self.group = unique("group")
        self._observer = Observer(broker.bootstrap)
        self.topic = self._observer.create_topic("observed", 4)
        self._fleet, self._store, self._family, self._protocol = fleet, store, family, protocol

    def start(self, name: str) -> Worker:
        config = {"group": self.group, "topics": [self.topic], "client_id": name}
        return self._fleet.start(self._family, "member", protocol=self._protocol, **config)

    def wait(self, *clients: str) -> tuple[GroupEvent, ...]:
        """Wait until the newest generation in the store has these members, and is settled; return all events."""

        def found() -> tuple[GroupEvent, ...] | None:
            events = self.events()
            generations = observed_generations(events)
            is_there = bool(generations) and generations[max(generations)] == set(clients)
            return events if is_there and events[-1].to_state in ("Stable", "Empty") else None

        events = wait_until(found, f"{self.group} has the members {clients}", DEADLINE_S) or ()
        if clients:
            described = self._observer.describe(self.group).members
            assert member_ids(events) == {member.member_id for member in described}, "as Kafka describes them"
        return events

    def events(self) -> tuple[GroupEvent, ...]:
        """All that the store has of the group, once there is a store."""
        if not (self._store / STATE).exists():
            return ()
        return read_stored_history(self._store, self.group).history.events


@pytest.fixture
def fleet(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Fleet]:
    clients = Fleet(kafka.bootstrap, tmp_path)
    yield clients
    clients.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("family", ["confluent", "java"])
def test_every_generation_is_found_with_its_members(
    kafka: KafkaBroker, fleet: Fleet, tmp_path: Path, family: str, protocol: str
) -> None:
    """Members join, close and are killed; it is ended in the midst, by a signal or a crash, and started again."""
    store = tmp_path / "store"
    script = Script(kafka, fleet, store, family, protocol)
    with observing(kafka, "--store", str(store)) as process:
        first = script.start("app-1")
        script.wait("app-1")
        second = script.start("app-2")
        script.wait("app-1", "app-2")
        if family == "java":
            process.kill()
        else:
            stopped(process, signal.SIGTERM)
        third = script.start("app-3")
        third.wait_for_event("owns")
    with observing(kafka, "--store", str(store)) as process:
        script.wait("app-1", "app-2", "app-3")
        second.stop()
        script.wait("app-1", "app-3")
        third.kill()
        script.wait("app-1")
        first.stop()
        events = script.wait()
        stopped(process, signal.SIGINT)
    stored = stored_generations(kafka.bootstrap, script.group)
    assert observed_generations(events) == stored
    assert missing_generations(events) == set(range(min(stored), max(stored))) - stored.keys()
    assert len({encode_event(event) for event in events}) == len(events), "nothing is there twice"
    assert_told(events)
    fold = RebalanceFold()
    rebalances = [rebalance for event in events for rebalance in fold.add(event)]
    assert fold.running is None
    if protocol == "classic":
        assert [rebalance.generation_id for rebalance in rebalances] == sorted(stored)


def assert_told(events: tuple[GroupEvent, ...]) -> None:
    """Each member joined by an event of its own, and is gone by one that does not say why."""
    joins = [event.client_id for event in events if event.cause == "member_joined"]
    gone = [event.client_id for event in events if event.cause == "member_gone"]
    assert joins == ["app-1", "app-2", "app-3"]
    assert gone == ["app-2", "app-3", "app-1"]
    assert {event.reason.partition(":")[0] for event in events if event.cause == "member_gone"} == {
        "member left or expired"
    }
    took = [known_ms(view.rebalance) for view in rebalance_views(events) if view.rebalance]
    assert all(0 <= each < DEADLINE_S * 1_000 for each in took)


def test_a_generation_whose_assignment_never_came_is_a_gap(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The leader joins a second and a third time, with another subscription each, and does not sync the second."""
    watcher = Observer(kafka.bootstrap)
    watcher.commit(
        unique("group"), watcher.create_topic("observed", 1), {0: 0}
    )  # From then on there are groups.
    with WireClient(kafka.bootstrap) as client:
        first = client.ask(staying(), JOIN_VERSION)
        client.ask(sync(first), SYNC_VERSION)
        for metadata in (b"second", b"third"):
            again = staying(first.member_id)
            again.protocols[0].metadata = metadata
            latest = client.ask(again, JOIN_VERSION)
        client.ask(sync(latest), SYNC_VERSION)
        store = tmp_path / "store"
        output = Output(store=store)
        assert (
            observe(
                endpoint=Endpoint(bootstrap=kafka.bootstrap), output=output, extent=Extent(until_end=True)
            )
            == 0
        )
        stored = stored_generations(kafka.bootstrap, "m")
        client.ask(leave(first.member_id), LEAVE_VERSION)  # Else its expiry is written while others compare.
    events = read_stored_history(store, "m").history.events
    assert observed_generations(events).keys() == stored.keys() == {1, 3}
    assert [event.reason for event in events if event.cause == "generations_missing"] == [
        "generations are missing: 2, never stored, as no assignment of them came"
    ]
    with observing(kafka, "--until-end") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(DEADLINE_S) == STATUS_NOT_READ, "as for any program whose output is not read"
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_ids_and_leader_are_those_that_the_members_were_told(kafka: KafkaBroker, tmp_path: Path) -> None:
    """The first to join leads, whose id comes after the other's by the alphabet."""
    group = unique("group")
    watcher = Observer(kafka.bootstrap)
    watcher.commit(group, watcher.create_topic("observed", 1), {0: 0})
    with (
        WireClient(kafka.bootstrap, "z") as first,
        WireClient(kafka.bootstrap, "a") as second,
        ThreadPoolExecutor() as pool,
    ):
        alone = first.ask(staying(group_id=group), JOIN_VERSION)
        first.ask(synced(alone, group), SYNC_VERSION)
        waits = pool.submit(second.ask, staying(group_id=group), JOIN_VERSION)
        alive = beat(alone)
        alive.group_id = group
        joins = ErrorCode.REBALANCE_IN_PROGRESS
        wait_until(lambda: first.ask(alive, BEAT_VERSION).error_code == joins, "the second joins", DEADLINE_S)
        told = first.ask(staying(alone.member_id, group), JOIN_VERSION), waits.result()
        for client, answer in zip((first, second), told, strict=True):
            client.ask(synced(answer, group), SYNC_VERSION)
        end = Extent(until_end=True)
        assert (
            observe(endpoint=Endpoint(bootstrap=kafka.bootstrap), output=Output(store=tmp_path), extent=end)
            == 0
        )
        for client, answer in zip((first, second), told, strict=True):
            gone = leave(answer.member_id)
            gone.group_id = group
            client.ask(gone, LEAVE_VERSION)
    events = read_stored_history(tmp_path, group).history.events
    assert member_ids(events) == {answer.member_id for answer in told}
    leaders = {event.observed.leader_id for event in events if event.generation_id == 2 and event.observed}
    assert leaders - {None} == {told[1].leader} == {told[0].member_id}
    assert told[0].member_id > told[1].member_id, "else the smallest id would do"


def staying(member_id: str = "", group_id: str = "m") -> JoinGroupRequest:
    """A join for a session that outlasts the test: its expiry would be on the log as well."""
    request = join(member_id, group_id)
    request.session_timeout_ms = 300_000
    return request


def synced(joined: Any, group: str) -> SyncGroupRequest:
    request = sync(joined)
    request.group_id = group
    return request


def ends(bootstrap: str) -> Mapping[str, int]:
    """The end of every partition of every topic. (A consumer would look for its coordinator, which makes one.)"""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = {
        TopicPartition(name, number): OffsetSpec.latest()
        for name, topic in admin.list_topics(timeout=20).topics.items()
        for number in topic.partitions
    }
    return {f"{where.topic}-{where.partition}": offset for where, offset in all_offsets(admin, asked).items()}


def all_offsets(admin: AdminClient, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
    """What each partition answers; one whose leader has not taken it over yet is asked again, for 20 s."""
    offsets: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + 20
    while left := {where: spec for where, spec in asked.items() if where not in offsets}:
        for where, done in admin.list_offsets(left).items():
            try:
                offsets[where] = done.result(20).offset
            except KafkaException as error:
                code = error.args[0].code()
                if code not in LEADERLESS or time.monotonic() > deadline:
                    raise
        if len(offsets) < len(asked):
            time.sleep(0.1)
    return offsets


def logs(broker: KafkaBroker) -> Mapping[Path, str]:
    """Every file of the broker's logs with a digest of its content, but for the log of the cluster's metadata.

    That one has a record of its own controller twice a second, and offsets of which none is a topic's.
    """
    return {
        path: sha256(path.read_bytes()).hexdigest()
        for path in broker.log_dir.glob("*-*/*.log")
        if path.parent.name != "__cluster_metadata-0"
    }


def api_keys_asked(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The API keys of all requests that aiokafka sends from now on."""
    asked: set[int] = set()
    send: Any = AIOKafkaConnection.send

    def noting(self: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Any:
        asked.add(request.prepare(self._versions).API_KEY)
        return send(self, request, expect_response)

    monkeypatch.setattr(AIOKafkaConnection, "send", noting)
    return asked


def groups_of_the_log(bootstrap: str) -> set[str]:
    return {getattr(key, "group", None) or key.group_id for key, _ in log_records(bootstrap)}


def of_others(found: Mapping[Any, Any]) -> dict[Any, Any]:
    """What was found of all partitions but those of the groups' own log."""
    return {where: what for where, what in found.items() if OFFSETS not in str(where)}


@pytest.mark.timeout(240)
def test_while_members_join_and_are_killed_it_sends_nothing_that_writes(
    kafka: KafkaBroker, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows here, so that its requests are seen, until a signal; the members are steered beside it."""
    script = Script(kafka, fleet, tmp_path / "store", "confluent", "classic")
    watcher = Observer(kafka.bootstrap)
    watcher.commit(unique("group"), script.topic, {0: 0})
    asked, is_over = api_keys_asked(monkeypatch), Event()
    before, files, groups = ends(kafka.bootstrap), logs(kafka), groups_of_the_log(kafka.bootstrap)

    def members_come_and_go() -> None:
        try:
            first = script.start("app-1")
            script.wait("app-1")
            second = script.start("app-2")
            script.wait("app-1", "app-2")
            second.kill()
            script.wait("app-1")
            first.stop()
            script.wait()
        finally:
            if not is_over.is_set():
                os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor() as pool:
        steered = pool.submit(members_come_and_go)
        status = observe(
            endpoint=Endpoint(bootstrap=kafka.bootstrap),
            output=Output(store=tmp_path / "store"),
            extent=Extent(),
        )
        is_over.set()
        steered.result()
    assert status == 0
    assert asked <= READS.keys()
    assert of_others(ends(kafka.bootstrap)) == of_others(before)
    assert of_others(logs(kafka)) == of_others(files)
    assert groups_of_the_log(kafka.bootstrap) - groups == {script.group}, "that is its members' own"


def test_with_a_store_of_its_own_it_sends_nothing_that_writes(
    kafka: KafkaBroker, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(kafka, fleet, tmp_path / "unused", "confluent", "classic")
    script.start("app-1").wait_for_event("owns")
    fleet.close()
    watcher = Observer(kafka.bootstrap)
    wait_until(lambda: watcher.state(script.group) == "EMPTY", "the killed member expires", DEADLINE_S)
    asked = api_keys_asked(monkeypatch)
    before, files = ends(kafka.bootstrap), logs(kafka)
    assert {OFFSETS, script.topic} <= {each.rpartition("-")[0] for each in before}
    assert {each.parent.name for each in files} >= before.keys()
    store = tmp_path / "store"
    status = observe(
        endpoint=Endpoint(bootstrap=kafka.bootstrap),
        output=Output(store=store),
        extent=Extent(until_end=True),
    )
    assert (status, ends(kafka.bootstrap), logs(kafka)) == (0, before, files)
    assert asked <= READS.keys()
    assert read_stored_history(store, script.group).history.events[-1].to_state == "Empty"


def test_the_topic_has_the_same_events_and_the_command_reads_both(
    kafka: KafkaBroker, fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store, printed = tmp_path / "store", tmp_path / "printed"
    script = Script(kafka, fleet, store, "confluent", "consumer")
    options = ("--store", str(store), "--to-topic", "--json")
    with printed.open("w") as file, observing(kafka, *options, output=file) as process:
        worker = script.start("app-1")
        script.wait("app-1")
        worker.stop()
        script.wait()
        stopped(process, signal.SIGINT)
    lines = [json.loads(line) for line in printed.read_text().splitlines()]
    shown = []
    for where in (["--bootstrap", kafka.bootstrap], ["--store", str(store)]):
        assert run(["groups", "history", script.group, "--json", *where]) == 0
        shown.append(json.loads(capfd.readouterr().out))
    assert shown[0] == shown[1] == [line for line in lines if line["group_id"] == script.group]
    assert [event["cause"] for event in shown[0]][-1] == "member_gone"


def test_only_what_comes_is_reported_and_compared_with_what_was(
    kafka: KafkaBroker, fleet: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    script = Script(kafka, fleet, store, "confluent", "consumer")
    first = script.start("app-1")
    first.wait_for_event("owns")
    watcher = Observer(kafka.bootstrap)
    wait_until(lambda: watcher.owned(script.group), "the broker has heard that it owns", DEADLINE_S)
    with observing(kafka, "--store", str(store), "--from", "latest") as process:
        wait_until(lambda: is_at(store, ends(kafka.bootstrap)), "the log is read", DEADLINE_S)
        assert script.events() == ()
        script.start("app-2")
        events = script.wait("app-1", "app-2")
        stopped(process, signal.SIGTERM)
    assert [event.cause for event in events][:1] == ["member_joined"]
    assert events[0].client_id == "app-2"


def is_at(store: Path, where: Mapping[str, int]) -> bool:
    """Whether the checkpoint of a store has read the whole log, which nobody writes now."""
    if not (store / STATE).exists():
        return False
    positions = open_events(store).state.get("positions", {})
    return all(
        positions.get(name.removeprefix(f"{OFFSETS}-"), 0) >= end
        for name, end in where.items()
        if name.startswith(OFFSETS)
    )


@pytest.mark.timeout(180)
def test_a_cluster_that_had_no_group_yet_is_waited_for(java: None, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "kafka", QUICK) as broker:
        with observing(broker, "--until-end") as process:
            said = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0
            assert said == ("", "this cluster has no topic __consumer_offsets: it has had no group yet\n")
        fleet = Fleet(broker.bootstrap, tmp_path)
        store = tmp_path / "store"
        script = Script(broker, fleet, store, "confluent", "classic")
        with observing(broker, "--store", str(store)) as process:
            assert process.stderr is not None
            assert process.stderr.readline().endswith("yet: waiting for its first group\n")
            assert OFFSETS not in {name.rpartition("-")[0] for name in ends(broker.bootstrap)}
            script.start("app-1")
            assert [event.generation_id for event in script.wait("app-1")] == [1, 1]
            stopped(process, signal.SIGTERM)
        fleet.close()


def test_a_cluster_that_does_not_answer_is_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "--bootstrap", f"127.0.0.1:{free_port()}"]) == 1
    assert "no Kafka broker answers" in capfd.readouterr().err
