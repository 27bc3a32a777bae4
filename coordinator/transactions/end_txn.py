"""EndTxn (key 26): commit or abort (KIP-98), in the classic protocol and in transactions v2 (KIP-890).

A classic producer keeps its epoch, so the state alone shows whether a request is repeated. In v2 each end of a
transaction raises the epoch: a request with the old epoch is a repetition, one with the present epoch is about
the next transaction, which a client that is not sure whether it has begun may abort.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from coordinator.effects import Moment, Reply, RequestContext, Result
from coordinator.transactions import steps
from coordinator.transactions.add_partitions import CLASSIC_VERSION
from coordinator.transactions.ending import end_transaction
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARING,
    TransactionStatus,
)
from coordinator.transactions.transaction import LAST_EPOCH, Transaction
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

BUMPING_SINCE: Final = 5
"""First version of EndTxn of clients that use transactions v2."""


class Outcome(Enum):
    """What a valid request does; any other gets INVALID_TXN_STATE."""

    END = auto()
    ALREADY_ENDED = auto()  # The same request has ended it before.


CLASSIC_OUTCOMES: Final[dict[tuple[TransactionStatus, bool], Outcome]] = {
    (ONGOING, True): Outcome.END,
    (ONGOING, False): Outcome.END,
    (COMPLETE_COMMIT, True): Outcome.ALREADY_ENDED,
    (COMPLETE_ABORT, False): Outcome.ALREADY_ENDED,
}
"""Classic protocol: the outcome by state and whether to commit."""

BUMPING_OUTCOMES: Final[dict[tuple[TransactionStatus, bool, bool], Outcome]] = {
    (ONGOING, True, False): Outcome.END,
    (ONGOING, False, False): Outcome.END,
    (EMPTY, False, False): Outcome.END,
    (COMPLETE_COMMIT, False, False): Outcome.END,
    (COMPLETE_ABORT, False, False): Outcome.END,
    (COMPLETE_COMMIT, True, True): Outcome.ALREADY_ENDED,
    (COMPLETE_ABORT, False, True): Outcome.ALREADY_ENDED,
}
"""Transactions v2: the outcome by state, whether to commit, and whether the request is repeated."""


def end_txn(shard: ShardTransactions, request: EndTxnRequest, context: RequestContext, at: Moment) -> Result:
    """End the transaction; the answer waits until the outcome is durable, not for the markers.

    Errors: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (its end is
    under way), INVALID_TXN_STATE, COORDINATOR_LOAD_IN_PROGRESS (no producer id available).
    """
    version = context.api_version
    outcome = _end(shard, request, version, at)
    if isinstance(outcome, ErrorCode):
        return Result(replies=(Reply(context.reply_to, error_response(request, outcome, version)),))
    result, producer = outcome
    answer = EndTxnResponse()
    if version >= BUMPING_SINCE:
        answer = EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
    return result + Result(replies=(Reply(context.reply_to, answer),))


def _end(
    shard: ShardTransactions, request: EndTxnRequest, api_version: int, at: Moment
) -> tuple[Result, Transaction] | ErrorCode:
    """Return the effects of ending, and the transaction with the producer's next epoch; or the error."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    found = shard.transactions.get(request.transactional_id)
    if found is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_bumping = api_version >= BUMPING_SINCE
    outcome = _bumping_outcome(found, request) if is_bumping else _classic_outcome(found, request)
    if isinstance(outcome, ErrorCode):
        return outcome
    if outcome is Outcome.ALREADY_ENDED:
        return Result(), found
    client_version = steps.BUMPING_VERSION if is_bumping else CLASSIC_VERSION
    ended = end_transaction(shard, found, at, is_commit=request.committed, client_version=client_version)
    if isinstance(ended, ErrorCode):
        return ended
    result, prepared = ended
    return result, steps.complete(prepared, at.wall_ms)


def _classic_outcome(found: Transaction, request: EndTxnRequest) -> Outcome | ErrorCode:
    if found.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if found.state in PREPARING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return CLASSIC_OUTCOMES.get((found.state, request.committed), ErrorCode.INVALID_TXN_STATE)


def _bumping_outcome(found: Transaction, request: EndTxnRequest) -> Outcome | ErrorCode:
    if found.state in PREPARING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_repeated = _is_repeated(found, request)
    if found.producer_id != request.producer_id and not is_repeated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    has_ended = found.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    if not (is_repeated and has_ended) and found.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return BUMPING_OUTCOMES.get((found.state, request.committed, is_repeated), ErrorCode.INVALID_TXN_STATE)


def _is_repeated(found: Transaction, request: EndTxnRequest) -> bool:
    """Whether the request has the epoch before the last raise, or the producer id before the present one."""
    is_raised = found.producer_epoch == request.producer_epoch + 1
    if is_raised and found.producer_id == request.producer_id:
        return True
    is_rotated = request.producer_epoch == LAST_EPOCH - 1 and found.producer_epoch == 0
    return is_rotated and found.previous_producer_id == request.producer_id
