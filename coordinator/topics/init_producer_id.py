"""InitProducerId (key 22): an id for an idempotent producer (KIP-98, KIP-360).

A producer without a transactional id is always given a fresh id with epoch 0, also where it names the one it
had: nobody but itself could be fenced by a raised epoch. Transactions are not served yet.
"""

from __future__ import annotations

import structlog

from coordinator.topics.broker import Broker, Pending
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE_YET = -1

log = structlog.get_logger("muster.topics")


def handle(broker: Broker, request: InitProducerIdRequest, pending: Pending) -> None:
    """Give a producer id.

    Errors: INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS (the disk failed: try again),
    UNSUPPORTED_VERSION (a transactional id; clients take it for final).
    """
    if error := _error(request):
        if error is ErrorCode.UNSUPPORTED_VERSION:
            log.warning("transactions are not served", transactional_id=request.transactional_id)
        _refuse(pending, error)
        return

    def given(producer_id: int | None) -> None:
        if producer_id is None:
            _refuse(pending, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            pending.reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    broker.producer_ids.give(given)


def _error(request: InitProducerIdRequest) -> ErrorCode:
    if (request.producer_id == NONE_YET) != (request.producer_epoch == NONE_YET):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    return ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST


def _refuse(pending: Pending, error: ErrorCode) -> None:
    pending.reply(InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))
