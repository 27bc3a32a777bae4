"""DescribeTransactions (key 65): the state of the transactions of given transactional ids (KIP-664)."""

from __future__ import annotations

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import STATE_NAMES
from coordinator.transactions.transaction import by_topic
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionTopic,
)


def describe_transactions(
    shard: ShardTransactions, request: DescribeTransactionsRequest, context: RequestContext, at: Moment
) -> Result:
    """Describe each transactional id named. Errors, per id: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
    described = [_describe(shard.transactions, each) for each in request.transactional_ids]
    response = DescribeTransactionsResponse(transaction_states=described)
    return Result(replies=(Reply(context.reply_to, response),))


def _describe(transactions: Transactions, transactional_id: str) -> DescribedTransaction:
    found = transactions.get(transactional_id)
    if found is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(transactional_id=transactional_id, error_code=error)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=STATE_NAMES[found.state],
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_wall_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TransactionTopic(topic=topic.topic, partitions=topic.partition_ids)
            for topic in by_topic(found.partitions)
        ],
    )
