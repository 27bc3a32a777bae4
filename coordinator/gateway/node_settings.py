"""Settings of nodes that clients alter: none can be, and what a node does not have is removed already.

Tools that move replicas clear the throttles of every broker that is listed, and nodes are listed among them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsResourceResponse
from protocol.messages.describe_configs import ConfigResourceType
from protocol.messages.incremental_alter_configs import (
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

REFUSAL: Final = "a node of Muster has no settings that are altered while it runs"


def altered(
    request: IncrementalAlterConfigsRequest, node_ids: Collection[int]
) -> IncrementalAlterConfigsResponse | None:
    """The answer to a request that is about nodes alone, as clients ask about each broker by itself; else None."""
    names = {str(node_id) for node_id in node_ids}
    if not all(
        each.resource_type == ConfigResourceType.BROKER and each.resource_name in names
        for each in request.resources
    ):
        return None
    return IncrementalAlterConfigsResponse(responses=[_of_node(each) for each in request.resources])


def _of_node(resource: IncrementalAlterConfigsResource) -> AlterConfigsResourceResponse:
    removes = all(each.config_operation == ConfigOperation.DELETE for each in resource.configs)
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if removes else ErrorCode.INVALID_REQUEST,
        error_message=None if removes else REFUSAL,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
