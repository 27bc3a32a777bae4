"""ListTransactions (key 66): the transactional ids of this shard that pass every filter (KIP-664, 994, 1152)."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.transactions.patterns import InvalidPattern, Pattern
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import STATE_NAMES
from coordinator.transactions.transaction import Transaction
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

STATES_BY_NAME = {name: state for state, name in STATE_NAMES.items()}


def list_transactions(
    shard: ShardTransactions, request: ListTransactionsRequest, context: RequestContext, at: Moment
) -> Result:
    """List the transactions that pass every filter; an unknown state in a filter is reported.

    Errors: INVALID_REGULAR_EXPRESSION.
    """
    try:
        passes = _filter(request, at.wall_ms)
        states = [_listed(transaction) for transaction in shard.transactions if passes(transaction)]
        response = ListTransactionsResponse(
            unknown_state_filters=unknown_states(request), transaction_states=states
        )
    except InvalidPattern:
        response = ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    return Result(replies=(Reply(context.reply_to, response),))


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Return the state filters that name no known state, each once, in the order of the request."""
    return list(dict.fromkeys(name for name in request.state_filters if name not in STATES_BY_NAME))


def _filter(request: ListTransactionsRequest, wall_ms: int) -> Callable[[Transaction], bool]:
    """Return whether a transaction passes every filter, as a function. Raises InvalidPattern."""
    states = {STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME}
    producer_ids = set(request.producer_id_filters)
    pattern = Pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def passes(transaction: Transaction) -> bool:
        if producer_ids and transaction.producer_id not in producer_ids:
            return False
        if request.state_filters and transaction.state not in states:
            return False
        lasted_ms = wall_ms - transaction.start_wall_ms
        if request.duration_filter >= 0 and lasted_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.matches(transaction.transactional_id)

    return passes


def _listed(transaction: Transaction) -> ListedTransaction:
    return ListedTransaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=STATE_NAMES[transaction.state],
    )
