"""The quota of partitions that a client may have made and removed (KIP-599)."""

from __future__ import annotations

from coordinator.data.broker import ClientRequest
from coordinator.topics.refusal import Refused
from protocol.errors import ErrorCode


def take_partitions(pending: ClientRequest, count: int, strict_since: int) -> None:
    """Take the permits to make or remove `count` partitions; requests of earlier versions pass and are throttled.

    Raises Refused: THROTTLING_QUOTA_EXCEEDED. Called when nothing else is wrong with what is asked for (Q13).
    """
    meter = pending.meter
    if meter is not None and not meter.take_partitions(count, pending.api_version >= strict_since):
        raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
