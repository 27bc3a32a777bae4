"""Offsets in transactions, in a real daemon that is killed in the middle: held, and then counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator.topics.names import GROUP_METADATA_TOPIC
from harness.daemon import MusterDaemon
from harness.processes import wait_until
from harness.wire import WireClient
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.server.asking import make_topic

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
LATEST = -1
UNCOMMITTED, COMMITTED = 0, 1
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def end_of_the_log(client: WireClient, isolation_level: int) -> int:
    """Of the one offsets partition, as a reader of this level gets it."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    topic = ListOffsetsTopic(name=GROUP_METADATA_TOPIC, partitions=[asked])
    answer = client.ask(ListOffsetsRequest(isolation_level=isolation_level, topics=[topic]), 7)
    return int(answer.topics[0].partitions[0].offset)


def stable_offset(client: WireClient) -> tuple[int, int]:
    """What a stable reader of the group gets: error and offset; the group's own error while it loads."""
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    (answer,) = client.ask(OffsetFetchRequest(groups=[group], require_stable=True), 9).groups
    if answer.error_code:
        return answer.error_code, -1
    found = answer.topics[0].partitions[0]
    return found.error_code, found.committed_offset


def hold(client: WireClient, producer: dict[str, Any]) -> None:
    committed = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[committed])
    answer = client.ask(TxnOffsetCommitRequest(group_id="g", topics=[topic], **producer), 5)
    assert answer.topics[0].partitions[0].error_code == 0


def begin(client: WireClient, transactional_id: str = "t") -> dict[str, Any]:
    """What requests of a new producer say of it."""
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    given = client.ask(init, 5)
    assert given.error_code == 0
    return {
        "transactional_id": transactional_id,
        "producer_id": given.producer_id,
        "producer_epoch": given.producer_epoch,
    }


def test_an_open_transaction_survives_a_kill_and_counts_when_it_is_committed(tmp_path: Path) -> None:
    """Readers of `__consumer_offsets` itself that want only what is decided see none of it before."""
    with MusterDaemon(tmp_path, SETTINGS) as daemon:
        with WireClient(daemon.bootstrap) as client:
            make_topic(client)
            producer = begin(client)
            hold(client, producer)
            assert stable_offset(client) == (UNSTABLE, -1)
            wait_until(lambda: end_of_the_log(client, UNCOMMITTED) == 1, "it is in the segment", 20)
            assert end_of_the_log(client, COMMITTED) == 0
        daemon.kill()
        daemon.start()
        with WireClient(daemon.bootstrap) as client:
            wait_until(lambda: stable_offset(client)[0] == UNSTABLE, "the shard is loaded", 20)
            assert end_of_the_log(client, COMMITTED) == 0
            assert client.ask(EndTxnRequest(committed=True, **producer), 5).error_code == 0
            wait_until(lambda: stable_offset(client) == (0, 5), "the marker is durable", 20)
            wait_until(lambda: end_of_the_log(client, UNCOMMITTED) == 2, "it is in the segment", 20)
            assert end_of_the_log(client, COMMITTED) == 2
