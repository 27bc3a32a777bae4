"""GetTelemetrySubscriptions (key 71) and PushTelemetry (key 72): clients push metrics (KIP-714).

Errors are Kafka's, in its order of checks. A push is inflated and decoded on a thread of its own.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from coordinator.metrics.bounded_log import BoundedLog
from coordinator.telemetry.decode_queue import DecodeQueue, Push
from coordinator.telemetry.instances import RETRIED_AT_ONCE, ClientInstance, ClientInstances, expiry_ms
from coordinator.telemetry.payload import NotMetrics, Said, decode_push
from coordinator.telemetry.reports import ClientReports, Report, origin_of
from coordinator.telemetry.subscriptions import MAX_ATTRIBUTE_CHARS, ClientAttributes
from protocol.codec.primitives import ZERO_UUID
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.records.batch import Codec, CorruptBatch

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The codecs that clients may use, the one to be preferred first; a push without any is accepted too."""

RESERVED: Final = frozenset({ZERO_UUID, bytes(15) + b"\1"})
"""UUIDs that no client has."""

LOGGED_CHARS: Final = 256
"""Of a client's id that the daemon's log names."""

LINES_PER_SECOND: Final = 5
"""Of the log, about pushes that are not taken."""

THROTTLED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED

_CODECS: Final = frozenset(Codec)

log = structlog.get_logger("muster.telemetry")


class TelemetryConnection(Hashable, Protocol):
    """The connection that a request came on."""

    @property
    def peer(self) -> str:
        """The address and port of the client: "127.0.0.1:51234"."""

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version of the client's library, as it gave them with ApiVersions (KIP-511)."""


class TelemetryRequest(Protocol):
    """One request that waits for its answer: the server's `Pending`."""

    @property
    def connection(self) -> Any:
        """A `TelemetryConnection`."""

    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    def reply(self, response: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class TelemetryServices:
    """What the two handlers need."""

    instances: ClientInstances
    reports: ClientReports
    queue: DecodeQueue
    now_ms: Callable[[], int]
    max_bytes: int
    random_bytes: Callable[[int], bytes] = os.urandom


class TelemetryApis:
    """The handlers of both APIs."""

    def __init__(self, services: TelemetryServices) -> None:
        self._services = services
        self._instances = services.instances
        self._refusals = BoundedLog(log.warning, services.now_ms, LINES_PER_SECOND)

    def get_subscriptions(self, request: GetTelemetrySubscriptionsRequest, pending: TelemetryRequest) -> None:
        """Say what the client is asked for, and hand out its id if it has none.

        Error: THROTTLING_QUOTA_EXCEEDED (an interval has not passed since its last request or push).
        """
        now_ms = self._services.now_ms()
        instance = self._instance(request.client_instance_id, pending, now_ms)
        if not instance.may_ask(now_ms) and instance.last_error not in RETRIED_AT_ONCE:
            pending.reply(GetTelemetrySubscriptionsResponse(error_code=THROTTLED))
            return
        instance.last_error = ErrorCode.NONE
        pending.reply(
            GetTelemetrySubscriptionsResponse(
                client_instance_id=instance.client_instance_id,
                subscription_id=instance.asked_for.subscription_id,
                accepted_compression_types=list(ACCEPTED),
                push_interval_ms=instance.asked_for.push_interval_ms,
                telemetry_max_bytes=self._services.max_bytes,
                delta_temporality=True,
                requested_metrics=list(self._instances.metrics(instance)),
            )
        )

    def push(self, request: PushTelemetryRequest, pending: TelemetryRequest) -> None:
        """Take what the client pushes.

        Errors: INVALID_REQUEST (a reserved id; a push after the last one), THROTTLING_QUOTA_EXCEEDED (early; too
        many pushes wait), UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE,
        INVALID_RECORD (does not inflate, to no more than a push may have, or is no metrics).
        """
        if request.client_instance_id in RESERVED:
            pending.reply(PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        now_ms = self._services.now_ms()
        instance = self._instance(request.client_instance_id, pending, now_ms)
        error = self._error(request, instance, pending.client_host, now_ms)
        instance.is_terminating = request.terminating  # Also if it was refused, as in Kafka.
        instance.last_error = error
        if error or not request.metrics:
            pending.reply(PushTelemetryResponse(error_code=error))
            return
        kind, metrics, most = request.compression_type, bytes(request.metrics), self._services.max_bytes
        self._services.queue.add(
            Push(
                pending.client_host,
                lambda: decode_push(kind, metrics, most),
                lambda decoded: self._on_decoded(instance, pending, now_ms, decoded),
                lambda: pending.reply(PushTelemetryResponse(error_code=THROTTLED)),
            )
        )

    def _error(
        self, request: PushTelemetryRequest, instance: ClientInstance, client_host: str, now_ms: int
    ) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not request.terminating:
            return THROTTLED
        if request.subscription_id != instance.asked_for.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression_type not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > self._services.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        has_room = not request.metrics or self._services.queue.has_room_for(client_host)
        return ErrorCode.NONE if has_room else THROTTLED

    def _on_decoded(
        self, instance: ClientInstance, pending: TelemetryRequest, at_ms: int, decoded: Future[Said]
    ) -> None:
        try:
            said = decoded.result()
        # What the thread raised: none of it may leave the client without an answer.
        except Exception as error:
            self._refuse(instance, pending, error)
            return
        origin = origin_of(pending.client_id, pending.client_host)
        until_ms = at_ms + expiry_ms(instance.asked_for.push_interval_ms)
        self._services.reports.add(instance.client_instance_id, Report(origin, said, at_ms, until_ms))
        pending.reply(PushTelemetryResponse())

    def _refuse(self, instance: ClientInstance, pending: TelemetryRequest, error: Exception) -> None:
        """Answer a push that could not be read; for any error but two that is a bug, and the log has its trace."""
        self._refusals.write(
            "metrics of a client not taken",
            lambda: {
                "client": pending.client_id[:LOGGED_CHARS],
                "host": pending.client_host,
                "error": str(error),
                "exc_info": None if isinstance(error, (CorruptBatch, NotMetrics)) else error,
            },
        )
        instance.last_error = ErrorCode.INVALID_RECORD
        pending.reply(PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD))

    def _instance(self, client_instance_id: bytes, pending: TelemetryRequest, now_ms: int) -> ClientInstance:
        if client_instance_id == ZERO_UUID:
            client_instance_id = self._new_id()
        attributes = _attributes(client_instance_id, pending)
        return self._instances.get(client_instance_id, attributes, pending.connection, now_ms)

    def _new_id(self) -> bytes:
        """Return a UUID of version 4 that no client has, and that does not begin with "-" where it is shown."""
        while True:
            made = bytearray(self._services.random_bytes(16))
            made[6], made[8] = made[6] & 0x0F | 0x40, made[8] & 0x3F | 0x80
            if not shown_id(made).startswith("-") and bytes(made) not in self._instances:
                return bytes(made)


def shown_id(client_instance_id: bytes | bytearray) -> str:
    """A client's id as Kafka shows a UUID."""
    return urlsafe_b64encode(client_instance_id).decode().rstrip("=")


def _attributes(client_instance_id: bytes, pending: TelemetryRequest) -> ClientAttributes:
    connection: TelemetryConnection = pending.connection
    address, _, port = connection.peer.rpartition(":")
    client_id = pending.client_id[: MAX_ATTRIBUTE_CHARS + 1]  # One more: it still is too long to match.
    return ClientAttributes(
        shown_id(client_instance_id), client_id, *connection.client_software, address, port
    )
