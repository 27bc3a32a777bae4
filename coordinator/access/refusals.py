"""The errors with which Kafka refuses what a client has no right to do."""

from __future__ import annotations

from typing import Final

from coordinator.security.acls import ResourceType
from protocol.errors import ErrorCode

REFUSAL: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""By the type of the resource."""
