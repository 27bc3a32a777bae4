"""What a node whose logs are on Kafka answers of the cluster, and what it refuses to start with; no network."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.backing.kafka.cluster_topics import ClusterTopics
from coordinator.daemon.node_apis import NodeApis
from coordinator.daemon.node_refusals import refuse_what_is_not_there
from coordinator.server.find_coordinator import NO_TRANSACTIONS_TEXT, FindCoordinator
from coordinator.settings.sources import SettingsError, load
from coordinator.settings.unusable import UnusableSettings
from coordinator.topics.names import GROUP_METADATA_TOPIC
from coordinator.topics.placement import NO_LEADER, Node, Placement
from harness.doubles.fake_pending import FakePending
from muster.serve import client_of
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ORDERS_ID = b"\x01" * 16
BOOTSTRAP = "muster.backing.bootstrap.servers"


def partition(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(partition_index=index, leader_id=5, replica_nodes=[5], isr_nodes=[5])


@pytest.fixture
def topics() -> ClusterTopics:
    known = ClusterTopics(lambda name, topic_id: None, 30_000)
    orders = MetadataResponseTopic(name="orders", topic_id=ORDERS_ID, partitions=[partition(0), partition(1)])
    broker = MetadataResponseBroker(node_id=5, host="broker", port=1, rack=None)
    known.learn(MetadataResponse(brokers=[broker], topics=[orders]))
    return known


def node(node_id: int, *listeners: str) -> Node:
    has = frozenset(listeners) if listeners else None
    return Node(node_id, lambda listener: (f"{listener}-{node_id}", 9_000 + node_id), "a", has)


@pytest.fixture
def apis(topics: ClusterTopics) -> NodeApis:
    return NodeApis(Placement(node(1), [node(2)], controller_id=NO_LEADER), topics, lambda: "of-theirs")


def waiting(version: int, listener: str = "HOST") -> Any:
    """A request that waits for its answer."""
    return FakePending(version, listener=listener)


def metadata(apis: NodeApis, *asked: MetadataRequestTopic, version: int = 12) -> Any:
    pending = waiting(version)
    apis.metadata(MetadataRequest(topics=list(asked)), pending)
    return pending.answer


def test_clients_see_the_nodes_and_no_leader_of_anybodys_data(apis: NodeApis) -> None:
    pending = waiting(12)
    apis.metadata(MetadataRequest(topics=None), pending)
    answer = pending.answer
    assert [(each.node_id, each.host, each.port, each.rack) for each in answer.brokers] == [
        (1, "HOST-1", 9_001, "a"),
        (2, "HOST-2", 9_002, "a"),
    ]
    assert (answer.cluster_id, answer.controller_id) == ("of-theirs", NO_LEADER)
    (orders,) = answer.topics
    assert (orders.name, orders.topic_id, orders.error_code) == ("orders", ORDERS_ID, ErrorCode.NONE)
    assert [(each.error_code, each.leader_id, each.replica_nodes) for each in orders.partitions] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, []),
        (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, []),
    ]


@pytest.mark.parametrize(
    ("asked", "error", "name"),
    [
        (MetadataRequestTopic(name="orders"), ErrorCode.NONE, "orders"),
        (MetadataRequestTopic(topic_id=ORDERS_ID, name=None), ErrorCode.NONE, "orders"),
        (MetadataRequestTopic(name="unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "unknown"),
        (MetadataRequestTopic(name="a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b"),
        (MetadataRequestTopic(topic_id=b"\x02" * 16, name=None), ErrorCode.UNKNOWN_TOPIC_ID, None),
    ],
)
def test_a_topic_is_asked_for_by_its_name_or_its_id(
    apis: NodeApis, topics: ClusterTopics, asked: MetadataRequestTopic, error: ErrorCode, name: str | None
) -> None:
    (found,) = metadata(apis, asked).topics
    assert (found.error_code, found.name) == (error, name)
    # What nobody knows is asked about, so that the next answer is another if it is there.
    assert topics.wanted() == ([name] if error in (3, 17) else [])


def test_no_topics_are_asked_for_and_before_version_1_all(apis: NodeApis) -> None:
    assert metadata(apis).topics == []
    assert [each.name for each in metadata(apis, version=0).topics] == ["orders"]


def test_the_cluster_is_its_nodes(apis: NodeApis) -> None:
    pending = waiting(1)
    apis.describe_cluster(DescribeClusterRequest(endpoint_type=1), pending)
    answer = pending.answer
    assert [(each.broker_id, each.host) for each in answer.brokers] == [(1, "HOST-1"), (2, "HOST-2")]
    assert (answer.cluster_id, answer.controller_id) == ("of-theirs", NO_LEADER)


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_of_the_cluster_only_brokers_are_shown(apis: NodeApis, endpoint_type: int, error: ErrorCode) -> None:
    pending = waiting(1)
    apis.describe_cluster(DescribeClusterRequest(endpoint_type=endpoint_type), pending)
    assert pending.answer.error_code == error


def test_a_node_is_named_only_to_clients_of_listeners_that_it_has(topics: ClusterTopics) -> None:
    placement = Placement(node(1), [node(2, "OTHER")], controller_id=2)
    find = FindCoordinator(placement, {GROUP_METADATA_TOPIC: 4})
    apis = NodeApis(placement, topics, lambda: None)
    for listener, node_ids, found in (("HOST", [1], -1), ("OTHER", [1, 2], 2)):
        pending = waiting(12, listener)
        apis.metadata(MetadataRequest(topics=[]), pending)
        assert [each.node_id for each in pending.answer.brokers] == node_ids
        pending = waiting(4, listener)
        find(FindCoordinatorRequest(coordinator_keys=["g"]), pending)
        assert pending.answer.coordinators[0].node_id == found


@pytest.mark.parametrize("version", [3, 4])
def test_no_transactional_id_has_a_coordinator(version: int) -> None:
    find = FindCoordinator(Placement(node(1)), {GROUP_METADATA_TOPIC: 4})
    pending = waiting(version)
    key_type = CoordinatorType.TRANSACTION
    find(FindCoordinatorRequest(key="t", coordinator_keys=["t"], key_type=key_type), pending)
    answer = pending.answer if version < 4 else pending.answer.coordinators[0]
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answer.error_message == NO_TRANSACTIONS_TEXT
    assert answer.node_id == -1


# Its settings.


def test_settings_of_the_client_come_from_all_sources_and_keep_their_names() -> None:
    environment = {"MUSTER_BACKING_SASL_MECHANISM": "PLAIN", "MUSTER_BACKING_BOOTSTRAP_SERVERS": "from-env:1"}
    loaded = load({BOOTSTRAP: "from-flag:1"}, environment)
    assert loaded.backing == {"bootstrap.servers": "from-flag:1", "sasl.mechanism": "PLAIN"}
    assert loaded.foreign_variables == ()
    assert load().backing == {}


def test_what_a_platform_sets_for_a_service_of_that_name_is_not_for_the_client() -> None:
    environment = {"MUSTER_BACKING_SERVICE_HOST": "10.0.0.1", "MUSTER_BACKING_PORT": "tcp://10.0.0.1:9092"}
    loaded = load({}, environment)
    assert loaded.backing == {}
    assert loaded.foreign_variables == tuple(sorted(environment))


def test_a_secret_of_the_client_may_come_from_a_provider_and_is_shown_nowhere() -> None:
    provider = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    given = {**provider, BOOTSTRAP: "a:1", "muster.backing.sasl.password": "${env:WORD}"}
    loaded = load(given, {"WORD": "canary"})
    assert loaded.backing["sasl.password"] == "canary"
    assert "canary" not in repr(loaded)


def test_a_cluster_is_connected_to_as_a_clients_file_says() -> None:
    client = client_of(load({BOOTSTRAP: "a:1,b:2", "muster.backing.security.protocol": "SSL"}).backing)
    assert client is not None
    assert (client.bootstrap, client.security.protocol) == ("a:1,b:2", "SSL")
    assert client_of({}) is None


@pytest.mark.parametrize(
    ("backing", "sentence"),
    [
        (
            {"security.protocol": "SSL"},
            "muster.backing.bootstrap.servers is needed by the other settings behind muster.backing.",
        ),
        (
            {"bootstrap.servers": ""},
            "muster.backing.bootstrap.servers is needed by the other settings behind muster.backing.",
        ),
        (
            {"bootstrap.servers": "a:1", "bootstrap.server": "b"},
            "settings behind muster.backing.: cannot be honoured here: bootstrap.server",
        ),
        (
            {"bootstrap.servers": "a:1", "security.protocol": "TLS"},
            "settings behind muster.backing.: security.protocol must be one of "
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
    ],
)
def test_a_client_that_cannot_be_is_a_sentence(backing: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        client_of(backing)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (
            {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
            "authorizer.class.name has no ACLs to go by",
        ),
        ({"muster.client.metrics": "true"}, "muster.client.metrics has nowhere to keep them"),
        (
            {
                "listeners": "OUT://127.0.0.1:9092",
                "listener.security.protocol.map": "OUT:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.out.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
                'PlainLoginModule required user_a="b";',
            },
            "the listener OUT asks for logins, and no users are kept",
        ),
    ],
)
def test_what_is_not_there_yet_is_refused(given: dict[str, str], part: str) -> None:
    with pytest.raises(UnusableSettings) as raised:
        refuse_what_is_not_there(load({**given, BOOTSTRAP: "a:1"}).settings)
    assert str(raised.value) == f"with {BOOTSTRAP} {part} yet"


def test_an_id_that_clients_could_not_be_told_is_refused() -> None:
    given = {BOOTSTRAP: "a:1", "muster.node.id.base": "2147483647"}
    refuse_what_is_not_there(load({**given, "node.id": "0"}).settings)
    with pytest.raises(
        UnusableSettings, match=r"muster.node.id.base \+ node.id must not be above 2147483647"
    ):
        refuse_what_is_not_there(load({**given, "node.id": "1"}).settings)


def test_what_is_there_is_not_refused() -> None:
    refuse_what_is_not_there(
        load({BOOTSTRAP: "a:1", "muster.http.listeners": "http://127.0.0.1:9640"}).settings
    )
    refuse_what_is_not_there(load({BOOTSTRAP: "a:1"}).settings)


@pytest.mark.parametrize(
    "name", ["muster.lease.ms", "muster.node.id.base", "muster.topic.deletion.confirm.ms"]
)
def test_settings_of_nodes_have_ranges(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load({name: "0"})
