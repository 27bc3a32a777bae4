"""InitProducerId (key 22) with a transactional id: begin as its producer (KIP-98, 360, 588, 890).

A new producer raises the epoch and so fences the one before it. If that one had a transaction under way, the
transaction is aborted first, and the client has to try again. A producer that names its id and epoch (KIP-360)
continues after an error, unless another producer has begun in between.
"""

from __future__ import annotations

from coordinator.effects import CoordinatorRecord, Moment, Reply, RequestContext, Result
from coordinator.transactions import steps
from coordinator.transactions.ending import end_transaction
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.states import ONGOING, PREPARING
from coordinator.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    is_exhausted,
    transaction_tombstone,
)
from coordinator.transactions.transaction_settings import (
    MAX_TRANSACTIONAL_IDS,
    TransactionDeps,
    TransactionSettings,
)
from coordinator.transactions.transactions import Transactions
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(
    shard: ShardTransactions, request: InitProducerIdRequest, context: RequestContext, at: Moment
) -> Result:
    """Answer with a producer id and epoch for the transactional id.

    Errors: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS (the end of an earlier
    transaction is under way), PRODUCER_FENCED, COORDINATOR_LOAD_IN_PROGRESS (no producer id available),
    UNKNOWN_SERVER_ERROR (a retry of a producer whose epochs are used up), COORDINATOR_NOT_AVAILABLE (there are
    too many transactional ids, and all have a transaction under way).
    """
    outcome = _init(shard, request, at)
    if isinstance(outcome, Result):
        refusal = error_response(request, ErrorCode.CONCURRENT_TRANSACTIONS, context.api_version)
        return outcome + Result(replies=(Reply(context.reply_to, refusal),))
    if isinstance(outcome, ErrorCode):
        return Result(
            replies=(Reply(context.reply_to, error_response(request, outcome, context.api_version)),)
        )
    made_room = _tombstones_to_make_room(shard.transactions, outcome.transactional_id)
    answer = InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)
    return Result(
        records=(*made_room, shard.transactions.new_record(outcome)),
        replies=(Reply(context.reply_to, answer),),
    )


def _init(
    shard: ShardTransactions, request: InitProducerIdRequest, at: Moment
) -> Transaction | Result | ErrorCode:
    """Return the transactional id's next state, or the effects of aborting its transaction, or an error."""
    if error := _request_error(request, shard.settings):
        return error
    before = shard.transactions.get(request.transactional_id or "")
    if before is None:
        return _new_producer(shard, request, at)
    if before.state in PREPARING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not _may_continue(before, request):
        return ErrorCode.PRODUCER_FENCED
    if before.state is ONGOING:
        ended = end_transaction(shard, before, at, is_commit=False)
        return ended if isinstance(ended, ErrorCode) else ended[0]
    return _next_producer(before, request, shard.deps, at)


def _request_error(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= settings.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _new_producer(
    shard: ShardTransactions, request: InitProducerIdRequest, at: Moment
) -> Transaction | ErrorCode:
    """Return the state of an unknown transactional id: with a new producer id, whatever the request names."""
    known = shard.transactions
    if len(known) >= MAX_TRANSACTIONAL_IDS and known.longest_at_rest() is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    producer_id = shard.deps.next_producer_id()
    if producer_id is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    timeout_ms = request.transaction_timeout_ms
    fresh = steps.new_transaction(request.transactional_id or "", producer_id, timeout_ms)
    return steps.init_producer(fresh, producer_id, 0, NO_EPOCH, timeout_ms, at.wall_ms)


def _tombstones_to_make_room(
    transactions: Transactions, transactional_id: str
) -> tuple[CoordinatorRecord, ...]:
    """If `transactional_id` would be one too many, return the tombstone of the id at rest for longest."""
    if transactions.get(transactional_id) is not None or len(transactions) < MAX_TRANSACTIONAL_IDS:
        return ()
    forgotten = transactions.longest_at_rest()
    assert forgotten is not None, "looked for before"
    return (transaction_tombstone(forgotten.transactional_id),)


def _may_continue(before: Transaction, request: InitProducerIdRequest) -> bool:
    """Whether the producer id that the request names, if any, is the present or the exhausted previous one."""
    if request.producer_id in (NO_PRODUCER_ID, before.producer_id):
        return True
    return request.producer_id == before.previous_producer_id and is_exhausted(request.producer_epoch)


def _next_producer(
    before: Transaction, request: InitProducerIdRequest, deps: TransactionDeps, at: Moment
) -> Transaction | ErrorCode:
    """Return the state with the next epoch, or a new id if epochs are used up; a repeat changes neither."""
    timeout_ms, epoch = request.transaction_timeout_ms, before.producer_epoch
    is_resumed = request.producer_id != NO_PRODUCER_ID
    if before.is_exhausted and (not is_resumed or request.producer_epoch == epoch):
        producer_id = deps.next_producer_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        last_epoch = epoch if is_resumed else NO_EPOCH
        return steps.init_producer(before, producer_id, 0, last_epoch, timeout_ms, at.wall_ms)
    if before.is_exhausted:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    next_epochs = _next_epochs(before, request)
    if next_epochs is None:
        return ErrorCode.PRODUCER_FENCED
    return steps.init_producer(before, before.producer_id, *next_epochs, timeout_ms, at.wall_ms)


def _next_epochs(before: Transaction, request: InitProducerIdRequest) -> tuple[int, int] | None:
    """Return the producer's epoch and its last epoch; None for a producer that has been fenced."""
    epoch = before.producer_epoch
    if request.producer_id == NO_PRODUCER_ID:
        return epoch + 1, NO_EPOCH
    if request.producer_epoch == epoch:
        return epoch + 1, epoch
    if request.producer_epoch == before.last_producer_epoch:
        return epoch, before.last_producer_epoch
    return None
