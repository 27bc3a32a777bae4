"""What a request in place of SaslAuthenticate is answered: its own error response, as Kafka makes it (S6).

Most follow from the schemas. These do not: what their responses hold beside the error, or in versions that have no
error for the whole, is Kafka's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from protocol.error_responses import error_response
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.produce import ProduceRequest

ERROR: Final = ErrorCode.ILLEGAL_SASL_STATE
TEXT: Final = "Request is not valid given the current SASL state."
PRODUCE_TEXT: Final = "Unexpected Kafka request of type PRODUCE during SASL authentication."

FETCH_WITHOUT_ROWS_SINCE: Final = 13
COORDINATORS_SINCE: Final = 4


def out_of_order(request: Any, version: int) -> Any:
    """Return the answer to a request that is no SaslAuthenticate; None if its client wants no answers."""
    make = _OWN.get(type(request))
    return error_response(request, ERROR, version) if make is None else make(request, version)


def _produce(request: ProduceRequest, version: int) -> Any:
    if request.acks == 0:
        return None
    response = error_response(request, ERROR, version)
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.error_message = PRODUCE_TEXT
    return response


def _fetch(request: FetchRequest, version: int) -> FetchResponse:
    """Older clients read the error of each partition, whatever is said of the whole."""
    rows = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(partition_index=each.partition, error_code=ERROR, high_watermark=-1)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if version < FETCH_WITHOUT_ROWS_SINCE
    ]
    return FetchResponse(error_code=ERROR, session_id=request.session_id, responses=rows)


def _metadata(request: MetadataRequest, _version: int) -> MetadataResponse:
    rows = [
        MetadataResponseTopic(error_code=ERROR, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(error_code=ERROR, topics=rows)


def _find_coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    if version < COORDINATORS_SINCE:
        return FindCoordinatorResponse(error_code=ERROR, error_message=TEXT, node_id=-1, host="", port=-1)
    rows = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=ERROR, error_message=TEXT)
        for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=rows)


def _alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, _version: int
) -> AlterReplicaLogDirsResponse:
    rows = [
        AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=[
                AlterReplicaLogDirPartitionResult(partition_index=each, error_code=ERROR)
                for each in topic.partitions
            ],
        )
        for each_dir in request.dirs
        for topic in each_dir.topics
    ]
    return AlterReplicaLogDirsResponse(results=rows)


def _describe_log_dirs(_request: DescribeLogDirsRequest, _version: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=ERROR)  # Versions before 3 say nothing of it.


def _alter_client_quotas(request: AlterClientQuotasRequest, _version: int) -> AlterClientQuotasResponse:
    rows = [
        AlteredEntryData(error_code=ERROR, error_message=TEXT, entity=each.entity) for each in request.entries
    ]
    return AlterClientQuotasResponse(entries=rows)


_OWN: Final[dict[type, Callable[[Any, int], Any]]] = {
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    MetadataRequest: _metadata,
    FindCoordinatorRequest: _find_coordinator,
    AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    DescribeLogDirsRequest: _describe_log_dirs,
    AlterClientQuotasRequest: _alter_client_quotas,
}
