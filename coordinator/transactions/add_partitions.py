"""AddPartitionsToTxn (key 24) and AddOffsetsToTxn (key 25): add partitions to a transaction (KIP-98, 890).

The first partition begins the transaction. A classic client adds a partition before it produces to it; from
protocol v2 on the partition's broker asks for that, for several transactions at once, or only asks whether the
partition is part of one. If one partition cannot be added none is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coordinator.effects import NOTHING, Moment, Reply, RequestContext, Result, combine
from coordinator.transactions import steps
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import ONGOING, PREPARING
from coordinator.transactions.timers import arm_transaction_timer
from coordinator.transactions.transaction import Transaction, by_topic
from coordinator.transactions.transaction_settings import RECORD_RESERVE_BYTES
from protocol.error_responses import error_response, known_error
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.topic_partition import TopicPartition

BATCHED_SINCE: Final = 4
"""First version of AddPartitionsToTxn with several transactions, which brokers send."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Topics that clients may not add to a transaction; `__consumer_offsets` is added by AddOffsetsToTxn."""

CLASSIC_VERSION: Final = 0
"""The version of the transaction protocol that is stored for clients that add partitions by themselves."""

TOPIC_OVERHEAD_BYTES: Final = 12
"""The most bytes that a topic takes in the record beside its name and 4 bytes for each partition."""


def add_partitions(
    shard: ShardTransactions, request: AddPartitionsToTxnRequest, context: RequestContext, at: Moment
) -> Result:
    """Add partitions to one or several transactions, or verify that they are part of them.

    Errors, per partition: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
    CONCURRENT_TRANSACTIONS, UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED (another partition failed),
    TOPIC_AUTHORIZATION_FAILED (an internal topic), UNKNOWN_SERVER_ERROR (too many for one record), and with
    `verify_only` TRANSACTION_ABORTABLE.
    """
    if context.api_version < BATCHED_SINCE:
        results, result = _handle_one(shard, _only_transaction(request), context.api_version, at)
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    else:
        response, result = AddPartitionsToTxnResponse(), NOTHING
        seen: set[str] = set()
        for transaction in request.transactions:
            if transaction.transactional_id in seen:
                continue  # A repeated id: the records of its first entry are not replayed yet.
            seen.add(transaction.transactional_id)
            results, more = _handle_one(shard, transaction, context.api_version, at)
            result = combine((result, more))
            answer = AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=results
            )
            response.results_by_transaction.append(answer)
    return result + Result(replies=(Reply(context.reply_to, response),))


def add_offsets(
    shard: ShardTransactions, request: AddOffsetsToTxnRequest, context: RequestContext, at: Moment
) -> Result:
    """Add the group's partition of `__consumer_offsets`.

    Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    UNKNOWN_SERVER_ERROR (too many partitions for one record).
    """
    partition = TopicPartition(OFFSETS_TOPIC, shard.deps.offsets_partition(request.group_id))
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )
    outcome = _add(shard, transaction, frozenset({partition}), CLASSIC_VERSION, at)
    if isinstance(outcome, ErrorCode):
        refusal = error_response(request, outcome, context.api_version)
        return Result(replies=(Reply(context.reply_to, refusal),))
    return outcome + Result(replies=(Reply(context.reply_to, AddOffsetsToTxnResponse()),))


def _handle_one(
    shard: ShardTransactions, asked: AddPartitionsToTxnTransaction, api_version: int, at: Moment
) -> tuple[list[AddPartitionsToTxnTopicResult], Result]:
    """Handle one transaction of the request; return its partitions' errors, and the effects."""
    wrong = _wrong_partitions(shard, asked.topics, api_version)
    if wrong:
        rest = ErrorCode.OPERATION_NOT_ATTEMPTED
        return _topic_results(asked.topics, lambda *which: wrong.get(TopicPartition(*which), rest)), NOTHING
    if asked.verify_only:
        verified = _verify(shard, asked)
        return _topic_results(asked.topics, lambda *which: verified[TopicPartition(*which)]), NOTHING
    return _add_and_answer(shard, asked, api_version, at)


