"""The checks of the APIs of producers and transactions, in Kafka's order."""

from __future__ import annotations

from typing import Final

from coordinator.access.asker import Asker
from coordinator.access.verdict import Verdict, interleaved, passes, refused
from coordinator.security.acls import Operation, ResourceType
from coordinator.topics.names import is_internal
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BATCHED_SINCE: Final = 4
"""Version of AddPartitionsToTxn from which on brokers send it, for several transactions (KIP-890)."""
DENIED_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def check_init_producer_id(request: InitProducerIdRequest, asker: Asker) -> Verdict:
    """InitProducerId: WRITE of the transactional id; without one IDEMPOTENT_WRITE, or WRITE of some topic (A6)."""
    error = ErrorCode.NONE
    if request.transactional_id is not None:
        if not asker.may_transaction(Operation.WRITE, request.transactional_id):
            error = DENIED_ID
    elif not asker.permits_cluster(Operation.IDEMPOTENT_WRITE) and not asker.may_some(
        Operation.WRITE, ResourceType.TOPIC
    ):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return refused(error_response(request, error, asker.version)) if error else passes(request)


def check_add_partitions(request: AddPartitionsToTxnRequest, asker: Asker) -> Verdict:
    """AddPartitionsToTxn: up to v3 WRITE of the transactional id and of the topics; then CLUSTER_ACTION.

    If one partition is refused or does not exist, none is added.
    """
    if asker.version >= BATCHED_SINCE:
        if asker.may_cluster(Operation.CLUSTER_ACTION):
            return passes(request)
        return refused(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    if not asker.may_transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return refused(error_response(request, DENIED_ID, asker.version))
    topics = request.v3_and_below_topics
    external = (topic.name for topic in topics if not is_internal(topic.name))
    denied = asker.denied_topics(Operation.WRITE, external)
    if not denied:
        return passes(request)  # Internal ones the transaction's shard refuses, whoever asks.
    rows = [_not_added(topic, denied, asker) for topic in topics]
    return refused(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows))


def _not_added(
    topic: AddPartitionsToTxnTopic, denied: set[str], asker: Asker
) -> AddPartitionsToTxnTopicResult:
    is_denied = topic.name in denied or is_internal(topic.name)
    count = 0 if is_denied else asker.topics.partition_count(topic.name) or 0
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=_partition_error(index, count, is_denied)
            )
            for index in topic.partitions
        ],
    )


def _partition_error(index: int, count: int, is_denied: bool) -> ErrorCode:
    if is_denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    exists = 0 <= index < count
    return ErrorCode.OPERATION_NOT_ATTEMPTED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check_add_offsets(request: AddOffsetsToTxnRequest, asker: Asker) -> Verdict:
    """AddOffsetsToTxn: WRITE of the transactional id, then READ of the group."""
    error = ErrorCode.NONE
    if not asker.may_transaction(Operation.WRITE, request.transactional_id):
        error = DENIED_ID
    elif not asker.may_group(Operation.READ, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return refused(error_response(request, error, asker.version)) if error else passes(request)


def check_end_txn(request: EndTxnRequest, asker: Asker) -> Verdict:
    """EndTxn: WRITE of the transactional id."""
    if asker.may_transaction(Operation.WRITE, request.transactional_id):
        return passes(request)
    return refused(error_response(request, DENIED_ID, asker.version))


def check_write_markers(request: WriteTxnMarkersRequest, asker: Asker) -> Verdict:
    """WriteTxnMarkers: ALTER or CLUSTER_ACTION of the cluster."""
    if asker.permits_cluster(Operation.ALTER) or asker.may_cluster(Operation.CLUSTER_ACTION):
        return passes(request)
    return refused(_markers_refused(request))


def _markers_refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Return the error for each partition, by producer: of several markers of one the last counts, as in Kafka."""
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rows = {
        marker.producer_id: WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    }
    return WriteTxnMarkersResponse(markers=list(rows.values()))


def check_describe_transactions(request: DescribeTransactionsRequest, asker: Asker) -> Verdict:
    """DescribeTransactions: DESCRIBE of each transactional id; topics without DESCRIBE are left out."""
    asked = request.transactional_ids
    denied = {each for each in set(asked) if not asker.may_transaction(Operation.DESCRIBE, each)}

    def complete_part(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [
                topic for topic in state.topics if asker.may_topic(Operation.DESCRIBE, topic.topic)
            ]
        return response

    def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        rows = interleaved(asked, lambda each: _not_described(each, denied), response.transaction_states)
        return DescribeTransactionsResponse(transaction_states=list(rows))

    allowed = DescribeTransactionsRequest(transactional_ids=[each for each in asked if each not in denied])
    return Verdict(allowed, complete=complete if denied else None, complete_part=complete_part)


def _not_described(transactional_id: str, denied: set[str]) -> DescribedTransaction | None:
    if transactional_id not in denied:
        return None
    return DescribedTransaction(transactional_id=transactional_id, error_code=DENIED_ID)


def check_list_transactions(request: ListTransactionsRequest, asker: Asker) -> Verdict:
    """ListTransactions: those with DESCRIBE of their id; never an error."""

    def complete_part(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            each
            for each in response.transaction_states
            if asker.may_transaction(Operation.DESCRIBE, each.transactional_id)
        ]
        return response

    return Verdict(request, complete_part=complete_part)
