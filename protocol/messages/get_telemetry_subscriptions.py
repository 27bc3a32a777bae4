"""GetTelemetrySubscriptions (key 71): which of its own metrics a client is to push, and how often (KIP-714)."""

from dataclasses import field

from protocol.codec.codec import request, response
from protocol.codec.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid


@request(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """The client's id; zero in its first request, which hands one out."""

    client_instance_id: Uuid = ZERO_UUID


@response(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """What the client is asked for: names of metrics by their beginnings; `*` stands for all, none for nothing."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