def _add_and_answer(
    shard: ShardTransactions, asked: AddPartitionsToTxnTransaction, api_version: int, at: Moment
) -> tuple[list[AddPartitionsToTxnTopicResult], Result]:
    is_batched = api_version >= BATCHED_SINCE
    client_version = steps.BUMPING_VERSION if is_batched else CLASSIC_VERSION
    outcome = _add(shard, asked, _partitions(asked.topics), client_version, at)
    result, error = (outcome, ErrorCode.NONE) if isinstance(outcome, Result) else (NOTHING, outcome)
    error = known_error(AddPartitionsToTxnRequest, error, api_version)
    return _topic_results(asked.topics, lambda *which: error), result


def _add(
    shard: ShardTransactions,
    asked: AddPartitionsToTxnTransaction,
    partitions: frozenset[TopicPartition],
    client_version: int,
    at: Moment,
) -> Result | ErrorCode:
    before = _transaction_for(shard, asked)
    if isinstance(before, ErrorCode):
        return before
    if before.state is ONGOING and partitions <= before.partitions:
        return NOTHING
    after = steps.add_partitions(before, partitions, client_version, at.wall_ms)
    if _record_bytes(after) > shard.settings.max_record_bytes - RECORD_RESERVE_BYTES:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    begun = () if before.state is ONGOING else (arm_transaction_timer(after, at.now_ms),)
    return Result(records=(shard.transactions.new_record(after),), timers=begun)


def _transaction_for(
    shard: ShardTransactions, asked: AddPartitionsToTxnTransaction
) -> Transaction | ErrorCode:
    """Return the transaction to add to, or the error why this producer may not."""
    if not asked.transactional_id:
        return ErrorCode.INVALID_REQUEST
    found = shard.transactions.get(asked.transactional_id)
    if found is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.state in PREPARING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _producer_error(found, asked) or found


def _verify(
    shard: ShardTransactions, asked: AddPartitionsToTxnTransaction
) -> dict[TopicPartition, ErrorCode]:
    """Return, by partition, NONE if it is part of the transaction, else an error; changes nothing."""
    found = shard.transactions.get(asked.transactional_id)
    error = _verification_error(found, asked)
    part_of = frozenset() if found is None else found.partitions
    return {
        which: error or (ErrorCode.NONE if which in part_of else ErrorCode.TRANSACTION_ABORTABLE)
        for which in _partitions(asked.topics)
    }


def _wrong_partitions(
    shard: ShardTransactions, topics: list[AddPartitionsToTxnTopic], api_version: int
) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that no transaction may have, each with its error."""
    wrong = {}
    for topic in topics:
        count = shard.deps.partition_count(topic.name) or 0
        for index in topic.partitions:
            if api_version < BATCHED_SINCE and topic.name in INTERNAL_TOPICS:
                wrong[TopicPartition(topic.name, index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= index < count:
                wrong[TopicPartition(topic.name, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return wrong


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """Return the one transaction of a request of version 3 or older, in the form of later versions."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _topic_results(
    topics: list[AddPartitionsToTxnTopic], error_of: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """Return the response's rows for `topics`; `error_of(topic, index)` gives each partition's error."""
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


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _producer_error(found: Transaction, asked: AddPartitionsToTxnTransaction) -> ErrorCode:
    if found.producer_id != asked.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != asked.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _verification_error(found: Transaction | None, asked: AddPartitionsToTxnTransaction) -> ErrorCode:
    if not asked.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if found is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if error := _producer_error(found, asked):
        return error
    return ErrorCode.CONCURRENT_TRANSACTIONS if found.state in PREPARING else ErrorCode.NONE


def _record_bytes(transaction: Transaction) -> int:
    """Return an upper bound of the bytes that `transaction` takes in the log."""
    topics = by_topic(transaction.partitions)
    names = sum(len(topic.topic.encode()) + TOPIC_OVERHEAD_BYTES for topic in topics)
    return len(transaction.transactional_id.encode()) + names + 4 * len(transaction.partitions)
