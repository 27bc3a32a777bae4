"""The check of Produce: the one API whose refusal may have to be a closed connection (acks=0)."""

from __future__ import annotations

from typing import Final

from coordinator.access.asker import Asker
from coordinator.access.verdict import Verdict, interleaved, passes
from coordinator.data.produce_checks import has_transactional_records
from coordinator.security.acls import Operation
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

NO_ACKS: Final = 0
NO_OFFSET: Final = -1
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def check_produce(request: ProduceRequest, asker: Asker) -> Verdict:
    """Produce: WRITE of the transactional id, if records are part of a transaction; then WRITE of each topic."""
    if has_transactional_records(request):
        transactional_id = request.transactional_id
        if transactional_id is None or not asker.may_transaction(Operation.WRITE, transactional_id):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            rows = [_refused(topic, error) for topic in request.topic_data]
            return Verdict(response=ProduceResponse(responses=rows), silence=_silence(request, error))
    names = {id(topic): _name(topic, asker) for topic in request.topic_data}
    denied = asker.denied_topics(Operation.WRITE, [name for name in names.values() if name is not None])
    if not denied:
        return passes(request)
    refused_topics = {key for key, name in names.items() if name in denied}

    def refusal(topic: TopicProduceData) -> TopicProduceResponse | None:
        return _refused(topic, DENIED) if id(topic) in refused_topics else None

    def complete(response: ProduceResponse) -> ProduceResponse:
        return ProduceResponse(
            responses=list(interleaved(request.topic_data, refusal, response.responses)),
            node_endpoints=response.node_endpoints,
        )

    allowed = ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[topic for topic in request.topic_data if id(topic) not in refused_topics],
    )
    return Verdict(allowed, complete=complete, silence=_silence(request, DENIED))


def _name(topic: TopicProduceData, asker: Asker) -> str | None:
    """The topic's name, known also where there is no such topic; None for an id that is not known."""
    return topic.name if topic.topic_id == ZERO_UUID else asker.name_of(topic.topic_id)


def _silence(request: ProduceRequest, error: ErrorCode) -> str:
    return f"refused with acks=0: {error.name}" if request.acks == NO_ACKS else ""


def _refused(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=NO_OFFSET)
            for data in topic.partition_data
        ],
    )
