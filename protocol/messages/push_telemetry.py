"""PushTelemetry (key 72): metrics of the client itself, as OpenTelemetry's MetricsData v1 (KIP-714)."""

from protocol.codec.codec import request, response
from protocol.codec.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid


@request(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """Metrics, compressed as said; the last ones of a client that is `terminating`."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


@response(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    """Whether they were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
