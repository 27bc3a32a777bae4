"""A gateway as users start it, in front of a real Kafka: what clients see, whose a group is, what is refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from harness.daemon import MusterDaemon
from harness.gateway import BROKER_ID, Gateway
from harness.kafka_broker import KafkaBroker
from harness.messages import value_of
from harness.observer import Observer, unique
from harness.processes import HOST, free_port, wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.backing.node_processes import FIRST_NODE_ID, ended, node

pytestmark = pytest.mark.xdist_group("gateway")

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "muster.groups.include": "ours.*",
}
TIMEOUT_S = 60.0


class Both(Gateway):
    """Of its groups those are ours whose names begin so; its Kafka knows nothing of that setting."""

    group_prefix = "ours-"

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, CONFIG)
        self.kafka.config.pop("muster.groups.include")


@pytest.fixture(scope="module")
def gateway(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Both(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def orders(gateway: Gateway) -> str:
    name = unique("orders")
    Observer(gateway.bootstrap).create_named_topic(name, 2)
    return name


def port_of_broker(gateway: Gateway) -> int:
    with WireClient(gateway.bootstrap) as client:
        brokers = client.ask(MetadataRequest(topics=[]), 12).brokers
    (port,) = [int(each.port) for each in brokers if each.node_id == BROKER_ID]
    return port


@pytest.mark.parametrize("version", range(14))
def test_clients_are_led_to_ports_of_the_gateway_and_nowhere_else(
    gateway: Gateway, orders: str, version: int
) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=orders)])
    for port in (gateway.port, port_of_broker(gateway)):
        with WireClient(f"{HOST}:{port}") as client:
            answer = client.ask(asked, version)
        places = {each.node_id: each.port for each in answer.brokers}
        assert places == {
            BROKER_ID: int(gateway.overrides["muster.gateway.first.port"]) + BROKER_ID,
            FIRST_NODE_ID + 1: gateway.port,
        }
        assert {each.leader_id for each in answer.topics[0].partitions} == {BROKER_ID}


def test_the_cluster_is_described_with_them_and_as_the_clusters_own(gateway: Gateway) -> None:
    with WireClient(gateway.kafka.bootstrap) as client:
        direct = client.ask(DescribeClusterRequest(), 1)
    with WireClient(gateway.bootstrap) as client:
        through = client.ask(DescribeClusterRequest(), 1)
    assert (through.cluster_id, through.controller_id) == (direct.cluster_id, direct.controller_id)
    assert [each.broker_id for each in through.brokers] == [BROKER_ID, FIRST_NODE_ID + 1]


def test_transactions_have_their_coordinator_among_the_brokers(gateway: Gateway) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["t"], key_type=CoordinatorType.TRANSACTION)

    def found() -> tuple[int, int] | None:
        with WireClient(gateway.bootstrap) as client:
            (one,) = client.ask(asked, 4).coordinators
        return None if one.error_code else (one.node_id, one.port)

    assert wait_until(found, "a coordinator", TIMEOUT_S) == (BROKER_ID, port_of_broker(gateway))


def consumed(bootstrap: str, group: str, topic: str, count: int) -> int:
    """Join, read `count` records, commit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = 0
    try:
        while read < count:
            messages = consumer.consume(count - read, TIMEOUT_S)
            assert messages, f"{read} of {count}"
            assert not [each.error() for each in messages if each.error()]
            read += len(messages)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def listed(bootstrap: str) -> set[str]:
    with WireClient(bootstrap) as client:
        return {group.group_id for group in client.ask(ListGroupsRequest(), 4).groups}


def test_each_group_is_on_its_side_and_both_read_what_was_written_through_the_gateway(
    gateway: Gateway, orders: str
) -> None:
    ours, theirs = unique("ours"), unique("theirs")
    Observer(gateway.bootstrap).write(orders, map(str, range(100)), 0)
    for group in (ours, theirs):
        assert consumed(gateway.bootstrap, group, orders, 100) == 100
    through = f"{HOST}:{port_of_broker(gateway)}"
    assert ours in listed(gateway.bootstrap)
    assert theirs not in listed(gateway.bootstrap)
    for bootstrap in (gateway.kafka.bootstrap, through):
        assert theirs in listed(bootstrap)
        assert ours not in listed(bootstrap)
    observer = Observer(gateway.bootstrap)
    assert observer.committed(ours, orders)[0] == 100
    assert observer.committed(theirs, orders)[0] == 100
    assert Observer(gateway.kafka.bootstrap).committed(theirs, orders)[0] == 100


def test_what_was_made_a_moment_ago_is_committed_to(gateway: Gateway) -> None:
    """Nobody has told the node of these topics; clients take one that is unknown for an error of their own."""
    kafka, ours = Observer(gateway.kafka.bootstrap), Observer(gateway.bootstrap)
    group, grown = unique("ours"), kafka.create_topic("grown", 1)
    wait_until(lambda: kafka.has_topic(grown), "the topic", TIMEOUT_S)
    ours.commit(group, grown, {0: 1})
    made = kafka.create_topic("made", 1)
    kafka.grow_topic(grown, 3)
    wait_until(lambda: kafka.partition_count(grown) == 3 and kafka.has_topic(made), "both", TIMEOUT_S)
    ours.commit(group, made, {0: 2})
    ours.commit(group, grown, {2: 3})
    assert ours.committed(group, made) == {0: 2}
    assert ours.committed(group, grown) == {0: 1, 2: 3}


