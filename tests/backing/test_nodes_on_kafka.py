"""Nodes as users start them, several on one Kafka: who owns what, who takes over, and what they refuse."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from coordinator.backing.kafka.claim_records import read_claim
from harness.daemon import ROOT, MusterDaemon
from harness.http_client import get
from harness.kafka_broker import KafkaBroker
from harness.messages import key_of, value_of
from harness.observer import Observer, unique
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records.records import Record
from tests.backing.node_processes import (
    FIRST_NODE_ID,
    NOT_NOW,
    PARTITIONS,
    PATIENCE_S,
    ask_coordinator,
    commit,
    commit_at_its_coordinator,
    commit_request,
    coordinator_of,
    ended,
    fetch_at_its_coordinator,
    fetched,
    groups_of_all_shards,
    node,
    owners,
    wait_for_owners,
)
from tests.metrics.world import samples, value

pytestmark = pytest.mark.xdist_group("backing")

ONE, TWO = (FIRST_NODE_ID + number for number in (1, 2))


class Stage:
    """A Kafka with the topic `orders`, and nodes of one log on it."""

    def __init__(self, kafka: KafkaBroker, folder: Path, running: ExitStack) -> None:
        self.kafka = kafka
        self.folder = folder
        self.topic = unique("muster")
        self._running = running

    def start(self, node_id: int, **overrides: str) -> MusterDaemon:
        settings = {name.replace("_", "."): value for name, value in overrides.items()}
        return self._running.enter_context(self.prepared(node_id, **settings))

    def prepared(self, node_id: int, **settings: str) -> MusterDaemon:
        return node(self.folder, self.kafka.bootstrap, self.topic, node_id, settings)

    def refusal(self, node_id: int, **settings: str) -> tuple[int, str]:
        """How a node ends that does not start, and what it says."""
        done = ended(self.prepared(node_id, **settings))
        return done.returncode, done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def orders(kafka: KafkaBroker) -> Observer:
    observer = Observer(kafka.bootstrap)
    observer.create_named_topic("orders", 4)
    return observer


@pytest.fixture
def stage(kafka: KafkaBroker, orders: Observer, tmp_path: Path) -> Iterator[Stage]:
    del orders
    with ExitStack() as running:
        yield Stage(kafka, tmp_path, running)


# Who owns what.


def test_two_nodes_share_the_shards_and_name_each_other(stage: Stage) -> None:
    first = stage.start(1)
    wait_for_owners([first], {ONE})
    second = stage.start(2, broker_rack="west")
    both = [first, second]
    wait_for_owners(both, {ONE, TWO})
    assert Counter(owners(first.bootstrap)) == {ONE: PARTITIONS // 2, TWO: PARTITIONS // 2}
    for group in groups_of_all_shards():
        named = coordinator_of(second.bootstrap, group)
        owner, other = (first, second) if named.node_id == ONE else (second, first)
        assert f"{named.host}:{named.port}" == owner.bootstrap
        with WireClient(owner.bootstrap) as theirs, WireClient(other.bootstrap) as others:
            assert commit(theirs, group, 7) == ErrorCode.NONE
            assert fetched(theirs, group) == (ErrorCode.NONE, {0: 7})
            assert commit(others, group, 8) == ErrorCode.NOT_COORDINATOR
            assert fetched(others, group) == (ErrorCode.NOT_COORDINATOR, {})
    with WireClient(first.bootstrap) as client:
        cluster = client.ask(DescribeClusterRequest(endpoint_type=1), 1)
    assert [(each.broker_id, each.rack) for each in cluster.brokers] == [(ONE, None), (TWO, "west")]
    assert cluster.cluster_id


def test_each_node_lists_its_own_groups_so_a_tool_sees_all(stage: Stage) -> None:
    nodes = [stage.start(1), stage.start(2)]
    wait_for_owners(nodes, {ONE, TWO})
    groups = groups_of_all_shards()
    for group in groups:
        commit_at_its_coordinator(nodes, group, 1)
    listed = []
    for each in nodes:
        with WireClient(each.bootstrap) as client:
            listed += [group.group_id for group in client.ask(ListGroupsRequest(), 4).groups]
    assert sorted(listed) == sorted(groups)
    command = [sys.executable, "-m", "muster", "groups", "list", "--json", "--bootstrap", nodes[0].bootstrap]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert all(group in shown.stdout for group in groups)


def _is_ready(port: int) -> bool:
    return get(port, "/readyz").status == 200


def test_nodes_show_whose_each_shard_is_and_how_long_leases_run(stage: Stage) -> None:
    ports = {ONE: free_port(), TWO: free_port()}
    nodes = [
        stage.start(number, muster_http_listeners=f"http://{HOST}:{port}")
        for number, port in enumerate(ports.values(), start=1)
    ]
    wait_for_owners(nodes, {ONE, TWO})
    named = owners(nodes[0].bootstrap)
    for node_id, port in ports.items():
        wait_until(partial(_is_ready, port), "it serves its own", PATIENCE_S)
        page = get(port, "/api/v1/nodes").json
        assert (page["node"], [each["node"] for each in page["nodes"]]) == (node_id, [ONE, TWO])
        assert [each["owner"] for each in page["shards"]] == named
        for shard in page["shards"]:
            is_own = shard["owner"] == node_id
            assert shard["state"] == ("active" if is_own else "following")
            assert shard["lease_ms"] <= 3_000 if is_own else shard["lease_ms"] is None
        found = samples(get(port, "/metrics").body.decode())
        assert value(found, "muster_nodes") == 2
        assert value(found, "muster_node_claims", node=str(node_id)) == named.count(node_id)
        assert value(found, "muster_node_shards", state="active") == named.count(node_id)
        appends = value(found, "muster_flush_seconds_count", log="kafka")
        assert appends is not None
        assert appends >= named.count(node_id), "each has claimed its shards"
    group = groups_of_all_shards()[0]
    commit_at_its_coordinator(nodes, group, 1)
    other = TWO if named[0] == ONE else ONE
    assert get(ports[named[0]], "/api/v1/group", id=group).json["state"] == "Empty"
    elsewhere = get(ports[other], "/api/v1/group", id=group)
    assert (elsewhere.status, elsewhere.json["detail"]) == (
        421,
        f"Shard 0, which has this group, is at node {named[0]}.",
    )
    urls = [part for port in ports.values() for part in ("--http", f"http://{HOST}:{port}")]
    command = [sys.executable, "-m", "muster", "nodes", "--json", *urls]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    told = json.loads(shown.stdout)
    assert [each["owner"] for each in told["shards"]] == named
    assert {each["state"] for each in told["shards"]} == {"active"}, "each as its owner shows it"


def test_a_claim_says_what_the_settings_say(stage: Stage, orders: Observer) -> None:
    base = 2_000_000
    one = stage.prepared(1, **{"muster.lease.ms": "1234", "muster.node.id.base": str(base)})
    with one:
        wait_for_owners([one], {base + 1})
        records = [Record(key_of(each), value_of(each), 0) for each in orders.read(stage.topic, 0)]
    claim = read_claim(records[0])
    assert claim is not None
    assert (claim.node_id, claim.lease_ms) == (base + 1, 1234)
    assert [f"{each.listener} {each.host}:{each.port}" for each in claim.endpoints] == [
        f"PLAINTEXT {one.bootstrap}"
    ]


# Who takes over.


TAKEN_OVER_S = {"terminate": 10.0, "kill": 25.0}
"""With room for a busy machine. `make test-backing` shows what it is: some 1.5 and 11 s."""


class Member:
    """A member of a classic group at whichever node has it."""

    def __init__(self, nodes: list[MusterDaemon], group: str) -> None:
        self.nodes, self.group = nodes, group
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id=group,
            member_id="",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        joined = ask_coordinator(nodes, group, request, 3)
        assert joined.error_code == ErrorCode.NONE
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        share = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all of it")
        sync = SyncGroupRequest(
            group_id=group, generation_id=self.generation_id, member_id=self.member_id, assignments=[share]
        )
        assert ask_coordinator(nodes, group, sync, 3).assignment == b"all of it"

    def beat(self) -> ErrorCode:
        """One heartbeat, at the coordinator as it is named now."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation_id, member_id=self.member_id
        )
        return ErrorCode(ask_coordinator(self.nodes, self.group, request, 3).error_code)

    def survives(self, until_owned_by: set[int]) -> None:
        """Beat until others own all shards, and once more: nobody has expired it."""

        def is_over() -> bool:
            assert self.beat() in (ErrorCode.NONE, *NOT_NOW)
            return set(owners(self.nodes[0].bootstrap)) == until_owned_by

        wait_until(is_over, f"{until_owned_by} own all", PATIENCE_S, interval_s=0.2)
        wait_until(lambda: self.beat() is ErrorCode.NONE, "it is known", PATIENCE_S)


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_a_node_had_is_its_heirs(stage: Stage, end: str) -> None:
    """Stopped, or killed: offsets are all there, and a member that beats on is not expired."""
    heir = stage.start(1)
    gone = stage.start(2)
    wait_for_owners([heir, gone], {ONE, TWO})
    groups = groups_of_all_shards()
    theirs = next(group for group in groups if coordinator_of(heir.bootstrap, group).node_id == TWO)
    member = Member([heir, gone], theirs)
    others = {group: number for number, group in enumerate(groups) if group != theirs}
    for group, offset in others.items():
        commit_at_its_coordinator([heir, gone], group, offset)
    ended_s = time.monotonic()
    if end == "terminate":
        assert gone.terminate() == 0
        assert "not all shards were released" not in gone.log_path.read_text()
    else:
        gone.kill()
    member.nodes = [heir]
    member.survives({ONE})
    assert time.monotonic() - ended_s < TAKEN_OVER_S[end]
    assert {group: fetch_at_its_coordinator([heir], group) for group in others} == {
        group: {0: offset} for group, offset in others.items()
    }


