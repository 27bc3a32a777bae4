"""ListConfigResources (key 74): what has settings: groups, client metrics subscriptions, the broker, topics.

Of groups those that something is set for.
"""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import Broker, ClientRequest
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import ConfigResourceType
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KINDS_SINCE: Final = 1  # Version 0 lists client metrics subscriptions only.
KINDS: Final = frozenset(ConfigResourceType)


def handle(broker: Broker, request: ListConfigResourcesRequest, pending: ClientRequest) -> None:
    """List the resources of the kinds asked for (none: all kinds). Error: UNSUPPORTED_VERSION (unknown kind)."""
    asked = set(request.resource_types)
    if pending.api_version < KINDS_SINCE:
        only = {int(ConfigResourceType.CLIENT_METRICS)}
        pending.reply(ListConfigResourcesResponse(config_resources=_resources(broker, only)))
    elif asked - KINDS:
        pending.reply(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    else:
        pending.reply(ListConfigResourcesResponse(config_resources=_resources(broker, asked or set(KINDS))))


def _resources(broker: Broker, kinds: set[int]) -> list[ConfigResource]:
    found: list[tuple[str, ConfigResourceType]] = []
    if ConfigResourceType.GROUP in kinds:
        found += [(group_id, ConfigResourceType.GROUP) for group_id in sorted(broker.registry.groups.all())]
    if ConfigResourceType.CLIENT_METRICS in kinds:
        subscriptions = sorted(broker.registry.client_metrics.all())
        found += [(name, ConfigResourceType.CLIENT_METRICS) for name in subscriptions]
    if ConfigResourceType.BROKER in kinds:
        found.append((str(broker.settings.node_id), ConfigResourceType.BROKER))
    if ConfigResourceType.TOPIC in kinds:
        found += [(topic.name, ConfigResourceType.TOPIC) for topic in broker.registry.all()]
    return [ConfigResource(resource_name=name, resource_type=kind) for name, kind in found]