def test_a_transaction_is_served_and_refused_with_the_offsets_of_our_groups(
    gateway: Gateway, orders: str
) -> None:
    group = unique("ours")
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "transactional.id": unique("t")})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(orders, b"whole", partition=1)
    producer.commit_transaction(TIMEOUT_S)
    assert value_of(Observer(gateway.bootstrap).read(orders, 1)[-1]) == b"whole"
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": group})
    consumer.subscribe([orders])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment", TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(orders, b"never", partition=1)
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction(
            [TopicPartition(orders, 1, 5)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
    consumer.close()
    error = refused.value.args[0]
    assert error.code() == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert f'"group_id": "{group}"' in gateway.log_path.read_text()


def test_a_producer_may_ask_any_node_for_its_id(gateway: Gateway) -> None:
    with WireClient(gateway.bootstrap) as client:
        answers = [
            client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
            for _ in range(2)
        ]
    assert [each.error_code for each in answers] == [0, 0]
    assert answers[0].producer_id != answers[1].producer_id


def test_what_passes_the_gateway_counts_among_its_connections(gateway: Gateway, tmp_path: Path) -> None:
    """`max.connections` holds for all ports together."""
    limited = node(
        tmp_path,
        gateway.kafka.bootstrap,
        unique("muster"),
        9,
        {"muster.clients": "gateway", "max.connections": "3", "muster.groups.include": "none"},
    )
    with limited, WireClient(limited.bootstrap) as client:
        brokers = client.ask(MetadataRequest(topics=[]), 12).brokers
        (port,) = [each.port for each in brokers if each.node_id == BROKER_ID]
        others = [WireClient(f"{HOST}:{port}") for _ in range(2)]
        for other in others:
            other.ask(MetadataRequest(topics=[]), 12)
        with WireClient(f"{HOST}:{port}") as surplus, pytest.raises((ConnectionError, EOFError)):
            surplus.ask(MetadataRequest(topics=[]), 12)
        for other in others:
            other.close()


def test_a_port_that_is_taken_keeps_a_gateway_from_starting(gateway: Gateway, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, port := free_port()))
        taken.listen()
        settings = {
            "muster.clients": "gateway",
            "muster.gateway.first.port": str(port - BROKER_ID),
            "muster.groups.include": "none",
        }
        done = ended(node(tmp_path, gateway.kafka.bootstrap, unique("muster"), 8, settings))
    assert done.returncode == 1
    assert f"listener PLAINTEXT-{BROKER_ID} cannot be opened on {HOST}:{port}" in done.stderr


def test_a_cluster_with_an_authorizer_is_refused_until_its_owner_says_so(java: None, tmp_path: Path) -> None:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaBroker(tmp_path / "kafka", config) as kafka:
        settings = {"muster.clients": "gateway"}
        done = ended(node(tmp_path, kafka.bootstrap, "log", 1, settings))
        assert done.returncode == 1
        assert "muster.group.authorization=none says that they need not" in done.stderr
        settings["muster.group.authorization"] = "none"
        with node(tmp_path, kafka.bootstrap, "log", 2, settings) as allowed:
            assert isinstance(allowed, MusterDaemon)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"muster.backing.security.protocol": "SSL"},
            "with muster.clients=gateway muster.backing.security.protocol=SSL is not served yet: clients would "
            "come to the brokers under the name of this node",
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"},
            "with muster.clients=gateway there is one listener, of the protocol PLAINTEXT, yet",
        ),
        ({"muster.groups.include": "("}, "muster.groups.include"),
        ({"muster.clients": "proxied"}, "delegated or gateway"),
    ],
)
def test_what_a_gateway_cannot_do_is_said_before_it_connects(
    settings: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    given = {
        "muster.clients": "gateway",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        **settings,
    }
    done = ended(node(tmp_path, f"{HOST}:1", "log", 1, given))
    assert done.returncode == 2
    assert sentence in done.stderr


def test_groups_that_the_brokers_have_are_not_taken_over_without_their_offsets(
    gateway: Gateway, orders: str, tmp_path: Path
) -> None:
    theirs = unique("theirs")
    Observer(gateway.bootstrap).commit(theirs, orders, {0: 5})
    settings = {"muster.clients": "gateway", "muster.groups.include": f"other|{theirs}"}
    done = ended(node(tmp_path, gateway.kafka.bootstrap, unique("muster"), 6, settings))
    assert done.returncode == 1
    assert (
        f"the brokers have groups that muster.groups.include=other|{theirs} would have here, without their "
        f"offsets: {theirs}; leave them out, or delete them there"
    ) in done.stderr


def test_a_gateway_has_brokers_behind_it(tmp_path: Path) -> None:
    done = ended(MusterDaemon(tmp_path, {"muster.clients": "gateway"}))
    assert done.returncode == 2
    assert "muster.clients=gateway needs muster.backing.bootstrap.servers" in done.stderr


def test_a_member_goes_on_when_the_gateway_was_killed(gateway: Gateway) -> None:
    topic = Observer(gateway.bootstrap).create_topic("solo", 1)
    Observer(gateway.bootstrap).write(topic, ["before"], 0)
    assigned: list[list[TopicPartition]] = []
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": (group := unique("ours")),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))
    try:
        message = wait_until(lambda: consumer.poll(0.5), "a record", TIMEOUT_S)
        assert message is not None
        assert value_of(message) == b"before"
        gateway.kill()
        gateway.start()
        Observer(gateway.bootstrap).write(topic, ["after"], 0)
        message = wait_until(lambda: consumer.poll(0.5), "a record", TIMEOUT_S)
        assert message is not None
        assert value_of(message) == b"after"
        (committed,) = consumer.commit(message=message, asynchronous=False)
        assert Observer(gateway.bootstrap).committed(group, topic)[0] == committed.offset
        assert len(assigned) == 1, "it is the member that it was"
    finally:
        consumer.close()