def test_a_node_that_was_stopped_and_woken_answers_nothing_of_the_past(stage: Stage) -> None:
    heir, sleeper = stage.start(1), stage.start(2)
    wait_for_owners([heir, sleeper], {ONE, TWO})
    groups = groups_of_all_shards()
    theirs = [group for group in groups if coordinator_of(heir.bootstrap, group).node_id == TWO]
    with WireClient(sleeper.bootstrap) as client:
        for group in theirs:
            assert commit(client, group, 1) == ErrorCode.NONE
        sleeper.pause()
        wait_until(lambda: set(owners(heir.bootstrap)) == {ONE}, "the heir owns all", PATIENCE_S)
        for group in theirs:
            commit_at_its_coordinator([heir], group, 2)
        # What waits in its sockets is read when it wakes up: before it has heard anything of what went on.
        for group in theirs:
            client.send(commit_request(group, 9), 8)
        sleeper.resume()
        said = [client.receive().topics[0].partitions[0].error_code for _ in theirs]
        assert set(said) <= set(NOT_NOW)
    wait_for_owners([heir, sleeper], {ONE, TWO})
    for group in theirs:
        assert fetch_at_its_coordinator([heir], group) == {0: 2}


def test_consumer_groups_are_given_partitions_of_the_clusters_topics(stage: Stage) -> None:
    nodes = [stage.start(1)]
    wait_for_owners(nodes, {ONE})
    beat = ConsumerGroupHeartbeatRequest(
        group_id="newer",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    answer = ask_coordinator(nodes, "newer", beat, 1)
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
    (assigned,) = answer.assignment.topic_partitions
    assert sorted(assigned.partitions) == [0, 1, 2, 3]


def test_a_topic_that_is_made_later_is_known_soon(stage: Stage, orders: Observer) -> None:
    nodes = [stage.start(1)]
    wait_for_owners(nodes, {ONE})
    later = unique("later")
    request = commit_request("g", 1, later)

    def error() -> ErrorCode:
        return ErrorCode(ask_coordinator(nodes, "g", request, 8).topics[0].partitions[0].error_code)

    assert error() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    orders.create_named_topic(later, 1)
    wait_until(lambda: error() is ErrorCode.NONE, "the topic is known", PATIENCE_S)


# Why.


def test_what_happened_to_groups_is_on_the_clusters_topic(stage: Stage, orders: Observer) -> None:
    nodes = [stage.start(1)]
    wait_for_owners(nodes, {ONE})
    group = unique("told")
    Member(nodes, group)

    def causes() -> list[str]:
        events = (json.loads(value_of(record)) for record in orders.read("__group_events", 0))
        return [event["cause"] for event in events if event.get("group_id") == group]

    expected = ["member_joined", "initial_delay_over", "assignment_stored"]
    wait_until(lambda: causes() == expected, "all of it is told", PATIENCE_S)
    command = [
        sys.executable,
        "-m",
        "muster",
        "groups",
        "history",
        group,
        "--bootstrap",
        stage.kafka.bootstrap,
    ]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert "joined" in shown.stdout


# What they refuse.


def test_a_node_whose_id_is_taken_ends_and_the_other_goes_on(stage: Stage) -> None:
    there = stage.start(1)
    wait_for_owners([there], {ONE})
    other = node(stage.folder / "other", stage.kafka.bootstrap, stage.topic, 1)
    with other:
        wait_until(lambda: other._exit_reason(), "it ends", PATIENCE_S)
    sentence = f"muster: node.id=1 is that of a node that is there, at {there.bootstrap}"
    assert sentence in other.log_path.read_text().splitlines()
    wait_for_owners([there], {ONE})


def test_clusters_that_will_not_do_are_refused_in_one_sentence(stage: Stage) -> None:
    base = {"muster.node.id.base": "1"}
    assert stage.refusal(0, **base) == (
        1,
        "muster: broker 1 of muster.backing.bootstrap.servers has an id of ours: muster.node.id.base=1 has to be "
        "above all ids of brokers",
    )
    stage.start(1)
    status, said = stage.refusal(2, **{"offsets.topic.num.partitions": "9"})
    assert (status, said) == (
        1,
        f"muster: topic {stage.topic} has {PARTITIONS} partitions and not 9: groups would be looked for where "
        "they are not",
    )
    nowhere = f"{HOST}:{free_port()}"
    status, said = stage.refusal(3, **{"muster.backing.bootstrap.servers": nowhere})
    assert status == 1
    assert said.startswith(f"muster: no Kafka broker answers on {nowhere}: ")
    status, said = stage.refusal(3, **{"muster.client.metrics": "true"})
    assert (status, said) == (
        2,
        "muster: with muster.backing.bootstrap.servers muster.client.metrics has nowhere to keep them yet",
    )


def test_a_log_that_was_deleted_by_hand_is_not_made_again(stage: Stage, orders: Observer) -> None:
    """Behind the operator's back: nodes say so, answer that they do not serve, and end."""
    there = stage.start(1)
    wait_for_owners([there], {ONE})
    commit_at_its_coordinator([there], "g", 1)
    orders.delete_topic(stage.topic)
    with WireClient(there.bootstrap) as client:
        wait_until(lambda: commit(client, "g", 2) in NOT_NOW, "it serves no more", PATIENCE_S)
    wait_until(there._exit_reason, "it ends", PATIENCE_S)
    said = f"muster: topic {stage.topic} is not there any more, and with it all groups are gone"
    assert said in there.log_path.read_text().splitlines()
    with WireClient(stage.kafka.bootstrap) as client:
        topics = client.ask(MetadataRequest(topics=None), 12).topics
    assert stage.topic not in [topic.name for topic in topics]


def test_nodes_that_count_the_shards_otherwise_do_not_go_on_together(stage: Stage, orders: Observer) -> None:
    """The log's topic was given more partitions by hand: a group would be at two nodes."""
    there = stage.start(1)
    wait_for_owners([there], {ONE})
    orders.grow_topic(stage.topic, PARTITIONS + 1)
    other = stage.prepared(2, **{"offsets.topic.num.partitions": str(PARTITIONS + 1)})
    with other:
        wait_until(lambda: there._exit_reason() or other._exit_reason(), "one of them ends", PATIENCE_S)
    logs = there.log_path.read_text() + other.log_path.read_text()
    assert "for others: groups would be looked for where they are not" in logs


def test_a_process_that_was_woken_leaves_its_id_to_the_one_that_has_taken_its_place(stage: Stage) -> None:
    woken = stage.start(1)
    wait_for_owners([woken], {ONE})
    woken.pause()
    try:
        there = node(stage.folder / "other", stage.kafka.bootstrap, stage.topic, 1)
        with there:
            wait_for_owners([there], {ONE})
            commit_at_its_coordinator([there], "g", 1)
            woken.resume()
            wait_until(woken._exit_reason, "it ends", PATIENCE_S)
            assert "muster: node.id=1 is that of a node that is there" in woken.log_path.read_text()
            assert fetch_at_its_coordinator([there], "g") == {0: 1}
    finally:
        with suppress(ProcessLookupError):
            woken.resume()


def test_a_node_that_can_never_be_among_the_others_says_so(stage: Stage) -> None:
    """Somebody else is in the group of the nodes, who speaks another protocol."""
    with WireClient(stage.kafka.bootstrap) as client:
        request = JoinGroupRequest(
            group_id=f"muster-nodes-{stage.topic}",
            member_id="",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        wait_until(
            lambda: client.ask(request, 3).error_code == ErrorCode.NONE, "somebody is in it", PATIENCE_S
        )
        with stage.prepared(1) as other:
            wait_until(other._exit_reason, "it ends", PATIENCE_S)
    said = f"muster: group muster-nodes-{stage.topic} of the nodes: "
    assert said in other.log_path.read_text()


def test_a_start_that_is_interrupted_ends_well(stage: Stage) -> None:
    """While it waits for an answer of Kafka's."""
    listening = socket.create_server((HOST, 0))
    with listening:
        silent = f"{HOST}:{listening.getsockname()[1]}"
        prepared = stage.prepared(1, **{"muster.backing.bootstrap.servers": silent})
        environment = {**os.environ, **prepared._environment()}
        starting = subprocess.Popen(
            prepared._command(),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            accepted, _ = listening.accept()
            starting.terminate()
            said, _ = starting.communicate(timeout=PATIENCE_S)
        finally:
            starting.kill()
        accepted.close()
    assert (starting.returncode, "Traceback" in said, "ready" in said) == (0, False, False), said
