"""Whether brokers are new enough: each has to serve the versions that are asked of it here.

The versions are those of the modules that ask: what one of them needs is what a start looks for. A broker that
lacks one would let a node start and never own anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator.backing.kafka.cluster import (
    WITH_LEADER_EPOCHS,
    BackingCluster,
    BackingError,
    TooOldError,
    error_of,
    too_old,
)
from coordinator.backing.kafka.sender import PRODUCE_BY_ID
from coordinator.backing.kafka.tail import FETCH_BY_ID
from coordinator.backing.kafka.topic_watch import BY_ID, WITH_IDS
from protocol.codec.codec import spec
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest

NEEDED: Final[Mapping[type, int]] = {
    ProduceRequest: PRODUCE_BY_ID,
    FetchRequest: FETCH_BY_ID,
    MetadataRequest: max(WITH_LEADER_EPOCHS, WITH_IDS, BY_ID),
}
"""The lowest version of a request that will do."""


async def check_versions(cluster: BackingCluster) -> None:
    """Ask every broker. Raises BackingError, in one sentence, if one is too old."""
    for node_id in cluster.node_ids:
        await check_version_of(cluster, node_id)


async def api_versions(cluster: BackingCluster, node_id: int) -> ApiVersionsResponse:
    """What a broker serves. Raises BackingError, also if it does not say."""
    asked = ApiVersionsRequest(client_software_name="muster", client_software_version="1")
    answer: ApiVersionsResponse = await cluster.ask(node_id, asked)
    if answer.error_code != ErrorCode.NONE:
        raise BackingError(f"ApiVersions of broker {node_id}: {error_of(answer.error_code).name}")
    return answer


async def check_version_of(cluster: BackingCluster, node_id: int) -> None:
    """Raises TooOldError if a broker is; BackingError if it does not say."""
    answer = await api_versions(cluster, node_id)
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for message, needed in NEEDED.items():
        ours = spec(message)
        assert ours.api_key is not None, "it is a request"
        lowest, highest = served.get(ours.api_key, (0, -1))
        if min(highest, ours.max_version) < max(lowest, needed):
            place = cluster.brokers[node_id]
            broker = f"broker {node_id}, {place.host}:{place.port},"
            name = message.__name__.removesuffix("Request")
            raise TooOldError(too_old(broker, name, (lowest, highest), (needed, ours.max_version)))
