"""The transaction APIs over the wire: where requests go, what many shards are asked, and a kill on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey, SupportedFeatureKey
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest

NAMES = [f"app-{number}" for number in range(8)]
SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "3"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MusterDaemon]:
    daemon = MusterDaemon(tmp_path_factory.mktemp("transactions"), SETTINGS)
    daemon.start()
    with WireClient(daemon.bootstrap) as client:
        topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
    yield daemon
    daemon.kill()


@pytest.fixture
def client(daemon: MusterDaemon) -> Iterator[WireClient]:
    with WireClient(daemon.bootstrap) as client:
        yield client


def begin(client: WireClient, name: str) -> AddPartitionsToTxnTransaction:
    """A producer and what it will add."""
    given = client.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5)
    assert given.error_code == ErrorCode.NONE
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 2])],
    )


def state_of(client: WireClient, name: str) -> str:
    (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
    return str(state.transaction_state)


def test_many_transactions_are_asked_of_many_shards_and_answered_as_one(client: WireClient) -> None:
    transactions = [begin(client, name) for name in NAMES]
    reply = client.ask(AddPartitionsToTxnRequest(transactions=[*transactions, transactions[0]]), 5)
    answered = [each.transactional_id for each in reply.results_by_transaction]
    assert answered == NAMES, "in the order in which they were asked for, and each once"
    errors = {
        partition.partition_error_code
        for each in reply.results_by_transaction
        for topic in each.topic_results
        for partition in topic.results_by_partition
    }
    assert errors == {ErrorCode.NONE}
    described = client.ask(DescribeTransactionsRequest(transactional_ids=[*NAMES, "unused"]), 0)
    assert [each.transactional_id for each in described.transaction_states] == [*NAMES, "unused"]
    listed = client.ask(ListTransactionsRequest(transactional_id_pattern="app-.*"), 2)
    assert sorted(each.transactional_id for each in listed.transaction_states) == NAMES
    wrong = client.ask(ListTransactionsRequest(transactional_id_pattern="["), 2)
    assert wrong.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    unknown = client.ask(ListTransactionsRequest(state_filters=["Nonsense"]), 0)
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Nonsense"], [])


def test_nothing_asked_nothing_answered(client: WireClient) -> None:
    assert client.ask(DescribeTransactionsRequest(transactional_ids=[]), 0).transaction_states == []
    assert client.ask(AddPartitionsToTxnRequest(), 5).results_by_transaction == []


def test_this_daemon_coordinates_every_transactional_id(daemon: MusterDaemon, client: WireClient) -> None:
    for key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
        (found,) = client.ask(request, 4).coordinators
        assert (found.error_code, f"{found.host}:{found.port}") == (ErrorCode.NONE, daemon.bootstrap)


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_announced(client: WireClient, version: int) -> None:
    """Before version 4 a supported feature that begins at 0 is left out, as clients could not read it."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    reply = client.ask(request, version)
    supported = [
        SupportedFeatureKey(name="group.version", min_version=0, max_version=1),
        SupportedFeatureKey(name="transaction.version", min_version=0, max_version=2),
    ]
    assert reply.supported_features == (supported if version == 4 else [])
    assert reply.finalized_features == [
        FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1),
        FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2),
    ]
    assert reply.finalized_features_epoch == 0


def test_a_daemon_killed_with_an_outcome_on_the_disk_carries_it_out(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path, SETTINGS)
    daemon.start()
    try:
        with WireClient(daemon.bootstrap) as client:
            topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic]), 7)
            one, two = begin(client, "committing"), begin(client, "open")
            client.ask(AddPartitionsToTxnRequest(transactions=[one, two]), 5)
            end = EndTxnRequest(
                transactional_id="committing",
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                committed=True,
            )
            given = client.ask(end, 5)
            assert given.error_code == ErrorCode.NONE
        daemon.kill()
        daemon.start()
        with WireClient(daemon.bootstrap) as client:
            wait_until(lambda: state_of(client, "committing") == "CompleteCommit", "it is carried out", 20)
            assert state_of(client, "open") == "Ongoing"
            again = client.ask(end, 5)
            assert (again.producer_id, again.producer_epoch) == (given.producer_id, given.producer_epoch)
    finally:
        daemon.kill()


def test_the_number_of_partitions_never_changes(tmp_path: Path) -> None:
    daemon = MusterDaemon(tmp_path, SETTINGS)
    daemon.start()
    daemon.terminate()
    daemon.overrides["transaction.state.log.num.partitions"] = "4"
    with pytest.raises(RuntimeError, match=r"transaction\.state\.log\.num\.partitions"):
        daemon.start()
    daemon.kill()
