"""InitProducerId (key 22): an id for an idempotent producer (KIP-98, KIP-360).

A producer without a transactional id always gets a new producer id with epoch 0, even if it names the one it had:
a higher epoch could fence no producer but itself. The transaction coordinator serves transactional producers.
"""

from __future__ import annotations

from coordinator.data.broker import Broker, ClientRequest
from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE_YET = -1


def handle(broker: Broker, request: InitProducerIdRequest, pending: ClientRequest) -> None:
    """Answer with a new producer id.

    Errors: INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS (the disk failed: try again).
    """
    if (request.producer_id == NONE_YET) != (request.producer_epoch == NONE_YET):
        pending.reply(error_response(request, ErrorCode.INVALID_REQUEST, pending.api_version))
        return

    def on_producer_id(producer_id: int | None) -> None:
        if producer_id is None:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            pending.reply(error_response(request, error, pending.api_version))
        else:
            pending.reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    broker.producer_ids.give(on_producer_id)
