"""DescribeCluster (key 60): the brokers and the cluster's id, for admin clients (KIP-700).

Flexible from its first version.

| version | what is new |
|---|---|
| 1 | whether brokers or controllers are asked for (KIP-919) |
| 2 | brokers that are fenced, on demand (KIP-1073) |
"""

from dataclasses import field

from protocol.codec.codec import request, response, since, struct
from protocol.codec.primitives import Int8, Int16, Int32
from protocol.messages.authorized_operations import OPERATIONS_NOT_ASKED_FOR


@request(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """What to describe. `endpoint_type`: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


@struct
class DescribeClusterBroker:
    """One node, at the address of the listener that was asked."""

    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: bool = since(2, default=False)


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster as the asked listener shows it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None

    endpoint_type: Int8 = since(1, default=1)
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = OPERATIONS_NOT_ASKED_FOR
