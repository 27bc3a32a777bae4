"""The right to change settings, of which the answer depends on what they are of (A22)."""

from __future__ import annotations

from typing import Final

from coordinator.data.broker import ClientRequest
from coordinator.security.acls import CLUSTER_NAME, Operation, ResourceType
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import ConfigResourceType

OF_CLUSTER: Final = (
    ResourceType.CLUSTER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "Cluster authorization failed.",
)
PROTECTED_BY: Final[dict[int, tuple[ResourceType, ErrorCode, str | None]]] = {
    int(ConfigResourceType.TOPIC): (
        ResourceType.TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "Topic authorization failed.",
    ),
    int(ConfigResourceType.GROUP): (
        ResourceType.GROUP,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        "Group authorization failed.",
    ),
    int(ConfigResourceType.BROKER): OF_CLUSTER,
    int(ConfigResourceType.BROKER_LOGGER): (*OF_CLUSTER[:2], None),
    int(ConfigResourceType.CLIENT_METRICS): OF_CLUSTER,
}
"""The type of resource that protects the settings of each kind, and with which error, in Kafka's words."""


def alteration_refused(kind: int, name: str, pending: ClientRequest) -> Refused | None:
    """Why the client may not change the settings of a resource of a known kind; None: it may."""
    if not pending.is_guarded:
        return None
    resource_type, error, words = PROTECTED_BY[kind]
    protected = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else name
    if pending.may(Operation.ALTER_CONFIGS, resource_type, protected):
        return None
    return Refused(error, words)
