"""UnregisterBroker (key 64): have the cluster forget a broker that is gone for good (KIP-500)."""

from protocol.codec.codec import request, response
from protocol.codec.primitives import Int16, Int32


@request(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """The broker to forget."""

    broker_id: Int32


@response(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """Whether the broker was unregistered, or the error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
