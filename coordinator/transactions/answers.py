"""Answers that say an error, for each request of this core, in the way the version has for it.

Old clients do not know PRODUCER_FENCED: they are told INVALID_PRODUCER_EPOCH, each API from another version on
(KIP-588). What an append failed with is translated for clients, who know coordinators and no logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

BATCHED_SINCE: Final = 4
"""AddPartitionsToTxn of several transactions: the version of brokers."""

FENCED_SINCE: Final[dict[type, int]] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""From these versions on clients know PRODUCER_FENCED."""

APPEND_ANSWER: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client is told when the log refused."""


def error_response(request: Any, error: ErrorCode, api_version: int) -> Any:
    """The reply to `request` that says `error` and nothing else."""
    known = told(type(request), error, api_version)
    return _SHAPES[type(request)](request, APPEND_ANSWER.get(known, known), api_version)


def told(request_class: type, error: ErrorCode, api_version: int) -> ErrorCode:
    """`error` as a client of this version knows it."""
    is_new = error is ErrorCode.PRODUCER_FENCED and api_version < FENCED_SINCE.get(request_class, 0)
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else error


def topic_results(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """What was asked, and the error of each (topic, index)."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=error_of(topic.name, index)
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _init(request: InitProducerIdRequest, error: ErrorCode, api_version: int) -> Any:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


def _add_partitions(request: AddPartitionsToTxnRequest, error: ErrorCode, api_version: int) -> Any:
    if api_version < BATCHED_SINCE:
        results = topic_results(request.v3_and_below_topics, lambda topic, index: error)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=topic_results(one.topics, lambda topic, index: error),
            )
            for one in request.transactions
        ]
    )


def _add_offsets(request: AddOffsetsToTxnRequest, error: ErrorCode, api_version: int) -> Any:
    return AddOffsetsToTxnResponse(error_code=error)


def _end(request: EndTxnRequest, error: ErrorCode, api_version: int) -> Any:
    return EndTxnResponse(error_code=error)


def _describe(request: DescribeTransactionsRequest, error: ErrorCode, api_version: int) -> Any:
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribedTransaction(error_code=error, transactional_id=each)
            for each in request.transactional_ids
        ]
    )


def _list(request: ListTransactionsRequest, error: ErrorCode, api_version: int) -> Any:
    return ListTransactionsResponse(error_code=error)


_SHAPES: Final[dict[type, Callable[[Any, ErrorCode, int], Any]]] = {
    InitProducerIdRequest: _init,
    AddPartitionsToTxnRequest: _add_partitions,
    AddOffsetsToTxnRequest: _add_offsets,
    EndTxnRequest: _end,
    DescribeTransactionsRequest: _describe,
    ListTransactionsRequest: _list,
}
